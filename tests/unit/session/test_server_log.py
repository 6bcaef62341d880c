"""A full disk in the words of each server's log."""

from types import SimpleNamespace

import pytest

from storewise.session.coordination.ending import log_tail, mapped_write, no_space


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
def test_a_full_disk_is_seen_in_the_words_of_each_server(tmp_path, line):
    log = tmp_path / "server.log"
    assert no_space(log) == ""
    log.write_text(f"starting\n{line}\nshutting down\n")
    assert no_space(log) == line
    log.write_text("starting\n" + "x" * 400 + "\n")
    assert no_space(log) == ""


def test_a_mapped_file_without_space_is_told_from_a_broken_disk(tmp_path, monkeypatch):
    """The Java machine has one signal for both."""
    log = tmp_path / "server.log"
    line = "#  SIGBUS (0x7) at pc=0x00007f11a093914e, pid=24430, tid=25078"

    def told(text, free):
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr("shutil.disk_usage", lambda directory: usage)
        log.write_text(f"#\n{text}\n#\n")
        return mapped_write(log, tmp_path)

    assert told(line, (64 << 20) - 1) == line
    assert told(line, 64 << 20) == ""
    assert told(line.replace("SIGBUS (0x7)", "SIGSEGV (0xb)"), 0) == ""
    log.write_text(line)
    monkeypatch.undo()
    assert mapped_write(log, tmp_path / "gone") == ""


def test_the_end_of_a_log_is_short_and_without_the_places_of_exceptions(tmp_path):
    log = tmp_path / "server.log"
    assert log_tail(log) == ""
    java = "\tat org.apache.Some$Class.go(Some.java:7) ~[a.jar:1]\n\t... 12 more\n"
    lines = [f"line {number}" for number in range(20)]
    log.write_text("\n".join(lines) + f"\n{java}java.io.IOException: {'x' * 400}\n")
    tail = log_tail(log).splitlines()
    assert tail == [*lines[-11:], f"java.io.IOException: {'x' * 279} ..."]
    # The end of a large log, and not the whole: what stands 32 KiB before it is not seen.
    log.write_text("No space left on device\n" + "y\n" * 20000)
    assert no_space(log) == ""
    log.write_text("No space left on device\n" + "y\n" * 16000)
    assert no_space(log) == "No space left on device"
