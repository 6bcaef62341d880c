"""What tests of whole studies share: made-up studies, and one with all that a page can show."""

from typing import NamedTuple

import pytest
from support.results import synthetic
from support.results.made import made
from support.results.pages import EVIL, FACTORS, TAKEN, fail, publish_beside

from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.output import write_study
from storewise.report.page import page
from storewise.report.page.page import Report

__all__ = ["made"]


class Paged(NamedTuple):
    """A page, and the tables that it was made of; no test changes anything beside it."""

    report: Report
    tables: Tables


@pytest.fixture(scope="session")
def paged(tmp_path_factory):
    """Servers, an engine without a store, published figures, a failed trial, a failed attempt."""
    directory = tmp_path_factory.mktemp("results") / "demo"
    engines = ["null", "sqlite", "duckdb", "postgres"]
    trials = synthetic.make_study(directory, engines=engines, nodes=[1, 2])
    publish_beside(directory)
    synthetic.make_failed(directory, FACTORS, 1, f"disk full {EVIL}")
    fail(directory, trials[0], TAKEN)
    synthetic.make_inputs(directory, [(f"in/{EVIL}.m10", "12", "345", f"=cmd {EVIL}")])
    built = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "write_study", lambda *a: built.append(write_study(*a)) or built[-1])
        return Paged(page.make_report(directory), built[0][0])


@pytest.fixture(scope="session")
def report(paged):
    return paged.report


@pytest.fixture(scope="session")
def shown_study(paged):
    """The directory of the study that the page shows."""
    return paged.report.path.parent
