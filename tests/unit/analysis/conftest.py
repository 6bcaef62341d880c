"""What tests of the analysis share."""

import pytest
from support.results.made import made

__all__ = ["made"]


@pytest.fixture(scope="session")
def served(made):
    """PostgreSQL on two hosts, its clients and SQLite on another; each was measured once."""
    engines, hosts = ["null", "sqlite", "postgres"], ["n1", "n2"]
    return made.measured(engines=engines, workers=[1], nodes=[2], store_hosts=hosts, repeats=1)
