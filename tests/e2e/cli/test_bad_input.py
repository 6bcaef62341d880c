"""Bad input as a user meets it: one message with the true place, never a hang or a silent loss.

The places are counted in the bytes of each file, not with the project's code. What the commands say
of each kind of damage is in tests/unit/cli; here are processes of their own, and whole studies.
"""

import csv
import html
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import commands
from support.inputs.bad_files import (
    CONTENT,
    GOOD,
    PACKED,
    file_name,
    made_bad,
    place_of,
    searched_bad,
)
from support.inputs.ssearch import content
from support.inputs.told import check, told_of
from support.paths import SMALL
from support.workspace import Workspace

pytestmark = pytest.mark.needs("ssearch36")

STOREWISE = str(Path(sys.executable).parent / "storewise")
#: In the bytes as they are stored, in the frame of the file, in a value of one alignment.
KINDS = ("corrupt gzip", "cut in a sequence", "a number that is none")
BAD = {one.kind: one for one in made_bad() if one.kind in KINDS}


def test_other_outputs_of_ssearch36(tmp_path):
    searched = searched_bad(tmp_path)
    assert len(searched) == 10
    paths = {bad.kind: tmp_path / file_name(bad.kind) for bad in searched}
    for bad in searched:
        paths[bad.kind].write_bytes(bad.stored)
    output = told_of(commands.storewise, list(paths.values()))
    for bad in searched:
        check(output, paths[bad.kind], bad.says, bad.place, any_place=False)


def test_good_files_among_bad_ones_are_converted(tmp_path):
    """In processes of its own; one message for each bad file."""
    bad = dict(zip(("2.m10", "3.m10", "5.m10"), BAD.values(), strict=True))
    names = ["1.m10", *bad, "4.m10"]
    for name in names:
        (tmp_path / name).write_bytes(bad[name].stored if name in bad else CONTENT)
    command = [STOREWISE, "convert", *names, "--to", "bson", "-o", "out", "--jobs", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    *told, last = done.stderr.splitlines()
    assert len(told) == len(bad) and "3 of 5 outputs are not complete" in last
    for line, (name, one) in zip(told, bad.items(), strict=True):
        assert line.startswith(f"storewise: {name}, line ")
        assert one.says in line
    written = sorted(path.name.split("-")[0] for path in (tmp_path / "out").iterdir())
    assert written == ["1.m10"] * 4 + ["4.m10"] * 4


STUDY = """\
inputs: {paths: data}
engines: [sqlite]
on_bad_input: quarantine
retries: 0
phases:
  - write: {batch_size: 500}
  - read: {operations: 100}
verify: 50
"""


@pytest.mark.slow
def test_a_study_leaves_bad_files_out_and_stores_the_others(tmp_path):
    place = Workspace(tmp_path)
    data = place.copy_inputs(SMALL[:3])
    bad = {f"data/{file_name(kind)}": one for kind, one in BAD.items()}
    for name, one in bad.items():
        (tmp_path / name).write_bytes(one.stored)
    for kind, (stored, _) in GOOD.items():
        (data / file_name(kind)).write_bytes(stored)
    (data / "dangling.m10").symlink_to("nowhere")
    # The same content twice, under two names and in two forms.
    (data / "plain.m10").write_bytes(CONTENT)
    (data / "zz_packed.m10").write_bytes(PACKED)
    place.write_study(STUDY)
    done = place.storewise("run", "s.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    report = html.unescape((place.results / "report.html").read_text())
    # Every bad file is listed with its true place.
    with (place.results / "inputs" / "quarantine.tsv").open(newline="") as file:
        rows = {row["path"]: row for row in csv.DictReader(file, delimiter="\t")}
    assert set(rows) == {*bad, "data/dangling.m10"}
    for path, row in rows.items():
        assert row["reason"].startswith(path), row
        assert row["reason"] in report
        if path in bad:
            found = int(row["line"]), int(row["offset"])
            # The digest's pass may meet a damage at another line than the reader: at a true one.
            assert found == place_of(bad[path].decompressed, found[1]), row
            assert f"{path}, line {found[0]} (byte {found[1]}): " in row["reason"]
    # Every good file is stored, one under two names once.
    good = [path for path in data.iterdir() if path.exists() and f"data/{path.name}" not in bad]
    told = commands.storewise("inspect", *good).stdout.splitlines()
    documents = {one["file"]: one["documents"] for one in map(json.loads, told)}
    of_content = {content(path): documents[str(path)] for path in good}
    assert len(of_content) < len(good)
    expected = sum(of_content.values())
    assert list(place.counts().values()) == [(expected, expected)]
    assert place.documents() == expected
    # The zeros behind the third are no content.
    for copy in ("plain", "zz_packed"):
        assert f"data/{copy}.m10 = data/gzip_padded_with_zeros.m10" in report
    assert place.left_behind() == []


@pytest.mark.slow
def test_fail_stops_at_bad_input_and_says_how_to_go_on(tmp_path):
    place = Workspace(tmp_path)
    data = place.copy_inputs(SMALL[:1])
    place.write_study(STUDY.replace("quarantine", "fail"))
    cut = BAD["cut in a sequence"]
    (data / "cut.m10").write_bytes(cut.stored)
    (data / "empty.m10").touch()
    done = place.storewise("run", "s.yaml")
    assert done.returncode not in {0, 1}
    text = done.stdout + done.stderr
    line, offset = place_of(cut.stored, len(cut.stored))
    assert f"storewise: data/cut.m10, line {line} (byte {offset}): " in text
    assert "on_bad_input: quarantine in the study, or --quarantine" in text
    assert "Traceback" not in text
    assert not (place.results / "trials").exists()
