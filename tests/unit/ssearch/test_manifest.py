"""The manifest: what is listed, digested once, merged, quarantined."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pyarrow as pa
import pytest
from support.inputs.manifests import small

from storewise.errors import InputError, StorewiseError
from storewise.ssearch.inputs.manifest import build_manifest, build_part, load_manifest, merge_parts
from storewise.ssearch.inputs.paths import list_inputs, slice_paths
from storewise.ssearch.inputs.table import PART_SCHEMA, rows_of, write_table


def names(paths: list[str]) -> list[str]:
    return [Path(path).name for path in paths]


# --- what is listed ----------------------------------------------------------------------------


def test_directories_globs_and_paths(files: Path) -> None:
    assert names(list_inputs([files])) == ["a.m10", "b.m10", "c.m10", "d.m10"]
    assert names(list_inputs([f"{files}/*.m10"])) == ["a.m10", "b.m10"]
    assert names(list_inputs([f"{files}/**/*.m10"])) == ["a.m10", "b.m10", "c.m10", "d.m10"]
    assert names(list_inputs([f"{files}/deep/../b.m10", files / "b.m10"])) == ["b.m10"]


def test_lists(files: Path) -> None:
    text = f"# outputs\n{files}/b.m10\n\n{files}/a.m10\n"
    for name in ("one.txt", "one.list", "plain"):
        (files.parent / name).write_text(text)
    for spec in ("one.txt", "one.list", "@one.txt", "@plain"):
        marked = spec.removeprefix("@")
        result = list_inputs([("@" if spec != marked else "") + str(files.parent / marked)])
        assert names(result) == ["a.m10", "b.m10"]
    # An output may be named so too.
    (files.parent / "output.txt").write_bytes(small("output.txt"))
    assert names(list_inputs([files.parent / "output.txt"])) == ["output.txt"]


def test_links_are_followed_once(files: Path) -> None:
    (files / "deep" / "loop").symlink_to(files)
    assert len(list_inputs([files])) == 4


@pytest.mark.parametrize("spec", ["none", "none/*.m10", "@none.txt", "empty"])
def test_a_spec_that_matches_nothing_is_named(files: Path, spec: str) -> None:
    (files.parent / "empty").mkdir()
    path = spec.replace("@", f"@{files.parent}/") if "@" in spec else str(files.parent / spec)
    with pytest.raises(InputError) as caught:
        list_inputs([files, path])
    assert path.removeprefix("@") in str(caught.value)


def test_names_that_are_not_text_are_refused(files: Path) -> None:
    with open(os.fsencode(files) + b"/caf\xe9.m10", "wb"):  # noqa: PTH123 - bytes on purpose
        pass
    with pytest.raises(InputError, match="not UTF-8"):
        list_inputs([files])


def test_only_new_and_changed_files_are_digested(files: Path) -> None:
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


def test_a_mode_of_digest_is_kept_apart(files: Path) -> None:
    out, cache = files.parent / "manifest.parquet", files.parent / "cache"
    (files / "large.m10").write_bytes(small("large") * 20)

    def build(digest: str, seed: int = 1) -> int:
        paths = list_inputs([files])
        return build_manifest(paths, out, digest=digest, seed=seed, cache_dir=cache).digested  # type: ignore[arg-type]

    assert build("full") == 5
    assert build("sampled") == 5
    assert build("sampled") == 0
    assert build("sampled", seed=2) == 5
    rows = {Path(row.path).name: row for row in rows_of(load_manifest(out))}
    assert rows["large.m10"].documents is None
    assert rows["a.m10"].documents is not None or rows["a.m10"].bytes > 65536


def test_equal_files_are_used_once(files: Path) -> None:
    out = files.parent / "manifest.parquet"
    (files / "copy.m10").write_bytes((files / "b.m10").read_bytes())
    summary = build_manifest(list_inputs([files]), out)
    assert [(Path(a).name, Path(b).name) for a, b in summary.duplicates] == [("copy.m10", "b.m10")]
    assert summary.files == 4
    column = load_manifest(out)["duplicate_of"].to_pylist()
    assert [path and Path(path).name for path in column] == [None, None, "b.m10", None, None]


def part(path: Path, rows: list[dict[str, object]]) -> Path:
    common = {"bytes": 1, "mtime_ns": 1, "queries": 1, "hits": 1, "alignments": 1}
    write_table(
        pa.Table.from_pylist([common | row for row in rows], schema=PART_SCHEMA), path, "part"
    )
    return path


def test_colliding_digests_are_an_error(tmp_path: Path) -> None:
    prefix = b"\x80seven!"
    one = part(tmp_path / "1", [{"path": "z", "digest": prefix + bytes(9)}])
    two = part(
        tmp_path / "2",
        [
            {"path": "a", "digest": prefix + b"\1" + bytes(8)},
            {"path": "b", "digest": b"\x80seven?" + bytes(9)},
        ],
    )
    with pytest.raises(StorewiseError, match=r"^(a and z|z and a) differ.*share the 7 bytes"):
        merge_parts([one, two], tmp_path / "m.parquet")
    assert not (tmp_path / "m.parquet").exists()


@pytest.mark.parametrize("parts", [1, 3])
def test_parts_give_the_same_manifest(files: Path, parts: int) -> None:
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


def test_quarantine_lists_every_bad_file(with_bad: Path) -> None:
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
    part_out = with_bad.parent / "part.parquet"
    build_part(list_inputs([with_bad]), part_out)
    merged = merge_parts([part_out], out, on_bad_input="quarantine")
    assert merged.bad == summary.bad


def test_nothing_usable_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.m10").write_text("x\n")
    paths = list_inputs([tmp_path / "x.m10"])
    with pytest.raises(StorewiseError, match="no usable input file; all 1 are bad"):
        build_manifest(paths, tmp_path / "m.parquet", on_bad_input="quarantine")


def test_an_unwritable_place_is_named(files: Path) -> None:
    (files.parent / "file").write_text("")
    with pytest.raises(StorewiseError, match="cannot be written"):
        build_manifest(list_inputs([files]), files.parent / "file" / "m.parquet")


def test_a_broken_cache_is_made_anew(files: Path) -> None:
    out, cache = files.parent / "manifest.parquet", files.parent / "cache"
    build_manifest(list_inputs([files]), out, cache_dir=cache)
    (cache / "rows.sqlite").write_bytes(b"no database, " * 1000)
    assert build_manifest(list_inputs([files]), out, cache_dir=cache).digested == 4
    assert build_manifest(list_inputs([files]), out, cache_dir=cache).digested == 0
