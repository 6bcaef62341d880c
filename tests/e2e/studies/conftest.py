"""What tests of whole studies share. That of servers is in test_two_stores.py.

Tests that look at the study of embedded stores have the group `embedded`, so that one process
measures it for all.
"""

import shutil

import pytest
from support.embedded_study import NOWHERE, POSTGRES, measure
from support.workspace import Workspace


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    return measure(tmp_path_factory.mktemp("embedded"))


@pytest.fixture
def copy(measured, tmp_path, monkeypatch):
    """The measured study in a directory of its own, with all times as they were; the host still
    has no PostgreSQL."""
    monkeypatch.setenv(POSTGRES, NOWHERE)
    place = Workspace(tmp_path / "copy")
    shutil.copytree(measured.place.directory, place.directory, symlinks=True)
    return place
