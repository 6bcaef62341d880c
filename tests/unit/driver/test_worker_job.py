"""Steps that a job is told, the stores that it works on, and when a loss is a failure."""

from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
from support.in_threads import MemoryEngine, job, ycsb

from storewise.driver import embedded_stores
from storewise.driver.worker_job import load_params, must_succeed, notes_of, steps_of
from storewise.engines.contract.engine import SourceFile
from storewise.engines.null import NullEngine
from storewise.errors import ConfigError, StorewiseError
from storewise.metrics.inodes import Inodes
from storewise.session.coordination.trial_part import write_trial_part
from storewise.study.sweep import Clients
from storewise.workloads.ycsb.workload import YcsbWorkload

SPECS = YcsbWorkload.phases


def test_steps_are_the_phases_parameters_with_each_steps_own():
    params = {"operations": 5, "clients": 8}
    own = [{"rate": 10.0}, {"operations": 7, "threads": 2}, {"clients": 3}]
    steps = steps_of(ycsb({"name": "c", "params": params, "steps": own}, threads=4), SPECS["c"])
    assert [s.number for s in steps] == [0, 1, 2]
    assert [s.params.operations for s in steps] == [5, 7, 5]
    assert [s.params.rate for s in steps] == [10.0, None, None]
    assert [s.clients for s in steps] == [Clients(4, 8), Clients(2), Clients(4, 3)]
    (load,) = steps_of(ycsb(threads=4), SPECS["load"])
    assert load.clients == Clients(4)
    assert load_params(ycsb(), SPECS["load"]) == load.params


@pytest.mark.parametrize(
    ("name", "phase", "says"),
    [
        ("c", {"params": {"operations": 0}}, r"^phase 'c': operations: Input should be greater"),
        ("c", {"params": {}}, r"^phase 'c': .*must end the phase"),
        ("c", {"steps": [{"operations": 1}, {"operations": 1, "rate": 0}]}, r"^phase 'c', step 1"),
        ("c", {"params": {"operations": 0, "rate": -1}}, r"operations: .* to 1; rate: .* than 0$"),
        ("c", {"params": {"operations": 1, "threads": 0}}, r"^phase 'c': threads is 0"),
        ("load", {"steps": [{}, {"batchsize": 5}]}, r"'load' .*can have one step only$"),
        ("load", {"params": {"clients": 2}}, r"give `threads` instead of `clients`$"),
    ],
)
def test_steps_that_cannot_be_are_refused_by_name(name, phase, says):
    trial = ycsb({"name": name, **phase})
    trial = trial.model_copy(update={"phases": trial.phases[-1:]})
    with pytest.raises(ConfigError, match=says):
        steps_of(trial, SPECS[name])


class Careless(MemoryEngine):
    """Its first level is one that loses."""

    consistencies: ClassVar = {"relaxed": "", "durable": ""}


@pytest.mark.parametrize(
    ("engine", "level", "expected"),
    [
        *((MemoryEngine, level, level != "relaxed") for level in ("", "durable", "relaxed")),
        (NullEngine, "durable", False),
        *((Careless, level, level == "durable") for level in ("", "durable")),
    ],
)
def test_a_loss_is_a_failure_where_the_store_promises_to_keep(engine, level, expected):
    assert must_succeed(engine(), ycsb(consistency=level)) is expected


def test_notes_are_those_of_all_parts_in_their_order(tmp_path):
    parts = [tmp_path / f"a.{k}.parquet" for k in range(3)]
    for k, part in enumerate(parts):
        more = {} if k == 1 else {"notes": [{"n": k}, {"n": 10 + k}]}
        write_trial_part(part, [], ycsb(), "a", **more)
    assert notes_of(parts) == ({"n": 0}, {"n": 10}, {"n": 2}, {"n": 12})


def test_stores_are_made_empty_and_for_this_user_alone(tmp_path):
    place = tmp_path / "deep" / "store"
    embedded_stores.make_stores(place, 2)
    stores = [embedded_stores.process_store(place, n) for n in range(2)]
    assert [path.name for path in stores] == ["p0", "p1"]
    assert [path.stat().st_mode & 0o777 for path in (*stores, place)] == [0o700] * 3
    embedded_stores.make_stores(place, 2)
    (stores[1] / "left").touch()
    with pytest.raises(StorewiseError, match=r"p1: a load needs an empty directory"):
        embedded_stores.make_stores(place, 2)
    with pytest.raises(NotADirectoryError, match="store"):
        embedded_stores.make_stores(stores[1] / "left" / "deeper", 1)


@pytest.fixture
def sources(monkeypatch):
    """What a workload was asked for its sources; it has files in stores 0, 1, 2 and 1."""
    asked = []
    files = [SourceFile(f"in/{n % 2}/{n}", 1, b"", (), s) for n, s in enumerate((0, 1, 2, 1))]
    alignments = SimpleNamespace(
        sources=lambda *given: asked.append(given) or tuple(files),
        placement=lambda *given: ("placement", *given),
    )
    monkeypatch.setattr(embedded_stores, "workload", lambda name: alignments)
    return asked


def test_clients_connect_to_the_stores_of_all_or_to_their_own(sources, tmp_path, monkeypatch):
    trial = ycsb(engine="files", workers=2, processes=2, settings={"x": 1}, consistency="durable")
    stores = tuple(tmp_path / f"store{k}" for k in range(2))
    written = (tmp_path / "w",)
    its = job(trial, tmp_path, "load", cluster=None, stores=stores, written=written)
    with pytest.raises(StorewiseError, match=r"store0/p0: the store is not here"):
        embedded_stores.reading_cluster(its, [])
    for store in stores:
        embedded_stores.make_stores(store, 2)
    notes = [{"n": 1}]
    cluster = embedded_stores.reading_cluster(its, notes)
    assert cluster.stores == tuple(s / f"p{n}" for s in stores for n in range(2))
    assert cluster.placement == ("placement", 4, written)
    assert (cluster.engine, cluster.settings, cluster.consistency) == ("files", {"x": 1}, "durable")
    assert [source.store for source in cluster.sources] == [0, 1, 2, 1]
    assert sources == [(None, written, notes)]
    assert cluster.kinds == trial.kinds()
    assert not cluster.network_file_system
    # A later phase that changes data: worker 1's stores are the third and the fourth.
    for worker, process, own in ((0, 0, [0]), (0, 1, [1, 1]), (1, 0, [2]), (1, 1, [])):
        cluster = embedded_stores.writing_cluster(replace(its, worker=worker), process, notes)
        assert cluster.stores == (stores[worker] / f"p{process}",)
        assert [source.store for source in cluster.sources] == own
    loading = replace(its, store=tmp_path / "mine", worker=1)
    assert embedded_stores.writing_cluster(loading, 1, []).stores == (tmp_path / "mine" / "p1",)
    monkeypatch.setattr(embedded_stores, "file_system", {stores[1] / "p1": "nfs4"}.get)
    monkeypatch.setattr(embedded_stores, "is_network", lambda name: name == "nfs4")
    assert embedded_stores.reading_cluster(its, []).network_file_system
    sources.clear()
    other = replace(its, trial=trial.model_copy(update={"engine": "sqlite"}))
    assert embedded_stores.reading_cluster(other, []).sources == ()
    assert sources == [], "only an engine that reads them again gets the list"


def test_inputs_count_as_files_of_an_engine_that_answers_from_them_once_in_a_trial(
    sources, tmp_path, monkeypatch
):
    first = job(ycsb(engine="files", workers=2), tmp_path, "load", cluster=None)
    assert embedded_stores.inputs_kept(first) == Inodes(4, 3)
    assert embedded_stores.inputs_kept(replace(first, worker=1)) == Inodes()
    assert sources == [(None, (), ())] * 2
    assert embedded_stores.inputs_kept(replace(first, trial=ycsb(engine="sqlite"))) == Inodes()
    # Objects on S3 are no files.
    monkeypatch.setattr(embedded_stores, "is_remote", lambda path: path == "in/1/3")
    for worker in (0, 1):
        assert embedded_stores.inputs_kept(replace(first, worker=worker)) is None
