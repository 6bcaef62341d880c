"""Running ``ssearch36``: one query file, one library, one complete output or one clear error.

The program does not say when it fails: a library that is missing, empty or compressed gives exit
status 0 and an output that looks complete. So inputs are checked before, the output while it is
written, and nothing appears under its final name before all is well.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import IO, BinaryIO, NoReturn, cast

import zstandard

from storewise.atomic import write_aside
from storewise.documents import DIGEST_BYTES
from storewise.errors import InputError, SearchError
from storewise.processes import clean_environment, dies_with_parent
from storewise.ssearch.parse.stream import open_input, read_head
from storewise.ssearch.reader import DocumentReader

#: The published study's options: every library sequence passes (first value of -E), one
#: alignment per hit and strand (the second); the two values are one argument.
STUDY_OPTIONS = ("-Q", "-H", "-m", "10", "-W", "0", "-E", "1000000000 -1")

_CHUNK_BYTES = 1 << 20
_TAIL_LINES = 5
#: What the program says about an empty library in its closing lines.
_NO_LIBRARY = re.compile(rb"^ *0 residues in +\d+ library sequences", re.MULTILINE)
_VERSION = re.compile(rb"^ version +(.+)$", re.MULTILINE)
_LIBRARY = re.compile(rb"^ *(\d+) residues in +(\d+) +library sequences", re.MULTILINE)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_CLOSING_BYTES = 4096
_INSTALL = "install the FASTA package (Debian: apt install fasta3; conda: bioconda's fasta3)"


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """The search that made an output; kept as JSON beside it (`record_path`)."""

    program: str
    version: str
    command: str
    """The command line as a shell would take it, with the names of the input files."""
    query: str
    library: str
    library_residues: int
    library_sequences: int
    queries: int
    alignments: int
    seconds: float


def record_path(output: Path) -> Path:
    """Path of the SearchRecord of `output`."""
    return output.with_name(f"{output.name}.json")


def run_search(
    query: Path,
    library: Path,
    output: Path,
    *,
    options: Sequence[str] = STUDY_OPTIONS,
    program: str = "ssearch36",
    threads: int | None = None,
) -> SearchRecord:
    """Searches every sequence of `query` in `library` and writes the ``-m 10`` output.

    Both inputs are FASTA, plain or compressed. `output` is compressed where its name ends in
    ``.gz`` or ``.zst``; it is written aside and renamed, after its record. `threads` adds ``-T``.
    The program runs in a directory of its own, so that the output names the inputs without their
    directories (and with ``_`` for what the programs cannot take in a name). It ends when this
    process does.

    Raises InputError for an input that is missing or no FASTA, SearchError, with the last lines
    of the program's own words, where the program is not installed, fails, is killed, finds no
    library sequence, or leaves an incomplete output. Then no file stays behind, nor after a
    termination signal.
    """
    output = Path(os.path.abspath(output))  # noqa: PTH100 - must not resolve links
    executable = shutil.which(program)
    if executable is None:
        raise SearchError(f"{program} is not installed or not on PATH; {_INSTALL}")
    scratch = output.with_name(f".{output.name}.search")
    with _termination_raises():
        try:
            # A search that was killed before may have left it.
            shutil.rmtree(scratch, ignore_errors=True)
            inputs, partial = scratch / "inputs", scratch / output.name
            inputs.mkdir(parents=True)
            names = [_place(query, inputs, "query"), _place(library, inputs, "library")]
            # The output repeats the command line; it should not tell where the program is.
            command = [Path(program).name, *options, *names]
            if threads is not None:
                command[1:1] = ["-T", str(threads)]
            record = _run(
                os.path.abspath(executable),  # noqa: PTH100 - as above
                command,
                inputs,
                partial,
                query,
                library,
            )
            write_aside(record_path(output), json.dumps(asdict(record), indent=2) + "\n")
            partial.replace(output)
        except OSError as error:
            raise SearchError(f"{output}: cannot be written: {error.strerror or error}") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return record


def _place(source: Path, scratch: Path, role: str) -> str:
    """Puts an input into the directory `scratch`, decompressed, under a name that is safe.

    The programs take a blank in a file name for the start of a format number, and ``@``, ``!``
    and ``%`` for other kinds of library; they do not read compressed files.
    """
    first = read_head(source, _CHUNK_BYTES)
    start = first.lstrip()
    if not start:
        raise InputError(source, f"the {role} file is empty", expected="FASTA records")
    if not start.startswith((b">", b";")):
        raise InputError(
            source,
            f"the {role} file is not FASTA",
            line=first[: len(first) - len(start)].count(b"\n") + 1,
            expected="a header line that starts with '>'",
            found=repr(start.split(b"\n", 1)[0][:60].decode("utf-8", "backslashreplace")),
        )
    with source.open("rb") as stored:
        plain_text = stored.read(len(first)) == first
    name = _UNSAFE.sub("_", source.name)
    if not plain_text:
        name = name.removesuffix(".gz").removesuffix(".zst")
    if name.startswith("-"):
        name = f"_{name}"
    while (scratch / name).exists():
        name = f"{role}_{name}"
    if plain_text:
        (scratch / name).symlink_to(source.resolve())
        return name
    with open_input(source) as stream, (scratch / name).open("xb") as plain:
        while data := stream.read(_CHUNK_BYTES):
            plain.write(data)
    return name


def _run(
    executable: str,
    command: list[str],
    inputs: Path,
    partial: Path,
    query: Path,
    library: Path,
) -> SearchRecord:
    started = time.monotonic()
    what = f"{shlex.join(command)} (query {query}, library {library})"
    errors = inputs.with_name("stderr")
    with errors.open("wb") as messages:
        child = subprocess.Popen(
            command,
            executable=executable,
            cwd=inputs,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=messages,
            env=clean_environment(),
            preexec_fn=dies_with_parent(),
        )
    incomplete: InputError | None = None
    try:
        assert child.stdout is not None
        with child.stdout, _writer(partial) as sink:
            output = _CopiedOutput(child.stdout.fileno(), sink)
            reader = DocumentReader(
                cast(BinaryIO, output), bytes(DIGEST_BYTES), name=f"the output of {what}"
            )
            try:
                counts = reader.count()
            except InputError as error:
                incomplete = error
            while output.read(_CHUNK_BYTES):
                continue
        status = child.wait()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    words = _last_lines(errors.read_bytes(), output.tail)
    if status < 0:
        raise SearchError(f"{what} was killed by {_signal_name(-status)}{words}")
    if status > 0:
        raise SearchError(f"{what} failed with exit status {status}{words}")
    if _NO_LIBRARY.search(output.tail):
        raise SearchError(
            f"{what} found no sequence in the library; check that it is FASTA of the right kind "
            f"(nucleotide or protein){words}"
        )
    if incomplete is not None:
        wanted = f"; expected {incomplete.expected}" if incomplete.expected else ""
        raise SearchError(
            f"{what} gave no complete -m 10 output: {incomplete.reason}{wanted} (do the options "
            f"hold -m 10, and nothing the program does not know?){words}"
        ) from incomplete
    residues = _LIBRARY.search(output.tail)
    version = _VERSION.search(output.head)
    return SearchRecord(
        program=command[0],
        version=version[1].decode("utf-8", "replace").strip() if version else "",
        command=shlex.join(command),
        query=query.name,
        library=library.name,
        library_residues=int(residues[1]) if residues else 0,
        library_sequences=int(residues[2]) if residues else 0,
        queries=counts.queries,
        alignments=counts.alignments,
        seconds=round(time.monotonic() - started, 3),
    )


class _CopiedOutput:
    """The output of a program, copied into a file while it is read; `head` and `tail` stay."""

    def __init__(self, descriptor: int, copy: IO[bytes]) -> None:
        self.head = b""
        self.tail = b""
        self._descriptor = descriptor
        self._copy = copy

    def read(self, size: int, /) -> bytes:
        data = os.read(self._descriptor, size)
        if len(self.head) < _CLOSING_BYTES:
            self.head = (self.head + data)[:_CLOSING_BYTES]
        self.tail = (self.tail + data)[-_CLOSING_BYTES:]
        self._copy.write(data)
        return data


@contextmanager
def _writer(path: Path) -> Iterator[IO[bytes]]:
    """A stream into `path`, compressed as its name says; on disk when it closes."""
    with path.open("wb") as raw:
        if path.suffix == ".gz":
            # No time and no name inside: the same search gives the same bytes.
            with gzip.GzipFile("", "wb", 6, cast(IO[bytes], raw), mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif path.suffix == ".zst":
            with zstandard.ZstdCompressor(level=6).stream_writer(raw, closefd=False) as frames:
                yield cast(IO[bytes], frames)
        else:
            yield raw
        raw.flush()
        os.fsync(raw.fileno())


def _last_lines(errors: bytes, output: bytes) -> str:
    """The end of what the program said; some of its errors go to the output."""
    lines = [line for line in output.splitlines() if line.startswith(b"***")]
    lines += [line for line in errors.splitlines() if line.strip()]
    last = b"\n".join(lines[-_TAIL_LINES:]).decode("utf-8", "replace")
    return "".join(f"\n  {line.rstrip()}" for line in last.splitlines())


def _signal_name(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    hint = " (out of memory?)" if number == signal.SIGKILL else ""
    return f"signal {number}, {name}{hint}"


@contextmanager
def _termination_raises() -> Iterator[None]:
    """Lets a termination signal unwind the stack, so that clean-up runs; main thread only."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    # A signal that something else handles already is that one's business.
    taken = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if threading.current_thread() is threading.main_thread()
        and signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in taken:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
