"""Small files of a partition made into one: many updates leave a bounded number of files.

DuckDB reads and sorts them, beyond its memory on disk; they are written as those of a round.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from storewise.dataset.commits import Commit, State, commit_name, number_of, stem
from storewise.dataset.rounds import Folders, check_rows, commit_round
from storewise.dataset.segments import digest_number, sort_key_of
from storewise.dataset.settings import Settings
from storewise.dataset.storage import DatasetStorage
from storewise.dataset.writer import DataFile, PartitionFiles, partition_name
from storewise.documents import DIGEST_BYTES, KINDS, Kind
from storewise.errors import StorewiseError

#: Memory of DuckDB; what it has to sort beyond that is on disk.
MEMORY = "1GB"
_LAST = re.compile(r"-([0-9]+)\.parquet$")


def _written(file: DataFile) -> tuple[str, int, int]:
    """The order in which a partition's files were written."""
    last = _LAST.search(file.name)
    share, number = number_of(file.name) or ("", 0)
    return share, number, int(last[1]) if last else 0


def merge_files(
    storage: DatasetStorage,
    folders: Folders,
    state: State,
    settings: Settings,
    *,
    processes: int,
    at_least: int,
) -> State:
    """Merge each partition's files below half the target size, where there are `at_least` so many.

    Equal documents that several writers added at the same time are kept once.
    """
    equal, dropped, dropped_rows = _doubled(state)
    touched = {
        sort_key_of(settings, None, None, digest_number(digest)).partition
        for digests in dropped.values()
        for digest in digests
        if settings.by == "hash"
    }
    groups: dict[tuple[Kind, int], list[DataFile]] = {}
    by_folder = defaultdict(list)
    for file in state.files():
        by_folder[file.name.rpartition("/")[0]].append(file)
    for kind in KINDS:
        for partition in range(settings.partitions):
            files = sorted(by_folder[partition_name(kind.table, partition)], key=_written)
            small = [file for file in files if file.bytes < settings.target_bytes // 2]
            if not files:
                continue  # no document is in this partition
            if partition in touched or (dropped and settings.by != "hash"):
                groups[kind, partition] = files
            elif len(small) >= at_least:
                groups[kind, partition] = small
    if not groups and len(state.commits) < at_least:
        return state
    number = state.next_number("")
    added: list[DataFile] = []
    with _duckdb(storage, folders, processes) as connection:
        for (kind, partition), files in groups.items():
            tasks = by_folder[partition_name(Kind.TASKS.table, partition)]
            sql = _sorted_rows(storage, kind, files, tasks, dropped, settings)
            out = PartitionFiles(folders.out, kind, partition, stem("", number), settings)
            with out:
                for batch in connection.sql(sql).to_arrow_reader(settings.row_group):
                    out.write(pa.Table.from_batches([batch]).cast(out.schema))
            added += out.done
    documents = sum(file.rows for files in groups.values() for file in files) - dropped_rows
    check_rows(storage, documents, added)
    replaced = {file.name for files in groups.values() for file in files}
    added += [file for file in state.files() if file.name not in replaced]
    rows = _named_equal(state.rows(), equal)
    commit = Commit(rows, sorted(added), [*state.commits, *sorted(replaced)])
    commit_round(storage, folders, commit, number, "")
    return State.of({**state.commits, commit_name("", number): commit})


@contextmanager
def _duckdb(storage: DatasetStorage, folders: Folders, threads: int) -> Iterator[Any]:
    import duckdb

    folders.out.mkdir(parents=True, exist_ok=True)
    config = {
        "threads": threads,
        "memory_limit": MEMORY,
        "temp_directory": str(folders.out / ".sort"),
    }
    try:
        with duckdb.connect(config=config) as connection:
            yield connection
    except duckdb.Error as error:
        raise StorewiseError(
            f"{storage}: small files cannot be merged: {str(error).splitlines()[0]}; make room in "
            f"{folders.own}, or give fewer --jobs, and call the same again: what is finished is "
            "kept. Where a file is missing or damaged, make a new data set of the outputs"
        ) from error


def _sorted_rows(
    storage: DatasetStorage,
    kind: Kind,
    files: Sequence[DataFile],
    tasks: Sequence[DataFile],
    dropped: Mapping[str, frozenset[bytes]],
    settings: Settings,
) -> str:
    """SQL for the rows of some files in their order, but those of digests that are `dropped` of the
    files of a share. Queries and libraries are in a partition's files of searches, `tasks`."""
    by_share = defaultdict(list)
    for file in files:
        by_share[_written(file)[0]].append(file)
    parts = []
    for share, those in by_share.items():
        gone = ", ".join(
            f"'{digest[:DIGEST_BYTES].hex().upper()}'" for digest in dropped.get(share, ())
        )
        where = f" WHERE hex(_id[1:{DIGEST_BYTES}]) NOT IN ({gone})" if gone else ""
        parts.append(f"SELECT * FROM {_read(storage, those)}{where}")
    rows = f"({' UNION ALL '.join(parts)}) AS t"
    search = "t"
    if kind is not Kind.TASKS and settings.sort != "id":
        search = "s"
        # A search that two shares have is there twice until its own files are merged.
        rows += (
            f" JOIN (SELECT DISTINCT _id, lib, q FROM {_read(storage, tasks)}) AS s ON s._id = t.ti"
        )
    keys = {"_id": "t._id", "q": f"coalesce({search}.q, '')", "lib": f"coalesce({search}.lib, '')"}
    return f"SELECT t.* FROM {rows} ORDER BY {', '.join(keys[name] for name in settings.order)}"


def _read(storage: DatasetStorage, files: Sequence[DataFile]) -> str:
    names = ", ".join(
        "'" + str(storage.local(file.name)).replace("'", "''") + "'" for file in files
    )
    return f"read_parquet([{names}], hive_partitioning = false)"


def _doubled(state: State) -> tuple[dict[str, str], dict[str, frozenset[bytes]], int]:
    """Inputs that writers with different shares put in although they are equal: by path the one
    that stays, by share the digests that go, and the number of documents that go."""
    first: dict[bytes, tuple[str, str]] = {}
    equal: dict[str, str] = {}
    gone: dict[str, set[bytes]] = defaultdict(set)
    rows = 0
    for name, commit in state.commits.items():
        share = (number_of(name) or ("", 0))[0]
        names = ("path", "digest", "equal_to", "documents")
        columns = (commit.rows[column].to_pylist() for column in names)
        for path, digest, known, documents in zip(*columns, strict=True):
            if digest is None or known is not None:
                continue
            there = first.setdefault(digest, (path, share))
            if there[0] != path:
                equal[path] = there[0]
                gone[share].add(digest)
                rows += documents
    return equal, {share: frozenset(digests) for share, digests in gone.items()}, rows


def _named_equal(rows: Any, equal: Mapping[str, str]) -> Any:
    if not equal:
        return rows
    column = [
        equal.get(path, there)
        for path, there in zip(rows["path"].to_pylist(), rows["equal_to"].to_pylist(), strict=True)
    ]
    at = rows.schema.get_field_index("equal_to")
    return rows.set_column(at, rows.schema.field(at), pa.array(column, pa.string()))
