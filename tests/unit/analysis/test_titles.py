"""Stores are called what their servers said they are."""

import pytest
from support.results import synthetic

from storewise.analysis.common.engines import set_server_titles, title
from storewise.report.page.page import make_report


@pytest.fixture(autouse=True)
def _forgotten():
    yield
    set_server_titles([])


def test_the_page_calls_mysql_by_its_name(tmp_path):
    synthetic.make_study(tmp_path, engines=["mariadb", "sqlite"], workers=[1], repeats=2, nodes=[1])
    page = make_report(tmp_path).path.read_text()
    assert "MySQL" in page and "MariaDB" not in page


def test_the_server_that_ran_gives_its_name():
    set_server_titles(
        [("mariadb", "MariaDB 11.4"), ("mariadb", "MySQL 8.4"), ("valkey", "Redis 7.2")]
    )
    assert title("mariadb") == "MariaDB or MySQL"
    assert (title("valkey"), title("postgres")) == ("Redis", "PostgreSQL")
