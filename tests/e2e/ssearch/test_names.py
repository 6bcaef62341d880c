"""File names in the C locale, and directories that may not be read."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from support.inputs.ssearch import DATA

from storewise.errors import InputError
from storewise.ssearch.inputs.paths import list_inputs

CONTENT = (DATA / "ssearch36.m10").read_bytes()
STOREWISE = str(Path(sys.executable).parent / "storewise")
C_LOCALE = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def run(
    place: Path, *arguments: str | bytes, **options: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [STOREWISE, *arguments],
        cwd=place,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        **options,
    )


def test_the_c_locale_and_names_that_are_not_ascii(tmp_path: Path) -> None:
    (tmp_path / "é").mkdir()
    (tmp_path / "é" / "naïve.m10").write_bytes(CONTENT)
    (tmp_path / "liste.txt").write_text("é/naïve.m10\n", encoding="utf-8")
    latin = b"caf\xe9.m10"
    (tmp_path / os.fsdecode(latin)).write_bytes(CONTENT)
    done = run(tmp_path, "inspect", "é/naïve.m10", latin, env=C_LOCALE)
    good, bad = map(json.loads, done.stdout.splitlines())
    assert good["file"] == "é/naïve.m10" and good["complete"], done.stderr
    assert bad["file"] == "caf\\xe9.m10" and "not UTF-8" in bad["error"]["message"]
    request = ("convert", "é/naïve.m10", latin, "--to", "jsonl", "-j", "1", "-o", "ö")
    done = run(tmp_path, *request, env=C_LOCALE)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert sum(Path(tmp_path, line).is_file() for line in done.stdout.splitlines()) == 4
    done = run(tmp_path, "manifest", "@liste.txt", "-o", "m.parquet", "-j", "1", env=C_LOCALE)
    assert done.returncode == 0 and "1 files" in done.stderr, done.stderr


def test_what_is_no_regular_file_has_no_row(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run(tmp_path, "manifest", "pipe", "-o", "m.parquet")
    assert done.returncode == 2 and "not a regular file" in done.stderr


def _list_as_another_user(spec: str, answer: Any) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        answer.put(str(list_inputs([spec])))
    except InputError as error:
        answer.put(str(error))


@pytest.mark.parametrize("spec", ["in", "in/**/*.m10", "in/*/*.m10"])
def test_a_directory_that_may_not_be_read_is_named(spec: str) -> None:
    """Root may read all, so the files are listed by a child that is nobody."""
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as name:  # pytest's own directories are closed to others
        place = Path(name)
        place.chmod(0o755)
        for directory in ("open", "closed"):
            (place / "in" / directory).mkdir(parents=True)
            (place / "in" / directory / "a.m10").write_bytes(CONTENT)
        (place / "in" / "closed").chmod(0)
        answer = fork.Queue()
        child = fork.Process(target=_list_as_another_user, args=(f"{name}/{spec}", answer))
        child.start()
        output = answer.get(timeout=300)
        child.join()
        (place / "in" / "closed").chmod(0o755)
    assert output == f"{name}/in/closed: the directory cannot be read: Permission denied"
