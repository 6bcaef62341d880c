"""Outages as clients see them."""

import pytest

from storewise.metrics.outages import BIN, common, longest, merged, outages
from storewise.metrics.recorder import NS


def test_outages_are_what_no_client_and_no_worker_could_do():
    def at(*seconds):
        return {round(s * NS) // BIN for s in seconds}

    def steady(start, end):
        return at(*(start + 0.02 * k for k in range(round((end - start) / 0.02))))

    one = {"": steady(0, 1) | steady(2, 4), "data0": steady(0, 1) | steady(2, 4), "data1": set()}
    other = {"": steady(0, 1.5) | steady(2, 4)}
    result = outages(merged([one, other]), 0, 4 * NS)
    ((start, end),) = result[""]
    assert (start, end) == (pytest.approx(1.485, abs=0.02), pytest.approx(2.0, abs=0.01))
    assert longest(result["data0"]) == pytest.approx(1.0, abs=0.03)
    assert result["data1"] == [(0.0, 4.0)]
    assert longest(result[""], after=3.0) == 0.0
    assert common([[(1.0, 3.0)], [(0.0, 1.5), (2.0, 2.5)]]) == [(1.0, 1.5), (2.0, 2.5)]
    assert common([]) == []
