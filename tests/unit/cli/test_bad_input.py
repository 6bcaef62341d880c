"""Bad input as a user meets it: one message with the true place, never a silent loss.

The places are counted in the bytes of each file, not with the project's code. How the parts of the
readers react to damage is tested with them; this is the command line.
"""

import json
from pathlib import Path

import pytest
from support.commands import storewise
from support.inputs.bad_files import GOOD, file_name, made_bad
from support.inputs.told import check, told_of


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bad")
    paths = []
    for bad in made_bad():
        paths.append(directory / file_name(bad.kind))
        assert not paths[-1].exists(), bad.kind
        paths[-1].write_bytes(bad.stored)
    return directory, told_of(storewise, paths)


@pytest.mark.parametrize("bad", made_bad(), ids=lambda bad: bad.kind)
def test_bad_content(bad, told):
    directory, output = told
    check(output, directory / file_name(bad.kind), bad.says, bad.place, any_place=bad.at is None)


@pytest.mark.parametrize("kind", ["empty file", "truncated gzip", "a huge integer", "HTML"])
def test_one_bad_file_alone(kind, tmp_path):
    bad = next(one for one in made_bad() if one.kind == kind)
    path = tmp_path / "bad.m10"
    path.write_bytes(bad.stored)
    check(told_of(storewise, [path]), path, bad.says, bad.place, any_place=False)


def test_what_looks_bad_and_is_not(tmp_path):
    paths = {name: tmp_path / file_name(name) for name in GOOD}
    for name, (content, _) in GOOD.items():
        paths[name].write_bytes(content)
    done = storewise("inspect", *paths.values())
    assert done.returncode == 0, done.stdout
    found = [json.loads(line)["documents"] for line in done.stdout.splitlines()]
    assert dict(zip(GOOD, found, strict=True)) == {name: n for name, (_, n) in GOOD.items()}
    done = storewise("convert", *paths.values(), "--to", "jsonl", "-j", "1", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for name, (_, documents) in GOOD.items():
        files = [Path(one) for one in done.stdout.split() if paths[name].stem in one]
        ids = {json.loads(line)["_id"] for f in files for line in f.read_text().splitlines()}
        assert len(ids) == documents, name


def test_what_is_no_file(tmp_path):
    kinds = {
        "missing": "No such file",
        "directory": "Is a directory",
        "dangling": "No such file",
        "loop": "symbolic links",
    }
    (tmp_path / "directory").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    output = told_of(storewise, [tmp_path / kind for kind in kinds])
    for kind, says in kinds.items():
        check(output, tmp_path / kind, says, None, any_place=False)
