"""Stored results of the version before are analysed to the same tables."""

import json

import pandas as pd
import pytest
from support.results.stored import RESULTS, TABLES

from storewise.analysis import analyse

NAMES = sorted(path.stem for path in TABLES.glob("*.csv"))


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    place = tmp_path_factory.mktemp("stored")
    analyse(RESULTS, place)
    return place


def test_there_is_something_of_most_tables():
    filled = [name for name in NAMES if len(table(TABLES, name))]
    assert len(filled) > len(NAMES) / 3


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_what_it_was(analysed, name):
    # Other processors and libraries may round the last digit otherwise.
    pd.testing.assert_frame_equal(table(analysed, name), table(TABLES, name), rtol=1e-7)


def test_the_verdict_is_what_it_was(analysed):
    assert verdict(analysed) == verdict(TABLES)


def table(place, name):
    return pd.read_csv(place / f"{name}.csv", keep_default_na=False, na_values=[""])


def verdict(place):
    text = (place / "verdict.json").read_text(encoding="utf-8")
    return json.loads(text, parse_float=lambda number: f"{float(number):.6g}")
