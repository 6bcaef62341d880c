"""Study files of any size get their trials or one sentence, in little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.inputs.small_studies import BOMB, GOOD
from support.paths import ROOT
from support.workspace import Workspace


def test_many_is_asked_for_by_name(tmp_path: Path) -> None:
    """Snakemake's door; that of `storewise run` is in tests/unit/cli. A run of a phase that no
    workload has ends before anything is planned."""
    place = Workspace(tmp_path)
    place.write_study(GOOD.replace("- read", "- reed") + "exclude:\n" + "- {workers: 9}\n" * 201)
    refused = place.snakemake("-n", "--config", "study=s.yaml")
    let = place.snakemake("-n", "--config", "study=s.yaml", "many=true")
    assert "201 rules" in refused.stdout + refused.stderr
    assert "no phase 'reed'" in let.stdout + let.stderr


def test_a_bomb_takes_little_memory(tmp_path: Path) -> None:
    """In a process that has 500 MB of memory for what its files say, and no more."""
    (tmp_path / "s.yaml").write_text(BOMB + GOOD)
    code = (
        "import sys; from pathlib import Path; from storewise.study.load import load_study\n"
        "import resource; used = int(Path('/proc/self/statm').read_text().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 500_000_000,) * 2)\n"
        # Not getrusage: its peak is that of the process which started this one, too.
        "import atexit; peak = lambda: Path('/proc/self/status').read_text().split('VmHWM:')[1]\n"
        "atexit.register(lambda: print(peak().split()[0]))\n"
        "load_study('s.yaml', root=Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(ROOT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith("storewise.errors.ConfigError: s.yaml, line 5")
    assert 0 < int(done.stdout) < 500_000
