"""What is taken from the end of a server's log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storewise.session.server_log import mapped_write, no_space


@pytest.mark.parametrize(
    "line",
    [
        'PANIC:  could not write to file "pg_wal/xlogtemp.12": No space left on device',
        "[ERROR] mariadbd: Disk full (./storewise/align.ibd); waiting for someone to free some",
        "[ERROR] InnoDB: preallocating 65536 bytes for file ./s/rna.ibd failed with error 28",
        '{"s":"E","c":"WT","msg":"WiredTiger error","attr":{"error":28,"message":'
        '"[1] __posix_file_write: handle-write: pwrite: No space left on device"}}',
        "org.apache.cassandra.io.FSWriteError: java.io.IOException: No space left on device",
    ],
)
def test_a_full_disk_is_seen_in_the_words_of_each_server(tmp_path: Path, line: str) -> None:
    log = tmp_path / "server.log"
    assert no_space(log) == ""
    log.write_text(f"starting\n{line}\nshutting down\n")
    assert no_space(log) == line
    log.write_text("starting\n" + "x" * 400 + "\n")
    assert no_space(log) == ""


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
