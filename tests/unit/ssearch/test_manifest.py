"""The manifest: what is listed, digested once, merged, quarantined."""

import csv
import os
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from support.inputs.manifests import small

from storewise.errors import InputError, StorewiseError
from storewise.ssearch.inputs import scan_cache
from storewise.ssearch.inputs.manifest import (
    ManifestSummary,
    build_manifest,
    build_part,
    load_manifest,
    merge_parts,
)
from storewise.ssearch.inputs.paths import list_inputs, slice_paths
from storewise.ssearch.inputs.scan import scan_file
from storewise.ssearch.inputs.scan_cache import ScanCache
from storewise.ssearch.inputs.table import (
    MANIFEST_SCHEMA,
    PART_SCHEMA,
    metadata,
    read_table,
    rows_of,
    write_table,
)


def names(paths):
    return [Path(path).name for path in paths]


def test_rows_are_those_of_the_scan(files):
    out = files.parent / "below" / "manifest.parquet"
    told = []
    summary = build_manifest(list_inputs([files]), out, progress=lambda *now: told.append(now))
    rows = list(rows_of(load_manifest(out)))
    assert names([row.path for row in rows]) == ["a.m10", "b.m10", "c.m10", "d.m10"]
    for row in rows:
        result, status = scan_file(row.path), Path(row.path).stat()
        assert (row.digest, row.queries, row.hits, row.alignments, row.documents) == (
            result.digest,
            result.queries,
            result.hits,
            result.alignments,
            result.documents,
        )
        assert (row.bytes, row.mtime_ns, row.shard) == (status.st_size, status.st_mtime_ns, None)
    size = sum(row.bytes for row in rows)
    assert summary == ManifestSummary(4, size, 4 * 9, 4, 0)
    assert told[-1] == (4, 4, size, size)
    assert metadata(out)["bad"] == "0"
    assert (out.parent / "quarantine.tsv").read_text() == "path\tline\toffset\treason\n"


def test_a_file_goes_away_and_comes_back(files):
    """What was digested once is not digested again, and nothing of a file that is bad or away is
    used."""
    out = files.parent / "manifest.parquet"
    changing = files / "b.m10"
    good, time = changing.read_bytes(), changing.stat().st_mtime_ns

    def build():
        done = build_manifest(list_inputs([files]), out, on_bad_input="quarantine")
        used = names([row.path for row in rows_of(load_manifest(out))])
        return done.digested, done.reused, used, names([bad.path for bad in done.bad])

    whole = ["a.m10", "b.m10", "c.m10", "d.m10"]
    assert build() == (4, 0, whole, [])
    changing.unlink()
    assert build() == (0, 3, ["a.m10", "c.m10", "d.m10"], [])
    changing.write_bytes(good[:2000])
    assert build() == (1, 3, ["a.m10", "c.m10", "d.m10"], ["b.m10"])
    assert build() == (1, 3, ["a.m10", "c.m10", "d.m10"], ["b.m10"])
    changing.write_bytes(good)
    os.utime(changing, ns=(time, time))
    assert build() == (0, 4, whole, [])
    # The same time, another size; then the same size, another time.
    changing.write_bytes(good + b"\n")
    os.utime(changing, ns=(time, time))
    assert build() == (1, 3, whole, [])
    os.utime(changing, ns=(time, time + 1))
    assert build() == (1, 3, whole, [])


def test_only_new_and_changed_files_are_digested(files):
    out = files.parent / "manifest.parquet"
    build_manifest(list_inputs([files]), out)
    again = build_manifest(list_inputs([files]), out)
    assert (again.digested, again.reused) == (0, 4)
    (files / "new.m10").write_bytes(small("new.m10"))
    (files / "a.m10").write_bytes(small("changed"))
    (files / "b.m10").unlink()
    # The same size, another time.
    os.utime(files / "deep" / "c.m10", ns=(1, 1))
    third = build_manifest(list_inputs([files]), out)
    assert (third.digested, third.reused, third.files) == (3, 1, 4)
    fresh = files.parent / "fresh" / "manifest.parquet"
    build_manifest(list_inputs([files]), fresh)
    assert load_manifest(fresh).equals(load_manifest(out))


def test_a_mode_of_digest_is_kept_apart(files):
    out, cache = files.parent / "manifest.parquet", files.parent / "cache"
    (files / "large.m10").write_bytes(small("large") * 20)

    def build(digest, seed=1):
        paths = list_inputs([files])
        return build_manifest(paths, out, digest=digest, seed=seed, cache_dir=cache).digested

    assert build("full") == 5
    assert build("sampled") == 5
    assert build("sampled") == 0
    assert build("sampled", seed=2) == 5
    rows = {Path(row.path).name: row for row in rows_of(load_manifest(out))}
    assert rows["large.m10"].documents is None and rows["a.m10"].documents == 9
    summary = build_manifest(list_inputs([files]), out, digest="sampled", seed=2, cache_dir=cache)
    assert summary.documents is None
    assert build("full") == 5, "the rows of a mode are replaced by those of the next"


def test_equal_files_are_used_once(files):
    out = files.parent / "manifest.parquet"
    (files / "copy.m10").write_bytes((files / "b.m10").read_bytes())
    summary = build_manifest(list_inputs([files]), out)
    assert [(Path(a).name, Path(b).name) for a, b in summary.duplicates] == [("copy.m10", "b.m10")]
    assert summary.files == 4
    column = load_manifest(out)["duplicate_of"].to_pylist()
    assert [path and Path(path).name for path in column] == [None, None, "b.m10", None, None]


def part(path, rows):
    common = {"bytes": 1, "mtime_ns": 1, "queries": 1, "hits": 1, "alignments": 1}
    write_table(
        pa.Table.from_pylist([common | row for row in rows], schema=PART_SCHEMA), path, "part"
    )
    return path


def test_colliding_digests_are_an_error(tmp_path):
    prefix = b"\x80seven!"
    one = part(tmp_path / "1", [{"path": "z", "digest": prefix + bytes(9)}])
    two = part(
        tmp_path / "2",
        [
            {"path": "a", "digest": prefix + b"\1" + bytes(8)},
            {"path": "b", "digest": b"\x80seven?" + bytes(9)},
        ],
    )
    for parts in ([one, two], [two, one]):
        with pytest.raises(StorewiseError, match=r"^a and z differ.*share the 7 bytes"):
            merge_parts(parts, tmp_path / "m.parquet")
    assert not (tmp_path / "m.parquet").exists()


def test_of_equal_files_in_several_parts_the_first_path_is_used(tmp_path):
    one, two = bytes(16), b"\1" * 16
    rows = [
        {"path": "d", "digest": one, "bytes": 3, "warning": "a word"},
        {"path": "b", "digest": one, "queries": 2, "alignments": 3, "warning": "odd"},
        {"path": "c", "digest": two, "queries": None},
        {"path": "a", "digest": two, "bytes": 5, "queries": 1, "alignments": 0},
    ]
    parts = [part(tmp_path / str(number), [row]) for number, row in enumerate(rows)]
    done = merge_parts(reversed(parts), tmp_path / "m.parquet")
    assert load_manifest(tmp_path / "m.parquet")["path"].to_pylist() == ["a", "b", "c", "d"]
    column = load_manifest(tmp_path / "m.parquet")["duplicate_of"].to_pylist()
    assert column == [None, None, "a", "b"]
    # Only what is used counts: 5 + 1 bytes, 1 + 0 and 2 + 3 x 3 documents.
    assert (done.files, done.bytes, done.documents) == (2, 6, 12)
    assert (done.digested, done.reused) == (4, 0)
    assert done.duplicates == [("c", "a"), ("d", "b")]
    assert done.warnings == [("b", "odd")]
    with pytest.raises(StorewiseError, match=r"m\.parquet: no usable input file$"):
        merge_parts([part(tmp_path / "none", [])], tmp_path / "m.parquet")


@pytest.mark.parametrize("parts", [1, 3])
def test_parts_give_the_same_manifest(files, parts):
    paths = list_inputs([files])
    (files / "deep" / "copy.m10").write_bytes((files / "a.m10").read_bytes())
    paths = list_inputs([files])
    whole, merged = files.parent / "whole.parquet", files.parent / "merged.parquet"
    expected = build_manifest(paths, whole)
    slices = [slice_paths(paths, index, parts) for index in range(parts)]
    assert sorted(path for one in slices for path in one) == paths
    made = []
    for index, one in enumerate(slices):
        made.append(files.parent / f"part{index}.parquet")
        build_part(one, made[-1])
    summary = merge_parts(made, merged)
    assert load_manifest(merged).equals(load_manifest(whole))
    assert summary.duplicates == expected.duplicates
    assert summary.documents == expected.documents


def test_quarantine_lists_every_bad_file(with_bad):
    out = with_bad.parent / "manifest.parquet"
    summary = build_manifest(list_inputs([with_bad]), out, on_bad_input="quarantine")
    assert summary.files == len(load_manifest(out)) == 4
    with (with_bad.parent / "quarantine.tsv").open() as text:
        rows = list(csv.DictReader(text, dialect="excel-tab"))
    assert [Path(row["path"]).name for row in rows] == ["a0.m10", "z.m10", "zz.m10"]
    assert int(rows[0]["offset"]) > 2000 and "not complete" in rows[0]["reason"]
    assert "not an SSEARCH output" in rows[1]["reason"] and rows[1]["line"] == "1"
    assert "No such file" in rows[2]["reason"] and rows[2]["line"] == ""
    assert [bad.path for bad in summary.bad] == [row["path"] for row in rows]
    assert metadata(out)["bad"] == "3"
    part_out = with_bad.parent / "part.parquet"
    build_part(list_inputs([with_bad]), part_out)
    merged = merge_parts([part_out], out, on_bad_input="quarantine")
    assert merged.bad == summary.bad


def test_fail_names_the_first_and_how_many(with_bad):
    out = with_bad.parent / "manifest.parquet"
    paths = list_inputs([with_bad])
    with pytest.raises(InputError) as caught:
        build_manifest(paths, out, quarantine=with_bad.parent / "bad.tsv")
    error = caught.value
    assert error.path == str(with_bad / "a0.m10") and error.line and error.offset
    assert str(error).count("a0.m10") == 1
    assert "not complete" in str(error) and "3 of 7 files are bad" in str(error)
    assert not out.exists()
    assert (with_bad.parent / "bad.tsv").read_text().count("\n") == 4
    # The good ones are not digested again once the bad are gone.
    for name in ("a0.m10", "zz.m10"):
        (with_bad / name).unlink()
    with pytest.raises(InputError, match=r"z\.m10, line 1.*(?<!bad) \(on_bad_input: quarantine"):
        build_manifest(list_inputs([with_bad]), out)
    (with_bad / "z.m10").unlink()
    assert build_manifest(list_inputs([with_bad]), out).digested == 0


def test_nothing_usable_is_an_error(tmp_path):
    (tmp_path / "x.m10").write_text("x\n")
    paths = list_inputs([tmp_path / "x.m10"])
    with pytest.raises(StorewiseError, match="no usable input file; all 1 are bad"):
        build_manifest(paths, tmp_path / "m.parquet", on_bad_input="quarantine")


def test_an_unwritable_place_is_named(files):
    (files.parent / "file").write_text("")
    with pytest.raises(StorewiseError, match="cannot be written"):
        build_manifest(list_inputs([files]), files.parent / "file" / "m.parquet")


def test_a_broken_cache_is_made_anew(files, monkeypatch):
    monkeypatch.setattr(scan_cache, "_BATCH_ROWS", 3)  # fewer than there are
    out, cache = files.parent / "manifest.parquet", files.parent / "ca?che %20#"
    build_manifest(list_inputs([files]), out, cache_dir=cache)
    expected = load_manifest(out)

    def again():
        done = build_manifest(list_inputs([files]), out, cache_dir=cache)
        assert load_manifest(out).equals(expected)
        return done.digested

    assert again() == 0
    (cache / "rows.sqlite").write_bytes(b"no database, " * 1000)
    assert (again(), again()) == (4, 0)
    # As an earlier version made it.
    (cache / "rows.sqlite").unlink()
    with sqlite3.connect(cache / "rows.sqlite") as rows:
        rows.execute("CREATE TABLE rows (path TEXT PRIMARY KEY, mode TEXT)")
    rows.close()
    assert (again(), again()) == (4, 0)


def test_two_builds_with_one_cache(tmp_path):
    with (
        ScanCache(tmp_path / "cache", "full"),
        pytest.raises(StorewiseError, match="another manifest is being built with this cache"),
        ScanCache(tmp_path / "cache", "full"),
    ):
        pass
    with ScanCache(tmp_path / "cache", "full"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(
        StorewiseError, match=r"the manifest's cache cannot be written: File exists"
    ):
        ScanCache(tmp_path / "file", "full").__enter__()


def test_tables_of_another_kind_or_version(tmp_path, monkeypatch):
    path = tmp_path / "one.parquet"
    write_table(MANIFEST_SCHEMA.empty_table(), path, "manifest", files="0")
    assert metadata(path) == {"kind": "manifest", "schema": "1", "files": "0"}
    assert list(rows_of(load_manifest(path))) == []
    with pytest.raises(InputError, match=r"not this version's part.*found kind 'manifest'"):
        read_table(path, "part")
    monkeypatch.setattr("storewise.ssearch.inputs.table.SCHEMA_VERSION", "2")
    with pytest.raises(InputError, match=r"not this version's manifest.*of schema 2.*schema '1'"):
        load_manifest(path)


def test_rows_of_a_large_table(tmp_path):
    one = {"path": "x", "bytes": 1, "mtime_ns": 1, "queries": 1, "hits": 1, "alignments": 1}
    table = pa.Table.from_pylist([one], schema=MANIFEST_SCHEMA)
    table = pa.concat_tables([table] * 20_001).combine_chunks()
    table = table.set_column(1, "bytes", pa.array(range(20_001)))
    assert [row.bytes for row in rows_of(table)] == list(range(20_001))
