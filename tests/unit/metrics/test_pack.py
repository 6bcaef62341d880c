"""Packs of a trial's parts, and logs: what they hold, and that no damage goes unnoticed."""

import os
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.results import synthetic

from storewise.analysis.files.parts import trial_files
from storewise.analysis.files.samples import read_samples
from storewise.errors import ResultError
from storewise.layout import PACK
from storewise.metrics import hdr
from storewise.metrics.pack import Pack, read_pack, write_pack


@pytest.fixture
def trial(tmp_path):
    synthetic.make_trial(tmp_path, {"engine": "sqlite", "workers": 2}, 1)
    return next((tmp_path / "trials").iterdir())


def of_workers(trial):
    return [p for p in trial.glob("*.*.parquet") if p.name.startswith(("write.", "read."))]


def test_a_pack_counts_only_while_it_is_about_these_very_files(trial):
    parts, logs = of_workers(trial), list(trial.glob("*.hlog"))
    names = [[p.name for p in parts], [p.name for p in logs]]
    assert read_pack(trial, *names) is None, "there is none"
    path = write_pack(parts)
    assert path is not None
    pack = read_pack(trial, *names)
    assert list(pack.conditions) == sorted(p.name for p in parts)
    assert pack.rows.num_rows == sum(pq.read_metadata(p).num_rows for p in parts)
    assert read_pack(trial, names[0][1:], names[1]) is None, "a part has gone"
    assert read_pack(trial, names[0], [*names[1], "more.0.hlog"]) is None
    os.utime(parts[0], ns=(0, path.stat().st_mtime_ns + 1))
    assert read_pack(trial, *names) is None, "a part is newer"
    write_pack(parts)
    logs[0].write_bytes(logs[0].read_bytes() + b"#\n")
    os.utime(logs[0], ns=(0, 0))
    assert read_pack(trial, *names) is None, "a log has another size"
    logs[0].unlink()
    assert write_pack(parts) is None, "a log has gone"
    assert not path.exists()
    # Of a pack that is none the parts are read.
    path.write_bytes(b"PAR1")
    assert len(read_samples([trial_files(trial)]).parts) > len(parts)


def some_histogram(rng, size=300):
    values = np.concatenate(
        [
            rng.integers(0, 5000, size),
            rng.lognormal(13, 3, size).astype(np.int64),
            [0, hdr.HIGHEST_NS],
        ]
    )
    return hdr.histogram_of(*np.unique(hdr.bucket_indexes(values), return_counts=True))


def test_sums_are_those_of_the_package():
    rng = np.random.default_rng(1)
    one, other = some_histogram(rng), some_histogram(rng)
    total, reference = hdr.SparseHistogram(), hdr.new_histogram()
    for histogram in (one, other, one):
        total.add(hdr.SparseHistogram.of(histogram))
        reference.add(histogram)
    (read,) = hdr.decoded({"a": hdr.encoded(reference)}).values()
    assert (
        read.counts.tolist()
        == hdr.SparseHistogram.of(reference).counts.tolist()
        == total.counts.tolist()
    )
    assert total.get_total_count() == reference.get_total_count()
    assert total.get_mean_value() == pytest.approx(reference.get_mean_value(), rel=1e-12)
    wanted = [0, 1, 50, 99, 99.9, 100]
    assert hdr.percentiles(total, wanted) == hdr.percentiles(reference, wanted)
    low, width = hdr.values_of(np.arange(hdr.COUNTERS))
    for index in [0, 1023, 1024, 2047, 2048, 3071, 3072, hdr.COUNTERS - 1]:
        assert low[index] == reference.get_value_from_index(index)
        above = reference.get_highest_equivalent_value(int(low[index]))
        assert above == low[index] + width[index] - 1


@pytest.mark.parametrize(("owners", "size"), [(1, 300), (60, 1000)])
def test_a_log_ends_with_the_sums_of_its_intervals(tmp_path, owners, size):
    rng = np.random.default_rng(2)
    path, old = tmp_path / "a.hlog", tmp_path / "old.hlog"
    both = [hdr.Tag("get", "service_time")]
    both += [hdr.Tag("get", "response_time", owner=f"a,{n}") for n in range(owners)]
    hdr.write_log(
        path,
        1.7e9,
        [
            hdr.Interval(tag, float(s), 1.0, some_histogram(rng, size))
            for s in range(2)
            for tag in both
        ],
    )
    text = path.read_text()
    begin = text.index("#[Total:")
    assert (len(text) - begin > 1 << 15) == (owners > 1), "more than is read at once"
    # Logs of older versions have neither the sums nor the mark that tells of them.
    old.write_text(text[:begin].replace(hdr._CHECKSUM_MARK, ""))
    names = hdr.tags(path)
    assert names == [str(tag) for tag in both] == hdr.tags(old)
    sums, older = (hdr.merge_all([one], lambda tag: True) for one in (path, old))
    twice = hdr.merge_all([path, old], lambda tag: True)
    for name in names[:2]:
        assert sums[name].counts.tolist() == older[name].counts.tolist()
        assert list(hdr.merge_logs([path], name).counts) == list(hdr.merge_logs([old], name).counts)
        assert twice[name].get_total_count() == 2 * sums[name].get_total_count()
    without = "\n".join(line for line in text.split("\n") if not line.startswith("Tag="))
    for damaged in (text[:-3], text.replace(text[begin:].split(",")[1][:20], "A" * 20), without):
        path.write_text(damaged)
        with pytest.raises(ResultError, match=r"was (cut short or )?changed|checksum differs"):
            hdr.merge_all([path], lambda tag: True)


def changed(content, at, bit):
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


@pytest.fixture
def log(tmp_path):
    result = []
    for second in range(3):
        histogram = hdr.new_histogram()
        for value in (1000, 20_000, 300_000 + second):
            histogram.record_value(value)
        result.append(hdr.Interval(hdr.Tag("get", "service_time"), float(second), 1.0, histogram))
    hdr.write_log(tmp_path / "read.0.hlog", 1_700_000_000.0, result)
    return tmp_path / "read.0.hlog"


def test_no_byte_and_no_end_of_a_log_change_unnoticed(log):
    content = log.read_bytes()
    for at in range(0, len(content), 2):
        log.write_bytes(changed(content, at, at % 7))
        with pytest.raises(ResultError, match=re.escape(str(log))):
            hdr.merge_all([log], lambda tag: True)
    for length in range(content.index(b"\n#[StartTime") + 1, len(content), 2):
        log.write_bytes(content[:length])
        with pytest.raises(ResultError, match=r"read\.0\.hlog: the log was cut short"):
            hdr.tags(log)
    log.write_bytes(content + b"#[more]\n")
    with pytest.raises(ResultError, match="cut short or changed"):
        hdr.merge_all([log], lambda tag: True)


def packed(trial):
    parts = [name for name in trial_files(trial).parts if not name.startswith("verify")]
    assert write_pack([trial / name for name in parts]) == trial / PACK
    return trial, parts, [one.name for one in trial_files(trial).logs]


def test_a_damaged_pack_is_an_error_or_the_same(tmp_path):
    synthetic.make_study(tmp_path, engines=["sqlite"], workers=[1], repeats=1)
    trial, parts, logs = packed(next((tmp_path / "trials").iterdir()))
    content = (trial / PACK).read_bytes()
    whole = read_pack(trial, parts, logs)
    assert isinstance(whole, Pack)
    generator = np.random.default_rng(5)
    places = generator.integers(0, len(content), 150).tolist()
    damaged = [changed(content, at, at % 8) for at in places]
    for one in [*damaged, *(content[:at] for at in places[:30]), b""]:
        (trial / PACK).write_bytes(one)
        try:
            result = read_pack(trial, parts, logs)
        except ResultError as error:
            assert str(trial / PACK) in str(error)
            continue
        if result is not None:  # None is one of another version
            assert result.rows.equals(whole.rows)
            assert (result.conditions, result.totals) == (whole.conditions, whole.totals)
