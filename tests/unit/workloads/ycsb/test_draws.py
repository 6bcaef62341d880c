"""Keys and distributions of the workload ``ycsb`` against published vectors and formulas."""

import math
from zlib import crc32

import numpy as np
import pytest
from scipy.stats import chisquare

from storewise.engines.contract.engine import hash_placement
from storewise.workloads.ycsb import distributions as ycsb
from storewise.workloads.ycsb.distributions import THETA, zeta
from storewise.workloads.ycsb.keys import fnv_hashes, make_keys, of_store

DRAWS = 200_000
#: A correct generator is refused by chance once in so many runs; the seeds are fixed.
LEAST = 1e-3


def fnv1a(octets):
    """FNV-1a of 64 bits as its specification writes it."""
    result = 0xCBF29CE484222325
    for octet in octets:
        result = ((result ^ octet) * 0x100000001B3) % 2**64
    return result


def fnv_hash(number):
    """YCSB's hash of one number from 0 on."""
    value = fnv1a(number.to_bytes(8, "little"))
    return abs(value - 2**64 if value >= 2**63 else value)


def test_hashes_and_keys_are_those_of_ycsb():
    # Test vectors of draft-eastlake-fnv (and of the authors' test_fnv.c).
    vectors = {b"": 0xCBF29CE484222325, b"a": 0xAF63DC4C8601EC8C, b"foobar": 0x85944171F73967E8}
    assert {text: fnv1a(text) for text in vectors} == vectors
    numbers = [0, 1, 2, 255, 256, 65_535, 12_345_678_901, 2**40, 10**18, 2**62 - 1]
    assert fnv_hashes(np.array(numbers)).tolist() == [fnv_hash(number) for number in numbers]
    # The first records of every YCSB load, as its clients print them (BasicDB, verbose).
    first = ["6284781860667377211", "8517097267634966620", "1820151046732198393"]
    assert make_keys(np.arange(3), hashed=True) == [f"user{number}".encode() for number in first]
    assert make_keys(np.array([7, 123]), hashed=False) == [b"user7", b"user123"]
    assert make_keys(np.array([7, 123]), hashed=False, padding=5) == [b"user00007", b"user00123"]
    assert make_keys(np.array([0]), hashed=True, padding=21) == [b"user006284781860667377211"]


def test_a_store_holds_the_keys_of_its_crc():
    keys = make_keys(np.arange(2000), hashed=True)
    placement = hash_placement(3)
    assert [placement(key) for key in keys] == [crc32(key) % 3 for key in keys]
    held = [of_store(keys, shard, 3) for shard in range(3)]
    assert (np.sum(held, axis=0) == 1).all()
    assert min(h.sum() for h in held) > 600


def test_zeta_is_the_sum_and_the_constant_of_ycsb():
    for items in (1, 2, 999, 1000, 1001, 5000, 100_000):
        terms = math.fsum(i**-THETA for i in range(1, items + 1))
        assert zeta(items) == pytest.approx(terms, rel=1e-13)
    assert zeta(ycsb.SCRAMBLED_ITEMS) == pytest.approx(ycsb.SCRAMBLED_ZETA, rel=1e-10)


def expected_zipfian(items, zetan=None, first=None):
    """Probabilities of the first values that the method of Gray et al. gives, from its formula
    solved for the random number; the last entry is all others."""
    zetan = zeta(items) if zetan is None else zetan
    first = items if first is None else first
    alpha = 1 / (1 - THETA)
    eta = (1 - (2 / items) ** (1 - THETA)) / (1 - zeta(2) / zetan)
    one, two = 1 / zetan, (1 + 0.5**THETA) / zetan
    # u at which the formula reaches the value k
    u = [((k / items) ** (1 / alpha) - 1 + eta) / eta for k in range(1, first + 1)]
    below = [two, *(max(value, two) for value in u)]
    chances = np.diff(np.minimum(below, 1))
    chances[0] += one
    chances[1] += two - one
    return np.append(chances, 1 - chances.sum())


def fits(values, chances):
    """p of chi-square; classes that are too small are put together with the last one."""
    counts = np.bincount(values, minlength=len(chances))[: len(chances)].astype(float)
    wanted = np.asarray(chances) * len(values)
    big = wanted >= 10
    counts = np.append(counts[big], len(values) - counts[big].sum())
    wanted = np.append(wanted[big], len(values) - wanted[big].sum())
    if wanted[-1] < 1:
        counts, wanted = counts[:-1], wanted[:-1]
        wanted *= counts.sum() / wanted.sum()
    return chisquare(counts, wanted).pvalue


@pytest.mark.parametrize("items", [1, 2, 3, 10, 1000])
def test_zipfian(items):
    result = ycsb.Zipfian(items).draw(np.random.default_rng(1), DRAWS)
    exact = np.arange(1, items + 1) ** -THETA / zeta(items)
    assert 0 <= result.min() <= result.max() < items
    if items < 3:
        assert fits(result, exact) > LEAST or items == 1
        return
    assert fits(result, expected_zipfian(items)[:-1]) > LEAST
    # The method is an approximation: near the distribution itself.
    assert np.abs(expected_zipfian(items)[:-1] - exact).max() < 0.02


def scrambled(records, ranks=200_000):
    """The probability of a rank is that of the record its hash gives; the rest is uniform."""
    head = expected_zipfian(ycsb.SCRAMBLED_ITEMS, ycsb.SCRAMBLED_ZETA, ranks)
    chances = np.full(records, head[-1] / records)
    np.add.at(chances, fnv_hashes(np.arange(ranks)) % records, head[:-1])
    return chances


def exponential(records, frac):
    rate = -math.log(0.05) / (records * frac)
    ages = np.arange(records)[::-1]
    chances = np.exp(-rate * ages) - np.exp(-rate * (ages + 1))
    # Beyond the oldest record it is drawn again.
    return chances / chances.sum()


@pytest.mark.parametrize(
    ("distribution", "existing", "chances"),
    [
        (ycsb.Uniform(300), 400, lambda: np.full(300, 1 / 300)),
        (ycsb.Scrambled(1000), 1000, lambda: scrambled(1000)),
        (ycsb.Latest(), 500, lambda: expected_zipfian(500)[-2::-1]),
        (ycsb.Hotspot(200, 0.2, 0.8), 200, lambda: np.repeat([0.8 / 40, 0.2 / 160], [40, 160])),
        (ycsb.Hotspot(50, 0.0, 0.8), 50, lambda: np.full(50, 1 / 50)),
        (ycsb.Hotspot(50, 1.0, 0.8), 50, lambda: np.full(50, 1 / 50)),
        (ycsb.Exponential(95, 200), 1000, lambda: exponential(1000, 0.2)),
    ],
    ids=["uniform", "scrambled", "latest", "hotspot", "nothing-hot", "all-hot", "exponential"],
)
def test_draws_follow_their_distribution(distribution, existing, chances):
    result = distribution.draw(np.random.default_rng(7), np.full(DRAWS, existing))
    assert result.min() >= 0 and result.max() < len(chances())
    assert fits(result, chances()) > LEAST


def test_scrambled_zipfian_leaves_out_what_is_not_there_yet():
    existing = np.repeat([1000, 1100], 20_000)
    result = ycsb.Scrambled(1000, expected=500).draw(np.random.default_rng(3), existing)
    assert result[:20_000].max() < 1000
    assert 1000 <= result[20_000:].max() < 1100
    few = ycsb.Scrambled(10, expected=50_000).draw(np.random.default_rng(9), np.arange(10, 310))
    assert (few >= 0).all() and (few < np.arange(10, 310)).all() and len(set(few)) > 20
    # Which record is the most popular does not depend on how many there are by now.
    places = [fnv_hash(rank) % 1500 for rank in range(10)]
    popular = next(place for place in places if place < 1000)
    assert np.bincount(result[:20_000]).argmax() == np.bincount(result[20_000:]).argmax() == popular


def test_latest_follows_the_newest():
    existing = np.arange(100, 1100)
    draws = np.array([ycsb.Latest().draw(np.random.default_rng(i), existing) for i in range(20)])
    assert (draws >= 0).all()
    assert (draws < existing).all()
    newest = (draws == existing - 1).mean()
    assert newest == pytest.approx(1 / zeta(100), abs=0.02)


def test_sequential_takes_all_in_turn():
    existing = np.full(40, 10)
    clients = [ycsb.Sequential(10, client, 2) for client in range(2)]
    result = [c.draw(np.random.default_rng(0), existing[:7]).tolist() for c in clients]
    assert result == [[0, 2, 4, 6, 8, 0, 2], [1, 3, 5, 7, 9, 1, 3]]
    assert clients[0].draw(np.random.default_rng(0), existing[:3]).tolist() == [4, 6, 8]


@pytest.mark.parametrize("kind", ["uniform", "zipfian"])
def test_lengths(kind):
    lengths = ycsb.Lengths(kind, 3, 42)
    result = lengths.draw(np.random.default_rng(8), DRAWS)
    chances = np.full(40, 1 / 40) if kind == "uniform" else expected_zipfian(40)[:-1]
    assert result.max() <= 42 and lengths.mean == pytest.approx(result.mean(), rel=0.05)
    assert fits(result - 3, chances) > LEAST
    constant = ycsb.Lengths("constant", 3, 42)
    assert constant.mean == 42 and set(constant.draw(np.random.default_rng(8), 9)) == {42}
