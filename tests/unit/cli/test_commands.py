"""What the commands say of themselves, and what `storewise init` refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import storewise
from support.paths import ROOT, SMALL


def test_every_command_shows_an_example() -> None:
    listing = storewise("--help").stdout
    commands = [c for c in ("inspect", "convert", "manifest", "init", "run") if c in listing]
    assert len(commands) == 5
    for command in commands:
        assert "Example:" in storewise(command, "--help").stdout


def test_init_replaces_a_study_only_by_force(tmp_path: Path) -> None:
    request = ("init", SMALL[0].parent, "-o", "mine.yaml")
    assert storewise(*request, cwd=tmp_path).returncode == 0
    again = storewise(*request, cwd=tmp_path)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert storewise(*request, "--force", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("directory", "words"), [("empty", "none of the first 1 files"), (ROOT / "no", "no such")]
)
def test_init_on_what_is_no_directory_of_outputs(
    tmp_path: Path, directory: str | Path, words: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.txt").write_text("nothing")
    result = storewise("init", directory, "-o", "x.yaml", cwd=tmp_path)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "x.yaml").exists()
