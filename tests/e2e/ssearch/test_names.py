"""File names in the C locale."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support.inputs.ssearch import DATA

CONTENT = (DATA / "ssearch36.m10").read_bytes()
STOREWISE = str(Path(sys.executable).parent / "storewise")
C_LOCALE = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def run(place, *arguments):
    command = [STOREWISE, *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, encoding="utf-8", env=C_LOCALE)


def test_the_c_locale_and_names_that_are_not_ascii(tmp_path):
    (tmp_path / "é").mkdir()
    (tmp_path / "é" / "naïve.m10").write_bytes(CONTENT)
    (tmp_path / "liste.txt").write_text("é/naïve.m10\n", encoding="utf-8")
    latin = b"caf\xe9.m10"
    (tmp_path / os.fsdecode(latin)).write_bytes(CONTENT)
    done = run(tmp_path, "inspect", "é/naïve.m10", latin)
    good, bad = map(json.loads, done.stdout.splitlines())
    assert good["file"] == "é/naïve.m10" and good["complete"], done.stderr
    assert bad["file"] == "caf\\xe9.m10" and "not UTF-8" in bad["error"]["message"]
    request = ("convert", "é/naïve.m10", latin, "--to", "jsonl", "-j", "1", "-o", "ö")
    done = run(tmp_path, *request)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert sum(Path(tmp_path, line).is_file() for line in done.stdout.splitlines()) == 4
    done = run(tmp_path, "manifest", "@liste.txt", "-o", "m.parquet", "-j", "1")
    assert done.returncode == 0 and "1 files" in done.stderr, done.stderr
