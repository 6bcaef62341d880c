"""Bad input as a user meets it: one message with the true place, never a hang or a silent loss.

The places are counted in the bytes of each file, not with the project's code. How the parts of the
readers react to damage is tested with them, what the commands say of each kind in tests/unit/cli;
this is the workflow, and the commands in processes of their own.
"""

from __future__ import annotations

import csv
import gzip
import html
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import zstandard
from support.inputs.bad_files import (
    CONTENT,
    GOOD,
    HIT,
    PACKED,
    Bad,
    file_name,
    made_bad,
    place_of,
    searched_bad,
)
from support.inputs.told import check, told_of
from support.paths import SMALL
from support.workspace import Workspace

pytestmark = pytest.mark.needs("ssearch36")

STOREWISE = str(Path(sys.executable).parent / "storewise")
SECONDS = 30


def storewise(*arguments: str | Path, under: list[str] | None = None, **options: object) -> Done:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*(under or []), STOREWISE, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
        **options,
    )


Done = subprocess.CompletedProcess[str]


def unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().decompressobj().decompress(content)
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> list[Bad]:
    return searched_bad(tmp_path_factory.mktemp("searches"))


def test_other_outputs_of_ssearch36(searched: list[Bad], tmp_path: Path) -> None:
    assert len(searched) == 6
    for bad in searched:
        (tmp_path / file_name(bad.kind)).write_bytes(bad.stored)
    paths = {bad.kind: tmp_path / file_name(bad.kind) for bad in searched}
    output = told_of(storewise, list(paths.values()))
    for bad in searched:
        check(output, paths[bad.kind], bad.says, bad.place, any_place=False)


@pytest.mark.needs("setpriv")
def test_a_file_that_may_not_be_read() -> None:
    under: list[str] = []
    if os.geteuid() == 0:
        under = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    # pytest's own directories are closed to others.
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        path = directory / "secret.m10"
        path.write_bytes(CONTENT)
        path.chmod(0)
        done = storewise("inspect", path, under=under, cwd=directory)
    assert done.returncode == 1, done.stderr
    assert "Permission denied" in json.loads(done.stdout)["error"]["message"]
    assert "Traceback" not in done.stderr


def test_good_files_among_bad_ones_are_converted(tmp_path: Path) -> None:
    names = ["1.m10", "2.m10", "3.m10"]
    for name, content in zip(names, (CONTENT, CONTENT[:HIT], CONTENT + b"\n"), strict=True):
        (tmp_path / name).write_bytes(content)
    done = storewise("convert", *names, "--to", "bson", "-o", "out", "--jobs", "2", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("storewise: 2.m10, line ")
    assert done.stderr.count("\n") == 1
    written = {path.name.split("-")[0] for path in (tmp_path / "out").iterdir()}
    assert written == {"1.m10", "3.m10"}
    assert len(list((tmp_path / "out").iterdir())) == 8


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


@pytest.fixture(scope="module")
def quarantined(
    tmp_path_factory: pytest.TempPathFactory, searched: list[Bad]
) -> tuple[Workspace, dict[str, Bad], Done]:
    """A run with every bad file among good ones: the workspace, the bad ones, what was said."""
    place = Workspace(tmp_path_factory.mktemp("quarantine"))
    data = place.copy_inputs(SMALL[:3])
    bad = {f"data/{file_name(one.kind)}": one for one in [*made_bad(), *searched]}
    for name, one in bad.items():
        (place.directory / name).write_bytes(one.stored)
    for kind, (content, _) in GOOD.items():
        (data / file_name(kind)).write_bytes(content)
    (data / "dangling.m10").symlink_to("nowhere")
    # The same content twice, under two names and in two forms.
    (data / "plain.m10").write_bytes(CONTENT)
    (data / "zz_packed.m10").write_bytes(PACKED)
    place.write_study(STUDY)
    done = place.storewise("run", "s.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return place, bad, done


def test_every_bad_file_is_listed_with_its_true_place(
    quarantined: tuple[Workspace, dict[str, Bad], Done],
) -> None:
    place, bad, done = quarantined
    assert "Traceback" not in done.stdout + done.stderr
    with (place.results / "inputs" / "quarantine.tsv").open(newline="") as file:
        rows = {row["path"]: row for row in csv.DictReader(file, delimiter="\t")}
    assert set(rows) == {*bad, "data/dangling.m10"}
    report = html.unescape((place.results / "report.html").read_text())
    for path, row in rows.items():
        assert row["reason"].startswith(path), row
        assert path in report
        assert row["reason"] in report
        if path not in bad:
            continue
        result = int(row["line"]), int(row["offset"])
        # The digest's pass may meet a damage at another line than the reader, but at a true one.
        assert result == place_of(bad[path].decompressed, result[1]), row
        assert f"{path}, line {result[0]} (byte {result[1]}): " in row["reason"]


def test_every_good_file_is_stored(quarantined: tuple[Workspace, dict[str, Bad], Done]) -> None:
    place, bad, _ = quarantined
    good = [path for path in (place.directory / "data").iterdir() if path.exists()]
    good = [path for path in good if f"data/{path.name}" not in bad]
    assert len(good) == 3 + len(GOOD) + 2
    result = {
        one["file"]: one["documents"]
        for one in map(json.loads, storewise("inspect", *good).stdout.splitlines())
    }
    of_content = {unpacked(path): result[str(path)] for path in good}
    assert len(of_content) < len(good)
    expected = sum(of_content.values())
    assert list(place.counts().values()) == [(expected, expected)]
    assert place.documents() == expected
    report = html.unescape((place.results / "report.html").read_text())
    assert "data/best_scores_and_no_alignments.m10" in report
    assert "have best scores and no alignments" in report
    assert place.left_behind() == []


def test_a_file_under_two_names_is_used_once_and_named(
    quarantined: tuple[Workspace, dict[str, Bad], Done],
) -> None:
    place, _, _ = quarantined
    report = html.unescape((place.results / "report.html").read_text())
    # The zeros behind the third are no content.
    for copy in ("plain", "zz_packed"):
        assert f"data/{copy}.m10 = data/gzip_padded_with_zeros.m10" in report


def test_fail_stops_at_bad_input_and_says_how_to_go_on(
    tmp_path: Path,
) -> None:
    place = Workspace(tmp_path)
    place.copy_inputs(SMALL[:2])
    bad = next(one for one in made_bad() if one.kind == "cut in a sequence")
    (tmp_path / "data" / "cut.m10").write_bytes(bad.stored)
    (tmp_path / "data" / "empty.m10").touch()
    place.write_study(STUDY.replace("quarantine", "fail"))
    done = place.storewise("run", "s.yaml")
    assert done.returncode not in {0, 1}
    assert bad.place is not None
    text = done.stdout + done.stderr
    # The digest's pass counts lines: it names the last one.
    line, offset = place_of(bad.stored, len(bad.stored))
    assert f"storewise: data/cut.m10, line {line} (byte {offset}): " in text
    assert "2 of 4 files are bad" in text
    assert "on_bad_input: quarantine goes on with the others" in text
    assert "Traceback" not in text
    assert "Page:" not in text
    assert not (place.results / "trials").exists()


def test_fail_stops_a_load_that_meets_a_bad_value(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    place.copy_inputs(SMALL[:1])
    bad = next(one for one in made_bad() if one.kind == "a number that is none")
    (tmp_path / "data" / "value.m10").write_bytes(bad.stored)
    place.write_study(STUDY.replace("quarantine", "fail"))
    done = place.storewise("run", "s.yaml", "--", "--omit-from", "analyse")
    text = done.stdout + done.stderr
    assert done.returncode == 1
    assert bad.place is not None
    message = f"data/value.m10, line {bad.place[0]} (byte {bad.place[1]}): bad number"
    assert message in text
    assert "Traceback" not in text
    assert place.counts() == {}
    assert place.left_behind() == []
    # The trial is given up with its reason, as the report tells it (studies/test_workflow.py).
    (failed,) = place.results.glob("trials/*/failed.json")
    assert message in json.loads(failed.read_text())["reason"]
