"""Shards: which worker process writes which files.

A shard is a list of manifest rows. Shards are balanced by the files' stored bytes and stay as they
are when files are added: a file keeps its shard, only new ones are placed.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from storewise.errors import InputError
from storewise.ssearch.inputs.paths import sample_indexes
from storewise.ssearch.inputs.table import (
    SHARDS_SCHEMA,
    InputFile,
    metadata,
    read_table,
    rows_of,
    write_table,
)

_STATE_SCHEMA = pa.schema(
    [pa.field("digest", SHARDS_SCHEMA.field("digest").type), pa.field("shard", pa.int32())]
)


def assign(
    digests: Sequence[bytes],
    sizes: Sequence[int],
    n: int,
    previous: Mapping[bytes, int] | None = None,
) -> list[int]:
    """The shard (0..n-1) of each file, given its digest and stored bytes.

    A file in `previous` (digest -> shard) keeps its shard. The others go, heaviest first, onto the
    lightest shard (longest processing time first: R. L. Graham, SIAM J. Appl. Math. 17, 1969, whose
    heaviest and lightest load differ by at most the heaviest file). The result depends on the set
    of files, not on their order.

    Raises ValueError for n < 1 and for a `previous` shard outside 0..n-1.
    """
    if n < 1:
        raise ValueError(f"the number of shards must be at least 1, not {n}")
    loads = [0] * n
    shards = [-1] * len(digests)
    new: list[int] = []
    for index, digest in enumerate(digests):
        kept = previous.get(digest) if previous else None
        if kept is None:
            new.append(index)
            continue
        if not 0 <= kept < n:
            raise ValueError(f"shard {kept} of an earlier assignment is not one of 0..{n - 1}")
        shards[index] = kept
        loads[kept] += sizes[index]
    lightest = [(load, shard) for shard, load in enumerate(loads)]
    heapq.heapify(lightest)
    new.sort(key=lambda index: (-sizes[index], digests[index]))
    for index in new:
        load, shard = lightest[0]
        shards[index] = shard
        loads[shard] = load + sizes[index]
        heapq.heapreplace(lightest, (loads[shard], shard))
    return shards


def write_shards(
    manifest: Path,
    n: int,
    out: Path,
    *,
    state: Path | None = None,
    share: float | None = None,
    seed: int = 1,
) -> list[int]:
    """Assigns the files of `manifest` to `n` shards, writes `out`; returns the bytes per shard.

    `out` is Parquet with the columns of `SHARDS_SCHEMA`: each file once (duplicates left out), in
    the order of paths. `state` names a file that keeps each file's shard over runs, for stability;
    one that was made for another `n` is replaced. `share` takes only a seeded sample
    (`inputs.sample_paths`).
    """
    import pyarrow.compute as pc  # 0.1 s, which the jobs that read shards need not pay

    table = read_table(manifest, "manifest")
    table = table.filter(pc.is_null(table["duplicate_of"]))
    if share is not None:
        paths, stored = table["path"].to_pylist(), table["bytes"].to_pylist()
        table = table.take(sample_indexes(paths, stored.__getitem__, share=share, seed=seed))
    digests, sizes = table["digest"].to_pylist(), table["bytes"].to_pylist()
    previous = _read_state(state, n) if state is not None else {}
    shards = assign(digests, sizes, n, previous)
    table = table.select([n for n in SHARDS_SCHEMA.names if n in table.column_names])
    table = table.append_column("shard", pa.array(shards, pa.int32())).cast(SHARDS_SCHEMA)
    write_table(table, out, "shards", shards=str(n))
    if state is not None:
        merged = previous | dict(zip(digests, shards, strict=True))
        columns = [pa.array(list(merged), _STATE_SCHEMA.field(0).type), pa.array(merged.values())]
        kept = pa.table(columns, names=_STATE_SCHEMA.names).cast(_STATE_SCHEMA)
        write_table(kept, state, "shard state", shards=str(n))
    loads = [0] * n
    for size, shard in zip(sizes, shards, strict=True):
        loads[shard] += size
    return loads


def _read_state(path: Path, n: int) -> dict[bytes, int]:
    if not path.exists() or metadata(path).get("shards") != str(n):
        return {}
    table = read_table(path, "shard state")
    return dict(zip(table["digest"].to_pylist(), table["shard"].to_pylist(), strict=True))


def load_shard(path: Path, index: int) -> list[InputFile]:
    """The files of shard `index`, in the order of their paths; empty for an empty shard.

    Raises InputError where `path` is not a shards file or has no such shard.
    """
    n = shard_count(path)
    if not 0 <= index < n:
        raise InputError(path, f"no shard {index}", expected=f"one of 0..{n - 1}")
    return list(rows_of(read_table(path, "shards", filters=[("shard", "=", index)])))


def load_shards(path: Path) -> Any:
    """All files with their shards as an Arrow table (`rows_of` gives InputFile values)."""
    return read_table(path, "shards")


def shard_count(path: Path) -> int:
    """The number of shards in the file at `path`, empty ones included."""
    count = metadata(path).get("shards")
    if count is None:
        raise InputError(path, "not a Storewise shards file")
    return int(count)
