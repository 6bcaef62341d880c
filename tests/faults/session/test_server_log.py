"""A mapped file on a full disk, told from a broken disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from storewise.session.coordination.ending import mapped_write


def test_a_mapped_file_without_space_is_told_from_a_broken_disk(
    tmp_path: Path, small_disk: Callable[..., Path]
) -> None:
    """The Java machine has one signal for both."""
    log = tmp_path / "server.log"
    line = "#  SIGBUS (0x7) at pc=0x00007f11a093914e, pid=24430, tid=25078"
    log.write_text(f"#\n{line}\n#\n")
    assert mapped_write(log, small_disk("1m")) == line
    assert mapped_write(log, small_disk("200m")) == ""
    assert mapped_write(log, tmp_path / "gone") == ""
    log.write_text("#  SIGSEGV (0xb) at pc=0x00007f11a093914e, pid=24430, tid=25078\n")
    assert mapped_write(log, tmp_path / "disk0") == ""
