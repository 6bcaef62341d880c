"""Small files of a partition made into one: many updates leave a bounded number of files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storewise.dataset import pieces as piece
from storewise.dataset.commits import Commit, State, commit_name, number_of, stem
from storewise.dataset.home import Home
from storewise.dataset.memory import limit_arrow_memory
from storewise.dataset.rounds import Folders, check_rows, commit_round
from storewise.dataset.settings import Settings
from storewise.dataset.writer import DataFile, Source, kind_named, partition_name, write_files
from storewise.documents import DIGEST_BYTES, ID_BYTES, KINDS, Kind
from storewise.errors import StorewiseError
from storewise.processes import in_processes

_LAST = re.compile(r"-([0-9]+)\.parquet$")


@dataclass(frozen=True, slots=True)
class _Merging:
    """Files of one kind and partition that are merged.

    `tasks` has the partition's files of searches, where the order stands on their names. Rows of
    the digests of `dropped[i]` are left out of the file `i`.
    """

    files: Sequence[Path]
    dropped: Sequence[frozenset[int]]
    tasks: Sequence[Path]
    kind: str
    partition: int
    out: Path
    stem: str
    settings: Settings


def _place(file: DataFile) -> tuple[str, int, int]:
    """The order in which a partition's files were written."""
    last = _LAST.search(file.name)
    share, number = number_of(file.name) or ("", 0)
    return share, number, int(last[1]) if last else 0


def merge_files(
    home: Home, folders: Folders, state: State, settings: Settings, *, processes: int, at_least: int
) -> State:
    """Merge each partition's files below half the target size, where there are `at_least` so many.

    Documents of equal inputs that several writers have put in at the same time stay once.
    """
    equal, dropped = _doubled(state)
    groups: dict[tuple[Kind, int], list[DataFile]] = {}
    by_folder = defaultdict(list)
    for file in state.files():
        by_folder[file.name.rpartition("/")[0]].append(file)
    for kind in KINDS:
        for partition in range(settings.partitions):
            files = sorted(by_folder[partition_name(kind.table, partition)], key=_place)
            touched = dropped and any(
                settings.by != "hash"
                or piece.sort_key_of(settings, None, None, digest).partition == partition
                for digests in dropped.values()
                for digest in digests
            )
            small = [file for file in files if file.bytes < settings.target_bytes // 2]
            if touched:
                groups[kind, partition] = files
            elif len(small) >= at_least:
                groups[kind, partition] = small
    if not groups and len(state.commits) < at_least:
        return state
    number = state.next_number("")

    def jobs() -> Iterator[_Merging]:
        for (kind, partition), files in groups.items():
            tasks = by_folder[partition_name(Kind.TASKS.table, partition)]
            yield _Merging(
                [home.local(file.name) for file in files],
                [dropped.get(_place(file)[0], frozenset()) for file in files],
                [] if settings.sort == "id" else [home.local(file.name) for file in tasks],
                kind.table,
                partition,
                folders.out,
                stem("", number),
                settings,
            )

    added = [
        file
        for files in in_processes(
            _merge, jobs(), processes, killed=_killed, begin=limit_arrow_memory
        )
        for file in files
    ]
    if not dropped:
        check_rows(home, sum(file.rows for files in groups.values() for file in files), added)
    replaced = {file.name for files in groups.values() for file in files}
    added += [file for file in state.files() if file.name not in replaced]
    rows = _named_equal(state.rows(), equal)
    commit = Commit(rows, sorted(added), [*state.commits, *sorted(replaced)])
    commit_round(home, folders, commit, number, "")
    return State.of({**state.commits, commit_name("", number): commit})


def _killed(what: object) -> StorewiseError:
    return StorewiseError(
        "a process that merges files was killed (out of memory?); try again with fewer --jobs"
    )


def _doubled(state: State) -> tuple[dict[str, str], dict[str, frozenset[int]]]:
    """Inputs that writers with different shares put in although they are equal: by path the one
    that stays, and by share the digests that go."""
    first: dict[bytes, tuple[str, str]] = {}
    equal: dict[str, str] = {}
    gone: dict[str, set[int]] = defaultdict(set)
    for name, commit in state.commits.items():
        share = (number_of(name) or ("", 0))[0]
        columns = (commit.rows[column].to_pylist() for column in ("path", "digest", "equal_to"))
        for path, digest, known in zip(*columns, strict=True):
            if digest is None or known is not None:
                continue
            there = first.setdefault(digest, (path, share))
            if there[0] != path:
                equal[path] = there[0]
                gone[share].add(piece.digest_number(digest))
    return equal, {share: frozenset(digests) for share, digests in gone.items()}


def _named_equal(rows: Any, equal: Mapping[str, str]) -> Any:
    if not equal:
        return rows
    column = [
        equal.get(path, there)
        for path, there in zip(rows["path"].to_pylist(), rows["equal_to"].to_pylist(), strict=True)
    ]
    at = rows.schema.get_field_index("equal_to")
    return rows.set_column(at, rows.schema.field(at), pa.array(column, pa.string()))


def _merge(job: _Merging) -> list[DataFile]:
    kind = kind_named(job.kind)
    names = _names(job.tasks)
    sources = [
        _source(path, kind, job.partition, job.settings, names, dropped)
        for path, dropped in zip(job.files, job.dropped, strict=True)
    ]
    return write_files(sources, job.out, kind, job.partition, job.stem, job.settings)


def _names(files: Sequence[Path]) -> Any:
    """Ids, libraries and queries of the searches in a partition's files; None without files."""
    if not files:
        return None
    columns = ["_id", "lib", "q"]
    return pa.concat_tables(pq.ParquetFile(file).read(columns) for file in files)


def _source(
    path: Path, kind: Kind, partition: int, settings: Settings, names: Any, dropped: frozenset[int]
) -> Source:
    """A file of a data set as a sorted source: its pieces follow from its ids."""
    file = pq.ParquetFile(path, memory_map=True)
    column = "_id" if kind is Kind.TASKS or names is None else "ti"
    ids = piece.ids_of(file.read([column])[column])
    # Without names a piece is an input, whose ids have the same first bytes.
    starts = piece.runs_of(ids if names is not None else ids[:, :DIGEST_BYTES])
    digests, ordinals = piece.digests_and_ordinals(ids[starts[:-1]])
    count = len(digests)
    libraries: Any = pa.array([""] * count)
    queries = libraries
    if names is not None:
        buffer = pa.py_buffer(np.ascontiguousarray(ids[starts[:-1]]))
        wanted = pa.Array.from_buffers(pa.binary(ID_BYTES), count, [None, buffer])
        places = pc.index_in(wanted, names["_id"].combine_chunks())
        if places.null_count:
            raise StorewiseError(
                f"{path}: has documents of searches that are not in the data set; make it again"
            )
        queries = names["q"].take(places).combine_chunks().fill_null("")
        if settings.sort == "library":
            libraries = names["lib"].take(places).combine_chunks().fill_null("")
    table = pa.table(
        [
            pa.array(np.full(count, partition), pa.int32()),
            pa.array(np.isin(digests, list(dropped)), pa.int32()),
            libraries,
            queries,
            pa.array(digests),
            pa.array(ordinals),
            pa.array(np.diff(starts)),
        ],
        schema=piece.SCHEMA,
    )
    keep = [True, False] if dropped else None
    batches = (
        batch for i in range(file.num_row_groups) for batch in file.read_row_group(i).to_batches()
    )
    return Source(table, batches, keep)
