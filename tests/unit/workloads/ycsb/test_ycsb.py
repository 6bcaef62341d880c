"""The workload ``ycsb`` in one process: what clients do, what they leave, what is verified."""

from collections import Counter
from contextlib import closing
from types import SimpleNamespace
from zlib import crc32

import bson
import numpy as np
import pytest
from scipy.stats import chisquare
from support.client_context import make_context

from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.registry import engine
from storewise.errors import EngineError
from storewise.workloads.contract import VerifyContext
from storewise.workloads.ycsb.key_space import Records
from storewise.workloads.ycsb.params import CORE_WORKLOADS, LoadParams
from storewise.workloads.ycsb.workload import YcsbWorkload, usertable

WORKLOAD = YcsbWorkload()
LATEST = {"operationcount": 3000, "readproportion": 1, "updateproportion": 0} | {
    "requestdistribution": "latest"
}


def operations(phase, client, *, load=None, using=None, params=None, **values):
    """The operations of one client, of a server if no engine is named, and its notes."""
    load = load or LoadParams(recordcount=500)
    params = params or {"operationcount": 1000}
    params = load if phase == "load" else WORKLOAD.phases[phase].params(**params)
    values = {"seed": 3, "phase": phase, "load": load, **values}
    kinds = (usertable(load.fieldcount),)
    context = make_context(using or storing(), kinds, params, **values)
    return WORKLOAD.operations(phase, client, context), context.notes


def storing(encoding="dict", owner=False):
    flags = SimpleNamespace(stores=True, owner=owner, embedded=False)
    return SimpleNamespace(encoding=encoding, flags=flags)


def ran(phase, client, **values):
    """All operations of one client are called: how many of each name, or failed; and its notes."""
    result, notes = operations(phase, client, **values)
    names = Counter()
    for operation in result:
        try:
            operation.call()
        except EngineError:
            names["failed"] += 1
        else:
            names[operation.name] += 1
    return names, notes


def places(processes, threads):
    for process in range(processes):
        for thread in range(threads):
            yield {"shard": process, "processes": processes} | {
                "thread": thread, "threads": threads
            }  # fmt: skip


class Trial:
    """Runs phases on stores of SQLite, one for each process, one client after the other."""

    def __init__(self, directory, *, processes=1, threads=1, **load):
        self.engine = engine("sqlite")
        self.load = LoadParams(**{"recordcount": 200, "fieldlength": 20, **load})
        self.kind = usertable(self.load.fieldcount)
        self.processes, self.threads = processes, threads
        self.stores = tuple(directory / f"p{i}" for i in range(processes))
        self.notes = []
        for store in self.stores:
            store.mkdir()

    def connect(self, stores, mode):
        placement = WORKLOAD.placement(len(stores), ())
        cluster = Cluster("sqlite", stores=stores, kinds=(self.kind,), placement=placement)
        client = self.engine.connect(cluster, mode)
        if mode == "write":
            client.create(Schema(kinds=(self.kind,)))
        return closing(client)

    def run(self, phase, **params):
        """All operations of all clients of a phase: names and what they returned."""
        spec = WORKLOAD.phases[phase]
        done, notes = [], []
        values = {"load": self.load, "params": params, "using": self.engine, "seed": 7}
        values |= {"stores": self.processes, "one_store": spec.changes}
        values["before"] = tuple(self.notes)
        for place in places(self.processes, self.threads):
            writes = spec.loads or spec.changes
            stores = (self.stores[place["shard"]],) if writes else self.stores
            with self.connect(stores, "write" if writes else "read") as client:
                result, mine = operations(phase, client, **values, **place)
                done += [(operation.name, operation.call()) for operation in result]
                notes += mine
                if writes:
                    client.finish()
        self.notes += notes
        return done

    def verify(self, **values):
        known = {"engine": self.engine, "load": self.load, "kinds": (self.kind,), "seed": 7}
        known |= {
            "sample": 10,
            "written": (),
            "notes": tuple(self.notes),
            "raise_if_aborted": lambda: None,
        }
        with self.connect(self.stores, "read") as client:
            return WORKLOAD.verify(VerifyContext(client=client, **known | values))[0]


class Spy:
    """Keeps the calls that it gets; a store that has everything."""

    def __init__(self, fails=lambda key: False):
        self.calls = []
        self.acknowledged = set()
        self._fails = fails

    def insert(self, kind, documents):
        for document in documents:
            key = document["_id"]
            self.calls.append(("insert", key))
            if self._fails(key):
                raise EngineError("refused")
            self.acknowledged.add(key)

    def get(self, kind, key):
        self.calls.append(("get", key))
        return {"_id": key}

    def update(self, kind, key, changes):
        self.calls.append(("update", key, changes))
        return True

    def scan(self, query):
        self.calls.append(("scan", query.start, query.limit))
        return [{"_id": query.start}] * query.limit


def all_keys(load, notes):
    records = Records(load, notes)
    return load.keys(records.numbers(np.arange(len(records))))


def test_every_acknowledged_insert_is_readable(tmp_path):
    trial = Trial(tmp_path, processes=3, threads=2, dataintegrity=True, batchsize=7)
    assert sum(count for _, count in trial.run("load")) == 200
    inserts = 0
    for phase, count in (("a", 300), ("d", 300), ("e", 120), ("f", 100), ("g", 90), ("c", 200)):
        done = trial.run(phase, operationcount=count)
        assert len(done) == count
        names = Counter(name for name, _ in done)
        assert set(names) <= set(WORKLOAD.phases[phase].operations)
        inserts += names["insert"]
    assert inserts > 80
    result = trial.verify()
    assert (result.expected, result.counted, result.checked) == (200 + inserts,) * 3
    assert not result.differs()
    assert result.first is None


def test_clients_never_insert_the_same_and_later_steps_and_phases_know_all():
    load, notes, keys = LoadParams(recordcount=50), [], []
    for phase, step, threads in (("d", 0, 3), ("g", 0, 1), ("g", 1, 2), ("g", 2, 3)):
        values = {"load": load, "before": tuple(notes), "params": {"operationcount": 600}}
        for place in places(2, threads):
            spy = Spy()
            notes += ran(phase, spy, **values, **place, step=step)[1]
            keys += spy.acknowledged
    assert len(set(keys)) == len(keys) > 400
    everything = all_keys(load, notes)
    assert len(everything) == 50 + len(keys)
    assert set(everything) == set(keys) | set(load.keys(np.arange(50)))
    # Reading the latest picks all but only those.
    spy = Spy()
    ran("run", spy, load=load, before=tuple(notes), params=LATEST)
    read = {key for _, key in spy.calls}
    assert read <= set(everything)
    assert read & set(keys)


@pytest.mark.parametrize("distribution", ["latest", "zipfian", "exponential", "uniform"])
def test_inserts_that_failed_are_never_read(distribution):
    spy = Spy(fails=lambda key: crc32(key) % 3 == 0)
    load = LoadParams(recordcount=50)
    params = {"operationcount": 3000, "requestdistribution": distribution}
    shares = {"read": 0.4, "update": 0.1, "scan": 0.1, "insert": 0.4}
    params |= {f"{name}proportion": share for name, share in shares.items()}
    names, notes = ran("run", spy, load=load, params=params)
    assert 250 < names["failed"] < 550
    known = set(load.keys(np.arange(50))) | spy.acknowledged
    used = {call[1] for call in spy.calls if call[0] != "insert"}
    assert used <= known
    if distribution == "latest":
        assert len(used & spy.acknowledged) > 100
    assert set(all_keys(load, notes)) == known
    assert Records(load, notes).failed == names["failed"]
    # The next phase does not use their numbers again.
    spy2 = Spy()
    ran("g", spy2, load=load, before=tuple(notes))
    assert not spy2.acknowledged & {call[1] for call in spy.calls if call[0] == "insert"}


def test_a_read_may_follow_the_insert_of_its_record_at_once():
    spy = Spy()
    load = LoadParams(recordcount=20)
    ran("run", spy, load=load, params=LATEST | {"insertproportion": 1})
    newest = None
    hits = reads = 0
    for name, key in spy.calls:
        if name == "insert":
            newest = key
        elif newest is not None:
            reads += 1
            hits += key == newest
    assert hits / reads > 0.1  # 1 / zeta(records)


def test_failed_loads_leave_gaps():
    load = LoadParams(recordcount=100, batchsize=4)
    spy, notes = Spy(fails=lambda key: crc32(key) % 11 == 0), []
    for place in places(1, 3):
        notes += ran("load", spy, load=load, **place)[1]
    failed, keys = Records(load, notes).failed, all_keys(load, notes)
    # A batch that failed may be there in part: none of it counts.
    assert 0 < failed < 100
    assert len(set(keys)) == len(keys) == 100 - failed
    assert set(keys) <= spy.acknowledged
    assert not [key for key in keys if crc32(key) % 11 == 0]


@pytest.mark.parametrize("order", ["hashed", "ordered"])
def test_clients_share_the_load_and_the_operations(order):
    load = LoadParams(
        recordcount=1000, insertstart=10, insertcount=500, batchsize=9, insertorder=order
    )
    keys, operations = [], []
    for place in places(2, 2):
        spy = Spy()
        assert ran("load", spy, load=load, **place)[1][0]["tried"] == 125
        keys += spy.acknowledged
        names, _ = ran("c", Spy(), load=load, params={"operationcount": 102}, **place)
        operations.append(names["read"])
    assert sorted(keys) == sorted(load.keys(np.arange(10, 510)))
    assert operations == [26, 26, 25, 25]


@pytest.mark.parametrize(
    ("phase", "shares", "distribution"),
    [
        ("a", {"read": 0.5, "update": 0.5}, "zipfian"),
        ("b", {"read": 0.95, "update": 0.05}, "zipfian"),
        ("c", {"read": 1}, "zipfian"),
        ("d", {"read": 0.95, "insert": 0.05}, "latest"),
        ("e", {"scan": 0.95, "insert": 0.05}, "zipfian"),
        ("f", {"read": 0.5, "read-modify-write": 0.5}, "zipfian"),
        ("g", {"read": 0.1, "insert": 0.9}, "zipfian"),
    ],
)
def test_core_workloads(phase, shares, distribution):
    spec = WORKLOAD.phases[phase]
    params = spec.params(operationcount=20_000)
    assert CORE_WORKLOADS[phase] == shares
    assert params.requestdistribution == distribution
    assert set(spec.operations) == set(shares)
    assert spec.changes == (phase != "c")
    assert ("scans" in spec.needs(params)) == (phase == "e")
    assert ("updates" in spec.needs(params)) == (phase != "c")
    names, _ = ran(phase, Spy(), params={"operationcount": 20_000})
    assert set(names) == set(shares)
    assert sum(names.values()) == 20_000
    if len(shares) > 1:
        counts = [names[name] for name in shares]
        assert chisquare(counts, [20_000 * s for s in shares.values()]).pvalue > 1e-3


def test_scans_begin_at_a_record_and_have_the_lengths_asked_for():
    spy = Spy()
    load = LoadParams(recordcount=300)
    params = {"operationcount": 20_000, "minscanlength": 5, "maxscanlength": 24}
    ran("e", spy, load=load, params=params)
    lengths = [call[2] for call in spy.calls if call[0] == "scan"]
    counts = np.bincount(lengths, minlength=25)
    assert counts[:5].sum() == 0
    assert chisquare(counts[5:]).pvalue > 1e-3
    known = set(load.keys(np.arange(300))) | spy.acknowledged
    assert {call[1] for call in spy.calls} <= known


@pytest.mark.parametrize("whole", [False, True])
def test_updates_set_one_field_or_all(whole):
    spy = Spy()
    ran("f", spy, params={"operationcount": 500, "writeallfields": whole})
    updates = [call for call in spy.calls if call[0] == "update"]
    assert {len(call[2]) for call in updates} == ({10} if whole else {1})
    assert {len(v) for call in updates for v in call[2].values()} == {100}
    assert {name for call in updates for name in call[2]} == {f"field{i}" for i in range(10)}
    # A read-modify-write reads the record that it changes.
    pairs = zip(spy.calls, spy.calls[1:], strict=False)
    assert all(a[:2] == ("get", b[1]) for a, b in pairs if b[0] == "update")


def test_bytes_are_those_of_the_fields():
    params = {"operationcount": 10, "readproportion": 1, "updateproportion": 1}
    for whole, read, update in ((False, 1000, 100), (True, 100, 1000)):
        fields = {"writeallfields": whole, "readallfields": not whole}
        result, _ = operations("run", Spy(), params=params | fields)
        assert {op.name: op.bytes for op in result} == {"read": read, "update": update}
    varied = LoadParams(
        recordcount=50, fieldlength=40, minfieldlength=10, fieldlengthdistribution="uniform"
    )
    # Where lengths vary, by their mean.
    for phase in ("load", "g"):
        result, _ = operations(phase, Spy(), load=varied, params={"operationcount": 50})
        assert {op.bytes / op.documents for op in result} == {250}


def test_documents_as_bson():
    class Encoded(Spy):
        def insert(self, kind, documents):
            super().insert(kind, [bson.decode(document) for document in documents])

    spy, load = Encoded(), LoadParams(recordcount=30, batchsize=10)
    assert ran("load", spy, load=load, using=storing("bson"))[0] == {"insert": 3}
    assert spy.acknowledged == {key.decode() for key in load.keys(np.arange(30))}
    assert ran("g", spy, load=load, using=storing("bson"))[0]["failed"] == 0


def test_owners_are_those_that_the_client_tells():
    class Owning(Spy):
        def owner(self, kind, key):
            return f"data{crc32(key) % 2}"

    params = {"operationcount": 400, "scanproportion": 0.3, "insertproportion": 0.3}
    params |= {"readmodifywriteproportion": 0.3}
    spy = Owning()
    result, _ = operations("run", spy, params=params, using=storing(owner=True))
    for operation in result:
        before = len(spy.calls)
        operation.call()
        key = spy.calls[before][1]
        expected = None if operation.name == "scan" else f"data{crc32(key) % 2}"
        assert operation.owner == expected


def test_draws_are_the_same_again_and_differ_between_clients():
    def seen(**place):
        spy = Spy()
        ran("a", spy, params={"operationcount": 200}, threads=2, **place)
        return spy.calls

    assert seen(thread=0) == seen(thread=0)
    others = ({"thread": 1}, {"thread": 0, "step": 1}, {"thread": 0, "seed": 4})
    assert all(seen(thread=0) != seen(**other) for other in others)


def test_what_is_missing_or_wrong_fails():
    class Empty(Spy):
        def get(self, kind, key):
            return None

        def update(self, kind, key, changes):
            return False

        def scan(self, query):
            return []

    params = {"operationcount": 90, "scanproportion": 1, "readmodifywriteproportion": 1}
    assert set(ran("run", Empty(), params=params)[0]) == {"failed"}
    checked = LoadParams(recordcount=5, dataintegrity=True)
    assert set(ran("c", Empty(), load=checked)[0]) == {"failed"}


def test_verification_finds_what_is_lost_and_what_is_wrong(tmp_path):
    trial = Trial(tmp_path, dataintegrity=True, insertorder="ordered")
    trial.run("load")
    with trial.connect(trial.stores, "write") as client:
        client.delete(trial.kind, b"user17")
        client.update(trial.kind, b"user40", {"field3": "y" * 20})
        client.update(trial.kind, b"user41", {"field3": "short"})
        client.finish()
    result = trial.verify()
    assert (result.expected, result.counted, result.checked) == (200, 199, 200)
    assert (result.lost, result.wrong) == (1, 2)
    assert result.first == "record user17 is missing"
    # An engine that cannot count: what is read back is all there is.
    flags = SimpleNamespace(count="none", stores=True)
    result = trial.verify(engine=SimpleNamespace(flags=flags))
    assert (result.expected, result.counted, result.lost, result.wrong) == (200, 199, 1, 2)


def test_a_failed_insert_may_be_there_or_not(tmp_path):
    trial = Trial(tmp_path)
    trial.run("load")
    note = {"ycsb": "g", "step": 0, "process": 0, "start": 200, "stride": 1, "tried": 3}
    trial.notes.append({**note, "failed": [[0, 3]], "stores": 0})
    assert not trial.verify().differs()
    trial.notes[-1]["failed"] = [[0, 2]]
    result = trial.verify()
    assert (result.expected, result.lost) == (201, 1)
    assert "is missing" in result.first


def test_of_many_records_a_sample_with_the_last_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("storewise.workloads.ycsb.verify.MAX_READ", 100)
    monkeypatch.setattr("storewise.workloads.ycsb.verify._LAST", 20)
    trial = Trial(tmp_path, insertorder="ordered", recordcount=2000)
    trial.run("load")
    trial.run("g", operationcount=300)
    last = trial.notes[-1]["start"] + trial.notes[-1]["tried"] - 1
    with trial.connect(trial.stores, "write") as client:
        client.delete(trial.kind, b"user%d" % last)
        client.finish()
    result = trial.verify()
    assert result.checked <= 1100
    assert (result.lost, result.first) == (1, f"record user{last} is missing")
