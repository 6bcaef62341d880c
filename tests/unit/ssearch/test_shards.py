"""Shards: every file once, even by bytes, stable when files come."""

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.errors import InputError
from storewise.ssearch.inputs.shards import (
    assign,
    load_shard,
    load_shards,
    shard_count,
    write_shards,
)
from storewise.ssearch.inputs.table import MANIFEST_SCHEMA, read_table, rows_of, write_table

SIZES = st.lists(st.integers(0, 50_000_000), max_size=120)


def digests_for(sizes, start=0):
    return [index.to_bytes(16, "big") for index in range(start, start + len(sizes))]


def loads_of(shards, sizes, n):
    loads = [0] * n
    for shard, size in zip(shards, sizes, strict=True):
        loads[shard] += size
    return loads


def write_manifest(path, sizes, away=frozenset()):
    """Of files of these sizes; the fifth is a copy of the first."""
    rows = [
        {
            **{"path": f"in/{index:04}.m10", "bytes": size, "mtime_ns": 1, "digest": digest},
            **{"queries": 1, "hits": 2, "alignments": 3, "documents": 10},
            "duplicate_of": "in/0000.m10" if index == 4 else None,
        }
        for index, (size, digest) in enumerate(zip(sizes, digests_for(sizes), strict=True))
        if index not in away
    ]
    write_table(pa.Table.from_pylist(rows, schema=MANIFEST_SCHEMA), path, "manifest")


@given(sizes=SIZES, n=st.integers(1, 150), order=st.randoms(use_true_random=False))
def test_every_file_has_one_shard_in_whatever_order_and_loads_are_bounded(sizes, n, order):
    digests = digests_for(sizes)
    shards = assign(digests, sizes, n)
    assert len(shards) == len(sizes)
    assert all(0 <= shard < n for shard in shards)
    # Graham's bound for LPT, which exchanging files can only improve.
    loads = loads_of(shards, sizes, n)
    assert max(loads) - min(loads) <= max(sizes, default=0)
    mixed = order.sample(range(len(sizes)), len(sizes))
    again = assign([digests[i] for i in mixed], [sizes[i] for i in mixed], n)
    assert again == [shards[i] for i in mixed]


def test_balance_is_within_one_percent_where_files_are_small():
    for n in (2, 3, 4):
        sizes = random.Random(n).choices(range(1000, 2000), k=450)
        mean = sum(sizes) / n
        loads = loads_of(assign(digests_for(sizes), sizes, n), sizes, n)
        assert max(abs(load - mean) for load in loads) <= 0.01 * mean


def test_the_heaviest_files_go_first_onto_the_lightest_shard():
    digests = [b"c", b"a", b"b", b"d"]
    # Of equal ones the digest decides, of equal shards the first.
    assert assign(digests, [5, 5, 5, 9], 4) == [3, 1, 2, 0]
    # What an earlier run placed counts: 7 lie on shard 0.
    assert assign(digests, [7, 3, 2, 4], 2, {b"c": 0}) == [0, 1, 0, 1]


@given(old=SIZES, new=SIZES, n=st.integers(1, 30))
def test_files_keep_their_shard_when_others_are_added(old, new, n):
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


def test_shards_that_cannot_be():
    with pytest.raises(ValueError, match="at least 1"):
        assign([], [], 0)
    assert assign([], [], 1) == []
    assert assign([b"x"], [1], 3, {b"x": 2}) == [2]
    for kept in (-1, 3):
        with pytest.raises(ValueError, match=rf"shard {kept} .* is not one of 0\.\.2"):
            assign([b"x"], [1], 3, {b"x": kept})


@pytest.mark.parametrize("n", [1, 3, 9])
def test_shards_file_holds_each_file_once(tmp_path, n):
    manifest, out = tmp_path / "manifest.parquet", tmp_path / "shards.parquet"
    write_manifest(manifest, [100, 200, 300, 400, 100])
    loads = write_shards(manifest, n, out)
    assert shard_count(out) == n == len(loads)
    files = [load_shard(out, index) for index in range(n)]
    paths = [f"in/{number:04}.m10" for number in range(4)]
    assert sorted(file.path for one in files for file in one) == paths
    assert load_shards(out)["path"].to_pylist() == paths
    assert loads == [sum(file.bytes for file in one) for one in files]
    assert all(file.shard == index for index in range(n) for file in files[index])
    assert all(one == sorted(one, key=lambda file: file.path) for one in files)
    for index in (-1, n):
        with pytest.raises(InputError, match=rf"no shard {index}.*0\.\.{n - 1}"):
            load_shard(out, index)


def test_state_keeps_shards_over_runs(tmp_path):
    manifest, out = tmp_path / "manifest.parquet", tmp_path / "shards.parquet"
    state = tmp_path / "state.parquet"

    def shards(sizes, n, away=frozenset()):
        write_manifest(manifest, sizes, away=away)
        write_shards(manifest, n, out, state=state)
        return {file.path: file.shard for file in rows_of(load_shards(out))}

    first = shards([500, 400, 300], 2)
    sizes = [500, 400, 300, 900, 1, 10]
    # The first is away; with its shard empty all that is new goes there, and then it comes back.
    second = shards(sizes, 2, away={0})
    assert dict(first.items() - second.items()) == {"in/0000.m10": first["in/0000.m10"]}
    assert shards(sizes, 2) == first | second and len(second) == 4
    # Another number of shards starts afresh, for good.
    assert len(set(shards(sizes, 5).values())) == 5
    assert set(shards(sizes, 2).values()) == {0, 1}


def test_wrong_file_is_named(tmp_path):
    manifest = tmp_path / "manifest.parquet"
    write_manifest(manifest, [1])
    with pytest.raises(InputError, match="not this version's shards"):
        load_shards(manifest)
    with pytest.raises(InputError, match="not a Storewise shards file"):
        shard_count(manifest)
    other = tmp_path / "other.parquet"
    other.write_text("text")
    with pytest.raises(InputError, match="not a Parquet file"):
        read_table(other, "manifest")
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "none.parquet", "manifest")


def test_a_sample_of_shards_is_seeded(tmp_path):
    manifest, out = tmp_path / "manifest.parquet", tmp_path / "shards.parquet"
    write_manifest(manifest, [100] * 51)

    def sample(**how):
        write_shards(manifest, 2, out, **how)
        return load_shards(out)["path"].to_pylist()

    assert len(sample(share=0.1)) == 5
    assert sample(share=0.1) == sample(share=0.1)
    assert sample(share=0.1) != sample(share=0.1, seed=2)
