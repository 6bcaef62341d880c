"""Which files a study names: lists, globs, names that nearly match, samples. Objects on S3:
tests/unit/s3."""

import glob
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.errors import InputError
from storewise.ssearch.inputs.paths import (
    list_inputs,
    matches,
    nearest_path,
    read_list,
    sample_indexes,
    sample_paths,
    slice_paths,
)

NAMES = (
    "a.m10", "b.m10", "long.m10", ".hidden.m10", ".dots/c.m10", "deep/c.m10", "deep/.d/e.m10",
    "deep/er/d.m10", "deep/er/still/f.m10", "other/er/d.m10", "other/names.txt",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in NAMES:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text("a line\n")
    monkeypatch.chdir(tmp_path / "in")
    return tmp_path / "in"


PATTERNS = (
    "*", "*.m10", "?.m10", "[ab].m10", ".*", ".*/*", "**", "**/*", "**/*.m10", "**/er/*", "*/*",
    "*/**", "*/**/*.m10", "*/er/d.m10", "deep/*", "deep/**", "deep/**/d*", "deep/.*/*", "./*.m10",
    "deep/../*.m10", "*/../?.m10", "deep/er/**/*", "**/still/**", "none/*", "*/none", "a.m10/*",
    "**/*.txt", "nothing*",
)  # fmt: skip


def test_globs_find_what_those_of_python_find(tree):
    for spec in (top + pattern for pattern in PATTERNS for top in ("", f"{tree}/")):
        found = glob.glob(spec, recursive=True)  # noqa: PTH207
        expected = sorted({os.path.normpath(path) for path in found if Path(path).is_file()})
        assert matches(spec) == bool(found)
        if expected:
            assert list_inputs([spec]) == expected
        else:
            with pytest.raises(InputError, match="no input file"):
                list_inputs([spec])


def test_a_directory_is_all_files_below_it(tree):
    (tree / "deep" / "dangling.m10").symlink_to("nowhere")
    shown = sorted(n for n in (*NAMES, "deep/dangling.m10") if "/." not in f"/{n}")
    assert list_inputs(["."]) == shown
    below = [f"{tree}/{name}" for name in shown if name.startswith("deep/")]
    found = list_inputs([tree / "deep", tree / "a.m10", f"{tree}/deep/../a.m10"])
    assert found == [f"{tree}/a.m10", *below]
    # A link to a directory above it is followed once.
    (tree / "deep" / "er" / "round").symlink_to(tree)
    for spec in ("deep", "deep/**", "**/still/*.m10", "*/*/still/f.*"):
        assert [n for n in list_inputs([spec]) if n.endswith("f.m10")] == ["deep/er/still/f.m10"]
    with open(os.fsencode(tree) + b"/caf\xe9.m10", "wb"):  # noqa: PTH123 - bytes on purpose
        pass
    with pytest.raises(InputError, match="not UTF-8"):
        list_inputs([tree])


def test_a_directory_that_may_not_be_read_is_named(tree, monkeypatch):
    scandir = os.scandir

    def closed(path):
        if path.endswith("deep"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    for spec in ("", "**/*.m10", "*/*.m10"):
        with pytest.raises(InputError) as caught:
            list_inputs([f"{tree}/{spec}"])
        assert str(caught.value) == f"{tree}/deep: the directory cannot be read: Permission denied"


def test_the_lines_of_a_list(tmp_path):
    path = tmp_path / "names"
    for text, names in (
        ("# all\na\n\nb c\n  \n d#\n#e", ["a", "b c", " d#"]),
        ("a\r\nb\r\n\r\n", ["a", "b"]),
        ("no end", ["no end"]),
        ("# nothing\n", []),
        ("caf\udce9\n", ["caf\udce9"]),
    ):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert list(read_list(str(path))) == names


def test_lists_that_are_none(tree):
    (tree / "nul.list").write_bytes(b"a.m10\nb\0.m10\n")
    with pytest.raises(InputError, match=r"nul\.list, line 2: a NUL byte"):
        list_inputs(["@nul.list"])
    with pytest.raises(InputError, match=r"^none: the file cannot be read: No such file"):
        list_inputs(["a.m10", "@none"])
    (tree / "comments.list").write_text("# a.m10\n")
    with pytest.raises(InputError, match=r"^comments\.list: no input file"):
        list_inputs(["a.m10", "comments.list"])
    (tree / "names.list").write_text("b.m10\nmissing.m10\na.m10\n")
    # What is missing is said by who reads it.
    assert list_inputs(["names.list"]) == ["a.m10", "b.m10", "missing.m10"]
    assert matches("@names.list") and matches("names.list") and not matches("@other.list")
    # An output may be named like a list; its first 64 KiB tell.
    for lines, is_list in ((1, False), (40_000, True)):
        (tree / "out.txt").write_bytes(b"x\n" * lines + b" version 36\n")
        assert (list_inputs(["out.txt"]) != ["out.txt"]) == is_list


def test_a_name_that_nearly_matches(tree):
    likely = {
        **{"b.m1": "b.m10", "dep/c.m10": "deep/c.m10", "deep/err/d.m10": "deep/er/d.m10"},
        "dep/*.m10": "deep/*.m10",
    }
    for top in ("", f"{tree}/"):
        for spec, meant in likely.items():
            assert nearest_path(top + spec) == f" (did you mean {top + meant!r}?)"
        for spec in ("dep/none.m10", "dep/*.m11", "nothing like it", "a.m10/c.m10", "deep"):
            assert nearest_path(top + spec) == ""


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    wanted=st.integers(1, 40),
    seed=st.integers(-2, 2),
)
def test_a_sample_by_bytes_is_the_smallest_by_files_that_reaches_them(sizes, wanted, seed):
    paths = [f"p{number:02}" for number in range(len(sizes))]
    expected = []
    for files in range(1, len(paths) + 1):
        smaller, expected = (
            expected,
            sample_indexes(paths, sizes.__getitem__, files=files, seed=seed),
        )
        assert set(smaller) < set(expected)
        if sum(sizes[index] for index in expected) >= wanted:
            break
    assert sample_indexes(paths, sizes.__getitem__, bytes=wanted, seed=seed) == expected
    assert expected == sorted(expected)


def test_shares_of_a_sample(tree):
    paths = [f"p{number}" for number in range(30)]
    for share, files in ((0.1, 3), (0.101, 4), (1 / 3, 10), (1e-9, 1), (1, 30)):
        assert sample_paths(paths, share=share) == sample_paths(paths, files=files), share
        assert len(sample_paths(paths, share=share)) == files
    assert len(sample_paths(paths, files=0)) == 1 and sample_paths(paths, files=99) == paths
    for share in (0, -0.1, 1.01):
        with pytest.raises(ValueError, match="share must be"):
            sample_paths(paths, share=share)
    for how in ({}, {"files": 1, "bytes": 1}, {"files": 1, "share": 0.5}):
        with pytest.raises(ValueError, match="exactly one"):
            sample_paths(paths, **how)
    assert sample_paths(["a.m10", "b.m10"], bytes=15) == ["a.m10", "b.m10"]
    with pytest.raises(InputError, match=r"^none: the file cannot be read"):
        sample_paths(["none"], bytes=1)


def test_a_file_stays_with_its_job_when_others_come():
    paths = [f"in/{number}.m10" for number in range(200)]
    slices = [slice_paths(paths, part, 7) for part in range(7)]
    assert sorted(path for one in slices for path in one) == sorted(paths)
    for part, one in enumerate(slices):
        assert slice_paths(paths[::3], part, 7) == [path for path in one if path in paths[::3]]
    assert all(10 < len(one) < 50 for one in slices)
    for part in (-1, 7):
        with pytest.raises(ValueError, match=r"is not one of 0\.\.6"):
            slice_paths(paths, part, 7)
