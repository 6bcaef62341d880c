"""Shards: every file once, even by bytes, stable when files come."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.errors import InputError
from storewise.ssearch.inputs.manifest import load_manifest
from storewise.ssearch.inputs.paths import sample_paths
from storewise.ssearch.inputs.shards import (
    assign,
    load_shard,
    load_shards,
    shard_count,
    write_shards,
)
from storewise.ssearch.inputs.table import MANIFEST_SCHEMA, rows_of, write_table

SIZES = st.lists(st.integers(0, 50_000_000), max_size=120)


def digests_for(sizes: list[int], start: int = 0) -> list[bytes]:
    return [index.to_bytes(16, "big") for index in range(start, start + len(sizes))]


def loads_of(shards: list[int], sizes: list[int], n: int) -> list[int]:
    loads = [0] * n
    for shard, size in zip(shards, sizes, strict=True):
        loads[shard] += size
    return loads


def write_manifest(
    path: Path, sizes: list[int], duplicate_of: dict[int, int] | None = None
) -> None:
    duplicates = duplicate_of or {}
    digests = digests_for(sizes)
    rows = [
        {
            "path": f"in/{index:04}.m10",
            "bytes": size,
            "mtime_ns": 1,
            "digest": digests[duplicates.get(index, index)],
            "queries": 1,
            "hits": 2,
            "alignments": 3,
            "documents": 10,
            "duplicate_of": f"in/{duplicates[index]:04}.m10" if index in duplicates else None,
        }
        for index, size in enumerate(sizes)
    ]
    write_table(pa.Table.from_pylist(rows, schema=MANIFEST_SCHEMA), path, "manifest")


@given(sizes=SIZES, n=st.integers(1, 150))
def test_every_file_has_one_shard_and_loads_are_bounded(sizes: list[int], n: int) -> None:
    shards = assign(digests_for(sizes), sizes, n)
    assert len(shards) == len(sizes)
    assert all(0 <= shard < n for shard in shards)
    loads = loads_of(shards, sizes, n)
    assert sum(loads) == sum(sizes)
    # Graham's bound for LPT, which exchanging files can only improve.
    assert max(loads) - min(loads) <= max(sizes, default=0)


@given(
    sizes=st.lists(st.integers(1000, 2000), min_size=400, max_size=500),
    n=st.integers(1, 4),
)
def test_balance_is_within_one_percent_where_files_are_small(sizes: list[int], n: int) -> None:
    loads = loads_of(assign(digests_for(sizes), sizes, n), sizes, n)
    mean = sum(sizes) / n
    assert max(abs(load - mean) for load in loads) <= 0.01 * mean


def test_exchanges_find_what_heaviest_first_misses() -> None:
    # Heaviest first gives 14 + 16 here; the even split is 8 + 7 and 6 + 5 + 4.
    sizes = [8, 7, 6, 5, 4]
    assert sorted(loads_of(assign(digests_for(sizes), sizes, 2), sizes, 2)) == [15, 15]


@given(sizes=SIZES, n=st.integers(1, 20), seed=st.randoms(use_true_random=False))
def test_the_order_of_files_does_not_matter(sizes: list[int], n: int, seed: object) -> None:
    digests = digests_for(sizes)
    expected = dict(zip(digests, assign(digests, sizes, n), strict=True))
    order = list(range(len(sizes)))
    seed.shuffle(order)  # type: ignore[attr-defined]
    result = assign([digests[i] for i in order], [sizes[i] for i in order], n)
    assert {digests[i]: shard for i, shard in zip(order, result, strict=True)} == expected


@given(old=SIZES, new=SIZES, n=st.integers(1, 30))
def test_files_keep_their_shard_when_others_are_added(
    old: list[int], new: list[int], n: int
) -> None:
    digests = digests_for(old)
    first = assign(digests, old, n)
    previous = dict(zip(digests, first, strict=True))
    sizes = old + new
    second = assign(digests + digests_for(new, len(old)), sizes, n, previous)
    assert second[: len(old)] == first
    assert sum(loads_of(second, sizes, n)) == sum(sizes)
    if new:
        loads = loads_of(second, sizes, n)
        assert max(loads) - min(loads) <= max(sizes)


def test_a_number_of_shards_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        assign([], [], 0)


@pytest.mark.parametrize("n", [1, 3, 9])
def test_shards_file_holds_each_file_once(tmp_path: Path, n: int) -> None:
    manifest, out = tmp_path / "manifest.parquet", tmp_path / "shards.parquet"
    write_manifest(manifest, [100, 200, 300, 400, 100], duplicate_of={4: 0})
    loads = write_shards(manifest, n, out)
    assert shard_count(out) == n == len(loads)
    result = [file for index in range(n) for file in load_shard(out, index)]
    assert sorted(file.path for file in result) == [f"in/{i:04}.m10" for i in range(4)]
    assert sum(loads) == 1000
    assert all(file.shard == index for index in range(n) for file in load_shard(out, index))
    assert len(load_shards(out)) == 4
    with pytest.raises(InputError, match=f"no shard {n}"):
        load_shard(out, n)


def test_state_keeps_shards_over_runs(tmp_path: Path) -> None:
    manifest, out = tmp_path / "manifest.parquet", tmp_path / "shards.parquet"
    state = tmp_path / "state.parquet"
    write_manifest(manifest, [500, 400, 300])
    write_shards(manifest, 2, out, state=state)
    before = {file.path: file.shard for file in rows_of(load_shards(out))}
    write_manifest(manifest, [500, 400, 300, 900, 10])
    write_shards(manifest, 2, out, state=state)
    after = {file.path: file.shard for file in rows_of(load_shards(out))}
    assert len(after) == 5
    assert {path: after[path] for path in before} == before
    # Another number of shards starts afresh.
    write_shards(manifest, 5, out, state=state)
    assert len({file.shard for file in rows_of(load_shards(out))}) == 5


def test_wrong_file_is_named(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.parquet"
    write_manifest(manifest, [1])
    with pytest.raises(InputError, match="not this version's shards"):
        load_shards(manifest)
    other = tmp_path / "other.parquet"
    other.write_text("text")
    with pytest.raises(InputError, match="not a Parquet file"):
        load_manifest(other)
    with pytest.raises(InputError, match="cannot be read"):
        load_manifest(tmp_path / "none.parquet")


def test_sample_of_shards_is_seeded(tmp_path: Path) -> None:
    manifest, out = tmp_path / "manifest.parquet", tmp_path / "shards.parquet"
    write_manifest(manifest, [100] * 50)

    def sample(**how: float) -> list[str]:
        write_shards(manifest, 2, out, **how)  # type: ignore[arg-type]
        return [file.path for file in rows_of(load_shards(out))]

    assert len(sample(share=0.1)) == 5
    assert sample(share=0.1) == sample(share=0.1)
    assert sample(share=0.1) != sample(share=0.1, seed=2)


@given(
    names=st.sets(st.text("abcdef", min_size=1, max_size=6), min_size=1, max_size=60),
    files=st.integers(1, 70),
    seed=st.integers(0, 5),
)
def test_a_larger_sample_holds_the_smaller(names: set[str], files: int, seed: int) -> None:
    paths = sorted(names)
    small = sample_paths(paths, files=files, seed=seed)
    large = sample_paths(paths, files=files + 5, seed=seed)
    assert len(small) == min(files, len(paths))
    assert set(small) <= set(large) <= set(paths)
    assert small == sorted(small)


def test_sample_needs_one_measure() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        sample_paths(["a"], files=1, share=0.5)
    assert sample_paths([f"{i}" for i in range(30)], share=0.1) == sample_paths(
        [f"{i}" for i in range(30)], files=3
    )
