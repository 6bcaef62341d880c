"""Rounds: inputs that are read, sorted and committed together."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from storewise.dataset.chunk import DONE, Chunk, InputRow, chunk_name, read_chunk, read_in_memory
from storewise.dataset.commits import Commit, Known, State, commit_name, rows_table, stem
from storewise.dataset.memory import limit_arrow_memory
from storewise.dataset.segments import Run, digest_number, spilled
from storewise.dataset.settings import SHARE_OF_TEXT, Settings, text_bytes
from storewise.dataset.storage import WHOLE, DatasetStorage
from storewise.dataset.writer import DataFile, kind_named, write_files
from storewise.documents import KINDS
from storewise.errors import BadInputs, StorewiseError
from storewise.processes import in_processes
from storewise.ssearch.parse.remote import Listed

#: Bytes of text that one process reads and writes without a file between, and of a chunk at least.
IN_MEMORY = 128 << 20
#: Chunks of a round at most: a process that writes has the files of all of them open.
_CHUNKS = 400
#: Bytes of work on disk for a byte of text: spilled runs, and the finished files beside them.
_WORK_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Folders:
    """Working directories of a round, below the directory of a share."""

    own: Path

    @property
    def share(self) -> str:
        """The share whose directory it is; empty for a writer of the whole."""
        return "" if self.own.name == WHOLE else self.own.name

    @property
    def chunks(self) -> Path:
        """Runs of inputs that were read."""
        return self.own / "chunks"

    @property
    def begun(self) -> bool:
        """Whether a killed run has read inputs that no round has committed."""
        return any(self.chunks.glob(f"*/{DONE}"))

    @property
    def out(self) -> Path:
        """Finished files that do not have their final names yet."""
        return self.own / "out"

    def commit(self, number: int) -> Path:
        """The journal of a round: its commit, before it has its final name."""
        return self.own / f"{number:04d}.commit"

    def commits(self) -> list[Path]:
        """The journals of commits that a killed run left."""
        return sorted(self.own.glob("*.commit"))


def chunk_bytes(text: int, processes: int) -> int:
    """Bytes of text of a chunk: several chunks a process, small enough that a kill loses little."""
    return min(max(text // (4 * processes), IN_MEMORY), 2 * IN_MEMORY)


def chunks_of(files: Sequence[Listed], size: int) -> Iterator[list[Listed]]:
    """Cuts inputs into chunks of about so many bytes of text, in their order."""
    chunk: list[Listed] = []
    text = 0
    for file in files:
        chunk.append(file)
        text += text_bytes(file.path, file.bytes)
        if text >= size:
            yield chunk
            chunk, text = [], 0
    if chunk:
        yield chunk


def text_of(files: Sequence[Listed]) -> int:
    """Bytes of text of inputs, about."""
    return sum(text_bytes(file.path, file.bytes) for file in files)


def rounds_of(
    chunks: Sequence[list[Listed]], settings: Settings, folder: Path
) -> Iterator[list[list[Listed]]]:
    """Joins chunks into rounds whose files will have about the target size, and that fit on the
    disk beside what they become."""
    most = settings.partitions * settings.target_bytes / SHARE_OF_TEXT
    most = min(most, shutil.disk_usage(folder).free / _WORK_SHARE)
    joined: list[list[Listed]] = []
    text = 0
    for chunk in chunks:
        size = text_of(chunk)
        if joined and (text + size > most or len(joined) == _CHUNKS):
            yield joined
            joined, text = [], 0
        joined.append(chunk)
        text += size
    if joined:
        yield joined


#: Runs of a chunk, or the directory that they were spilled to.
Runs = Sequence[Run] | Path


@dataclass(frozen=True, slots=True)
class _Writing:
    """The files of a kind and partition that are to be written, of chunks with what to keep of
    their inputs."""

    chunks: Sequence[tuple[Runs, Sequence[bool]]]
    out: Path
    kind: str
    partition: int
    stem: str
    settings: Settings


def _write(job: _Writing) -> list[DataFile]:
    kind = kind_named(job.kind)
    sources = [
        run.of_partition(job.partition, keep)
        for runs, keep in job.chunks
        for run in (spilled(runs, kind) if isinstance(runs, Path) else (run[kind] for run in runs))
    ]
    return write_files(sources, job.out, kind, job.partition, job.stem, job.settings)


def _killed(what: object) -> StorewiseError:
    return StorewiseError(
        "a process of the conversion was killed (out of memory?); call it again with fewer --jobs: "
        "what is finished is kept"
    )


class Equals:
    """Recognizes inputs that are equal to an earlier one."""

    def __init__(self, known: dict[str, Known]) -> None:
        self._by_digest: dict[int, tuple[bytes, str]] = {}
        for path, one in known.items():
            if one.digest is not None:
                self._by_digest.setdefault(digest_number(one.digest), (one.digest, path))

    def first(self, row: InputRow) -> str | None:
        """The path of the input that `row` is equal to; None for a new one, which is known then.

        StorewiseError for two inputs that differ, while the part of their digests does not that
        ids have.
        """
        digest = bytes.fromhex(row.digest)
        there = self._by_digest.setdefault(digest_number(digest), (digest, row.path))
        if there[0] != digest:
            raise StorewiseError(
                f"{row.path} and {there[1]} differ, but their documents would have the same ids; "
                "convert them into two data sets"
            )
        return None if there[1] == row.path else there[1]


def check_rows(storage: DatasetStorage, documents: int, files: Sequence[DataFile]) -> None:
    """Raises StorewiseError where files have not as many rows as there are documents."""
    if (rows := sum(file.rows for file in files)) != documents:
        raise StorewiseError(
            f"{storage}: {rows} documents would be written of {documents}; nothing was changed. "
            "Its files were changed, or have documents without their search: make a new data set "
            "of the outputs. If that ends in the same way, report it as a defect of Storewise"
        )


def run_round(
    storage: DatasetStorage,
    folders: Folders,
    state: State,
    settings: Settings,
    inputs: Sequence[list[Listed]],
    number: int,
    share: str,
    *,
    processes: int,
    quarantine: bool,
    read: Callable[[int], None],
    wrote: Callable[[float], None],
) -> Commit:
    """Read inputs and write their files; returns the commit, which the caller has to store.

    `read` is called with the stored bytes of the inputs just read, `wrote` with the fraction of
    the files just written. Raises BadInputs for bad inputs unless `quarantine` leaves them out.
    """
    chunks = [
        Chunk(files, folders.chunks / chunk_name(files, settings), settings) for files in inputs
    ]
    shutil.rmtree(folders.out, ignore_errors=True)
    known = state.known()
    equals = Equals(known)
    equal: dict[str, str] = {}
    rows: list[InputRow] = []
    documents = 0

    def wanted(of: Sequence[InputRow]) -> list[bool]:
        nonlocal documents
        rows.extend(of)
        keep = []
        for row in of:
            first = None if row.bad else equals.first(row)
            if first is not None:
                equal[row.path] = first
            keep.append(row.bad is None and first is None)
            documents += row.documents if keep[-1] else 0
        return keep

    read_all: list[tuple[Runs, Sequence[bool]]] = []
    small = len(chunks) == 1 and text_of(inputs[0]) <= IN_MEMORY
    small = small and not chunks[0].directory.exists()
    if small:
        some, runs = read_in_memory(chunks[0])
        read(chunks[0].text)
        read_all.append((runs, wanted(some)))
    else:
        results = in_processes(
            read_chunk, chunks, processes, killed=_killed, begin=limit_arrow_memory
        )
        for chunk, some in zip(chunks, results, strict=True):
            read_all.append((chunk.directory, wanted(some)))
            read(chunk.text)
    if not quarantine and (bad := [row.bad for row in rows if row.bad]):
        raise BadInputs(bad, len(rows))
    jobs = [
        _Writing(read_all, folders.out, kind.table, partition, stem(share, number), settings)
        # The largest kinds first, so that no process has one alone at the end.
        for kind in reversed(KINDS)
        for partition in range(settings.partitions)
    ]
    added = []
    with ThreadPoolExecutor(2, "write") as threads:
        written: Iterable[list[DataFile]] = (
            threads.map(_write, jobs)
            if small or processes == 1
            else in_processes(_write, jobs, processes, killed=_killed, begin=limit_arrow_memory)
        )
        for files in written:
            added += files
            wrote(1 / len(jobs))
    check_rows(storage, documents, added)
    table = rows_table(rows, equal, number)
    commit = Commit(table, sorted(added))
    if share:
        return commit  # others may be replacing the same one: the merge at the end sees to it
    return _superseding(commit, state, known, [row.path for row in rows])


def _superseding(
    commit: Commit, state: State, known: dict[str, Known], paths: Sequence[str]
) -> Commit:
    """The commit, which replaces those that have a row of its inputs already (bad ones)."""
    old = sorted({known[path].commit for path in paths if path in known})
    for name in old:
        before = state.commits[name]
        others = pc.invert(pc.is_in(before.rows["path"], pa.array(paths, pa.string())))
        commit.rows = pa.concat_tables([commit.rows, before.rows.filter(others)])
        commit.added += before.added
        commit.removed += [name, *before.removed]
    return commit


def carry_out(storage: DatasetStorage, folders: Folders, journal: Path, share: str) -> None:
    """Carry out the steps of a journal that were not done before."""
    commit = Commit.read(journal)
    number = int(journal.stem)
    there = set(storage.names())
    for file in commit.added:
        # A commit that replaces another one names the files of that, too.
        if (folders.out / file.name).exists() or file.name not in there:
            storage.put(folders.out / file.name, file.name)  # says what is wrong with a lost one
    storage.put_commit(journal, commit_name(share, number))
    storage.delete(name for name in commit.removed if name in there)
    shutil.rmtree(folders.out, ignore_errors=True)


def commit_round(
    storage: DatasetStorage, folders: Folders, commit: Commit, number: int, share: str
) -> None:
    """Give the round's files their names; from the journal on it is carried out by whoever comes
    next."""
    journal = folders.commit(number)
    commit.write(journal)
    carry_out(storage, folders, journal, share)
    shutil.rmtree(folders.chunks, ignore_errors=True)
