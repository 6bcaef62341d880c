"""Histograms and their logs against the raw values and against the hdrhistogram package."""

import itertools
import math
import zlib
from fractions import Fraction

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given
from hypothesis import strategies as st

from storewise.errors import ResultError
from storewise.metrics import hdr


def filled(values):
    indexes, counts = np.unique(hdr.bucket_indexes(np.asarray(values)), return_counts=True)
    return hdr.histogram_of(indexes, counts)


def exact(values, percentile):
    """The smallest value that this share of the values does not exceed."""
    rank = math.ceil(Fraction(str(percentile)) / 100 * len(values))
    return int(np.sort(np.asarray(values))[max(1, rank) - 1])


@given(st.lists(st.integers(0, hdr.HIGHEST_NS), min_size=1, max_size=200))
def test_buckets_are_those_of_the_package(values):
    reference = hdr.new_histogram()
    for value in values:
        assert reference.record_value(value)
    assert hdr.bucket_indexes(np.array(values)).tolist() == [
        reference.get_counts_array_index(value) for value in values
    ]
    result = filled(values)
    assert list(result.counts) == list(reference.counts)
    # Values outside the range are counted in the first or the last bucket.
    ends = hdr.bucket_indexes(np.array([0, hdr.HIGHEST_NS]))
    assert hdr.bucket_indexes(np.array([-5, 10 * hdr.HIGHEST_NS])).tolist() == ends.tolist()


@given(
    st.lists(st.integers(1, hdr.HIGHEST_NS), min_size=1, max_size=300),
    st.lists(st.sampled_from([0, 1, 25, 50, 90, 99, 99.9, 100]), min_size=1),
)
def test_percentiles_are_within_three_digits_of_numpy(values, wanted):
    result = hdr.percentiles(filled(values), wanted)
    for percentile in wanted:
        true = exact(values, percentile)
        assert true <= result[percentile] <= true * 1.001 + 1
    assert hdr.percentiles(hdr.new_histogram(), wanted) == {}
    with pytest.raises(ValueError, match="between 0 and 100"):
        hdr.percentiles(filled(values), [101])


@given(
    st.builds(
        hdr.Tag,
        st.sampled_from(["get", "insert", "range.query"]),
        st.sampled_from(["service_time", "response_time"]),
        st.integers(0, 20),
        st.none() | st.sampled_from(["node-1", "10.0.0.1:27017"]),
        st.booleans(),
        st.booleans(),
    )
)
def test_a_tag_survives_its_text(tag):
    assert hdr.Tag.parse(str(tag)) == tag
    assert "," not in str(tag)
    assert str(hdr.Tag("get", "service_time", owner="a, b;c\n")) == "get.service_time;owner=a__b_c_"
    with pytest.raises(ValueError, match="not a tag"):
        hdr.Tag.parse("A")


@pytest.fixture
def logs(tmp_path):
    """Two logs of three seconds each, and all values that went into them by tag."""
    generator = np.random.default_rng(7)
    both = (hdr.Tag("get", "service_time"), hdr.Tag("get", "response_time", warmup=True))
    values = {str(tag): [] for tag in both}
    paths = [tmp_path / f"read.{number}.hlog" for number in range(2)]
    for number, path in enumerate(paths):
        result = []
        for second, tag in itertools.product(range(3), both):
            drawn = generator.lognormal(11, 1.5, 4000).astype(np.int64)
            values[str(tag)].append(drawn)
            result.append(hdr.Interval(tag, float(second), 1.0, filled(drawn)))
        hdr.write_log(path, 1_700_000_000.0 + number, result)
    return paths, {tag: np.concatenate(parts) for tag, parts in values.items()}


def test_merged_logs_give_the_percentiles_of_all_values(logs):
    paths, values = logs
    assert hdr.tags(paths[0]) == ["get.service_time", "get.response_time;warmup"]
    for tag, raw in values.items():
        merged = hdr.merge_logs(paths, tag=tag)
        assert merged.get_total_count() == len(raw)
        result = hdr.percentiles(merged, [50, 90, 99, 99.9, 100])
        for percentile, value in result.items():
            assert value == pytest.approx(exact(raw, percentile), rel=0.001)
    assert hdr.merge_logs(paths, tag="put.service_time").get_total_count() == 0


def test_the_package_reads_our_logs(logs, tmp_path):
    paths, values = logs
    merged = {tag: hdr.new_histogram() for tag in values}
    starts, lengths = [], set()
    for path in paths:
        reader = HistogramLogReader(str(path), HdrHistogram(1, hdr.HIGHEST_NS, 3))
        while (result := reader.get_next_interval_histogram()) is not None:
            starts.append(result.get_start_time_stamp())
            lengths.add(result.get_end_time_stamp() - starts[-1])
            merged[result.get_tag()].add(result)
    assert lengths == {1000.0}
    assert sorted(set(starts)) == [1_700_000_000_000.0 + 1000 * n for n in range(4)]
    for tag, raw in values.items():
        assert merged[tag].get_total_count() == len(raw)
        assert merged[tag].get_value_at_percentile(99) == pytest.approx(exact(raw, 99), rel=0.002)
    # One without a checksum, of an older version, that is broken is told with its line.
    lines = paths[0].read_text().replace("#[Checksum: in the last line]\n", "").splitlines()
    bad = tmp_path / "bad.hlog"
    bad.write_text("\n".join([*lines[:5], lines[5][:-40] + "!!!"]))
    with pytest.raises(ResultError, match=r"bad\.hlog, line 6: the histogram cannot be decoded"):
        hdr.merge_logs([bad], "get.response_time;warmup")
    bad.write_text("one,two\n")
    for path, why in ((bad, "line 1: not an interval"), (tmp_path / "none", "not a readable Hdr")):
        with pytest.raises(ResultError, match=why):
            hdr.tags(path)


def test_a_failed_write_leaves_nothing(tmp_path):
    def broken():
        yield hdr.Interval(hdr.Tag("get", "service_time"), 0.0, 1.0, filled([5]))
        raise zlib.error("no")

    with pytest.raises(zlib.error):
        hdr.write_log(tmp_path / "a.hlog", 0.0, broken())
    assert list(tmp_path.iterdir()) == []
