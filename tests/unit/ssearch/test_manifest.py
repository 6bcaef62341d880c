"""The manifest: what is listed, digested once, merged, quarantined."""

import csv
import os
from pathlib import Path

import pyarrow as pa
import pytest
from support.paths import DATA

from storewise.errors import InputError, StorewiseError
from storewise.ssearch.inputs import scan_cache
from storewise.ssearch.inputs.manifest import (
    ManifestSummary,
    build_manifest,
    build_part,
    merge_parts,
)
from storewise.ssearch.inputs.paths import list_inputs, slice_paths
from storewise.ssearch.inputs.scan import scan_file
from storewise.ssearch.inputs.scan_cache import open_cache
from storewise.ssearch.inputs.table import (
    MANIFEST_SCHEMA,
    PART_SCHEMA,
    metadata,
    read_table,
    rows_of,
    write_table,
)


def small(name):
    """A real output of another command, so that no other file has its content."""
    return (DATA / "ssearch36_nohits.m10").read_bytes().replace(b"\n", f" {name}\n".encode(), 1)


@pytest.fixture
def files(tmp_path):
    place = tmp_path / "in"
    (place / "deep" / "er").mkdir(parents=True)
    for name in ("b.m10", "a.m10", "deep/c.m10", "deep/er/d.m10"):
        (place / name).write_bytes(small(name))
    (place / ".hidden.m10").write_bytes(b"not looked at")
    return place


@pytest.fixture
def with_bad(files):
    (files / "a0.m10").write_bytes(small("cut")[:3000])
    (files / "z.m10").write_text("a\tb\n")
    (files / "zz.m10").symlink_to(files / "nowhere")
    return files


WHOLE = ["a.m10", "b.m10", "c.m10", "d.m10"]


def names(paths):
    return [path and Path(path).name for path in paths]


def manifest_of(path):
    return read_table(path, "manifest")


def build(files, out=None, **options):
    return build_manifest(list_inputs([files]), out or files.parent / "manifest.parquet", **options)


def test_rows_are_those_of_the_scan(files):
    out = files.parent / "below" / "manifest.parquet"
    told = []
    summary = build(files, out, progress=lambda *now: told.append(now))
    rows = list(rows_of(manifest_of(out)))
    assert names([row.path for row in rows]) == WHOLE
    for row in rows:
        result, status = scan_file(row.path), Path(row.path).stat()
        for key in ("digest", "queries", "hits", "alignments", "format"):
            assert getattr(row, key) == getattr(result, key)
        assert (row.bytes, row.mtime_ns, row.shard) == (status.st_size, status.st_mtime_ns, None)
    size = sum(row.bytes for row in rows)
    assert summary == ManifestSummary(4, size, 4 * 9, 4, 0, "visible")
    assert told[-1] == (4, 4, size, size)
    assert metadata(out)["bad"] == "0"
    assert (out.parent / "quarantine.tsv").read_text() == "path\tline\toffset\treason\n"


def test_a_file_goes_away_and_comes_back(files):
    """What was digested once is not digested again, and nothing of a file that is bad or away is
    used."""
    changing = files / "b.m10"
    good, time = changing.read_bytes(), changing.stat().st_mtime_ns

    def built():
        done = build(files, on_bad_input="quarantine")
        used = names(manifest_of(files.parent / "manifest.parquet")["path"].to_pylist())
        return done.digested, done.reused, used, names([bad.path for bad in done.bad])

    without = ["a.m10", "c.m10", "d.m10"]
    assert built() == (4, 0, WHOLE, [])
    changing.unlink()
    assert built() == (0, 3, without, [])
    changing.write_bytes(good[:2000])
    assert built() == (1, 3, without, ["b.m10"])
    assert built() == (1, 3, without, ["b.m10"])
    changing.write_bytes(good)
    os.utime(changing, ns=(time, time))
    assert built() == (0, 4, WHOLE, [])
    # The same time, another size; then the same size, another time; then a new file.
    changing.write_bytes(good + b"\n")
    os.utime(changing, ns=(time, time))
    assert built() == (1, 3, WHOLE, [])
    os.utime(changing, ns=(time, time + 1))
    assert built() == (1, 3, WHOLE, [])
    (files / "e.m10").write_bytes(small("e.m10"))
    assert built() == (1, 4, [*WHOLE, "e.m10"], [])
    fresh = files.parent / "fresh" / "manifest.parquet"
    build(files, fresh)
    assert manifest_of(fresh).equals(manifest_of(files.parent / "manifest.parquet"))


def part(path, rows):
    common = {"bytes": 1, "mtime_ns": 1, "queries": 1, "hits": 1, "alignments": 1}
    table = pa.Table.from_pylist([common | row for row in rows], schema=PART_SCHEMA)
    write_table(table, path, "part")
    return path


def test_colliding_digests_are_an_error(tmp_path):
    prefix = b"\x80seven!"
    rows = {"z": prefix + bytes(9), "a": prefix + b"\1" + bytes(8), "b": b"\x80seven?" + bytes(9)}
    parts = [part(tmp_path / name, [{"path": name, "digest": rows[name]}]) for name in rows]
    for order in (parts, parts[::-1]):
        with pytest.raises(StorewiseError, match=r"^a and z differ.*share the 7 bytes"):
            merge_parts(order, tmp_path / "m.parquet")
    assert not (tmp_path / "m.parquet").exists()


def test_of_equal_files_in_several_parts_the_first_path_is_used(tmp_path):
    one, two = bytes(16), b"\1" * 16
    rows = [
        {"path": "d", "digest": one, "bytes": 3, "warning": "a word"},
        {"path": "b", "digest": one, "queries": 2, "alignments": 3, "warning": "odd"},
        {
            "path": "c",
            "digest": two,
        },
        {"path": "a", "digest": two, "bytes": 5, "queries": 1, "alignments": 0},
    ]
    parts = [part(tmp_path / str(number), [row]) for number, row in enumerate(rows)]
    done = merge_parts(reversed(parts), tmp_path / "m.parquet")
    assert manifest_of(tmp_path / "m.parquet")["path"].to_pylist() == [
        "a",
        "b",
        "c",
        "d",
    ]
    column = manifest_of(tmp_path / "m.parquet")["duplicate_of"].to_pylist()
    assert column == [None, None, "a", "b"]
    # Only what is used counts: 5 + 1 bytes, 1 + 0 and 2 + 3 x 3 documents.
    assert (done.files, done.bytes, done.documents) == (2, 6, 12)
    assert (done.digested, done.reused) == (4, 0)
    assert done.duplicates == [("c", "a"), ("d", "b")]
    assert done.warnings == [("b", "odd")]
    with pytest.raises(StorewiseError, match=r"m\.parquet: no usable input file$"):
        merge_parts([part(tmp_path / "none", [])], tmp_path / "m.parquet")


@pytest.mark.parametrize("parts", [1, 3])
def test_parts_give_the_same_manifest(with_bad, parts):
    (with_bad / "deep" / "copy.m10").write_bytes((with_bad / "a.m10").read_bytes())
    paths, merged = list_inputs([with_bad]), with_bad.parent / "merged.parquet"
    expected = build(with_bad, on_bad_input="quarantine")
    slices = [slice_paths(paths, index, parts) for index in range(parts)]
    made = [with_bad.parent / f"part{index}.parquet" for index in range(parts)]
    for one, out in zip(slices, made, strict=True):
        build_part(one, out)
    summary = merge_parts(made, merged, on_bad_input="quarantine")
    assert manifest_of(merged).equals(manifest_of(with_bad.parent / "manifest.parquet"))
    assert names(sum(summary.duplicates, ())) == ["copy.m10", "a.m10"]
    assert (summary.bad, summary.documents) == (expected.bad, expected.documents)
    assert (len(summary.bad), summary.files) == (3, 4)


def test_bad_files_end_a_build_or_are_left_out_and_listed(with_bad):
    out, listed = with_bad.parent / "manifest.parquet", with_bad.parent / "bad.tsv"
    with pytest.raises(InputError) as caught:
        build(with_bad, quarantine=listed)
    error = caught.value
    assert error.path == str(with_bad / "a0.m10") and error.line and error.offset
    assert str(error).count("a0.m10") == 1
    assert "ends inside an alignment" in str(error) and "3 of 7 files are bad" in str(error)
    assert not out.exists()
    summary = build(with_bad, quarantine=listed, on_bad_input="quarantine")
    assert summary.files == len(manifest_of(out)) == 4
    with listed.open() as text:
        rows = list(csv.DictReader(text, dialect="excel-tab"))
    assert names([row["path"] for row in rows]) == ["a0.m10", "z.m10", "zz.m10"]
    assert int(rows[0]["offset"]) > 2000 and "the file ends inside" in rows[0]["reason"]
    assert "not an output of ssearch36" in rows[1]["reason"] and rows[1]["line"] == "1"
    assert "No such file" in rows[2]["reason"] and rows[2]["line"] == ""
    assert [bad.path for bad in summary.bad] == [row["path"] for row in rows]
    assert metadata(out)["bad"] == "3"
    # The good ones are not digested again once the bad are gone.
    for name in ("a0.m10", "zz.m10"):
        (with_bad / name).unlink()
    with pytest.raises(InputError, match=r"z\.m10, line 1.*(?<!bad) \(on_bad_input: quarantine"):
        build(with_bad)
    with pytest.raises(StorewiseError, match="no usable input file; all 1 are bad"):
        build(with_bad / "z.m10", with_bad.parent / "m.parquet", on_bad_input="quarantine")
    with pytest.raises(StorewiseError, match="cannot be written"):
        build(with_bad, with_bad / "z.m10" / "m.parquet")
    (with_bad / "z.m10").unlink()
    assert build(with_bad).digested == 0


def test_a_broken_cache_is_made_anew(files, monkeypatch):
    monkeypatch.setattr(scan_cache, "_BATCH_ROWS", 3)  # fewer than there are
    out, cache = files.parent / "manifest.parquet", files.parent / "ca?che %20#"
    build(files, cache_dir=cache)
    expected = manifest_of(out)

    def again():
        done = build(files, cache_dir=cache)
        assert manifest_of(out).equals(expected)
        return done.digested

    assert again() == 0
    (rows,) = cache.glob("rows.*.sqlite")
    rows.write_bytes(b"no database, " * 1000)
    assert (again(), again()) == (4, 0)
    # What was counted by other rules is not used.
    monkeypatch.setattr(scan_cache, "RULES", -1)
    assert (again(), again()) == (4, 0)


def test_two_builds_with_one_cache(tmp_path):
    with (
        open_cache(tmp_path / "cache"),
        pytest.raises(StorewiseError, match="another manifest is being built with this cache"),
    ):
        open_cache(tmp_path / "cache").__enter__()
    with open_cache(tmp_path / "cache"):
        (tmp_path / "file").touch()
    with pytest.raises(StorewiseError, match=r"manifest's cache cannot be written: File exists"):
        open_cache(tmp_path / "file").__enter__()


def test_tables_of_another_kind_or_version(tmp_path, monkeypatch):
    path = tmp_path / "one.parquet"
    write_table(MANIFEST_SCHEMA.empty_table(), path, "manifest", files="0")
    assert metadata(path) == {"kind": "manifest", "schema": "2", "files": "0"}
    assert list(rows_of(manifest_of(path))) == []
    with pytest.raises(InputError, match=r"not this version's part.*found kind 'manifest'"):
        read_table(path, "part")
    monkeypatch.setattr("storewise.ssearch.inputs.table.SCHEMA_VERSION", "3")
    with pytest.raises(InputError, match=r"not this version's manifest.*of schema 3.*schema '2'"):
        manifest_of(path)


def test_rows_of_a_large_table():
    one = {"path": "x", "mtime_ns": 1, "queries": 1, "hits": 1, "alignments": 1}
    rows = [one | {"bytes": number} for number in range(20_001)]
    table = pa.Table.from_pylist(rows, schema=MANIFEST_SCHEMA)
    assert [row.bytes for row in rows_of(table)] == list(range(20_001))
