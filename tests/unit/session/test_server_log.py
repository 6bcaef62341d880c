"""A full disk in the words of each server's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from storewise.session.coordination.ending import no_space


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
