"""Bad input at the command line: one message with the true place, never a silent loss. The places
are counted in the bytes of each file, not with the project's code."""

import json
from pathlib import Path

from support.commands import storewise
from support.inputs.bad_files import GOOD, file_name, made_bad
from support.inputs.told import check, told_of


def test_each_bad_file_has_one_message_with_its_place(tmp_path):
    (tmp_path / "directory").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    no_files = {
        tmp_path / "missing": "No such file",
        tmp_path / "directory": "Is a directory",
        tmp_path / "dangling": "No such file",
        tmp_path / "loop": "symbolic links",
    }
    bad_files = {tmp_path / file_name(bad.kind): bad for bad in made_bad()}
    assert len(bad_files) == len(made_bad())
    for path, bad in bad_files.items():
        path.write_bytes(bad.stored)
    told = told_of(storewise, [*no_files, *bad_files])
    for path, says in no_files.items():
        check(told, path, says, None, any_place=False)
    for path, bad in bad_files.items():
        check(told, path, bad.says, bad.place, any_place=bad.at is None)


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
