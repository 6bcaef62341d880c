"""A trial: its id, seed and names, and the values that its jobs read from it."""

import hashlib
import json

import pytest
from support.inputs.small_studies import GOOD, OF_SERVERS

from storewise.engines.contract.server import Topology
from storewise.study.load import load_study
from storewise.study.study import Study
from storewise.study.trial import (
    SHOWN,
    Phase,
    Trial,
    job_name,
    node_jobs,
    node_specs,
    trial_id,
    trial_seed,
)


def made(identifier="sqlite-r1-0", **changes):
    phases = [Phase(name="write", steps=[{"threads": 2}]), Phase(name="read")]
    values = {"study": "s", "engine": "sqlite", "workload": "alignments", "repeat": 1, "seed": 1}
    return Trial(**{**values, "id": identifier, "factors": {}, "phases": phases, **changes})


def test_the_first_characters_tell_job_and_trial():
    for job, identifier, shown in (
        ("data0", "postgres-w2-r1-0d8fc281", "data0.pos-w2-r1"),
        ("load.1", "sqlite-w2-r1-0d8fc281", "load.1.sq-w2-r1"),
        ("form", "mongodb-r3-0d8fc281", "form.mongodb-r3"),
        ("verify", "cassandra-w512-r10-0d8fc281", "verify.ca-w512-"),
    ):
        name = job_name(job, made(identifier))
        assert name[:SHOWN].rstrip(".") == shown
        assert name.endswith(".0d8fc281"), "the whole name is the trial's alone"


def test_an_id_is_of_the_levels_and_the_repeat_alone():
    """By hand: results that are stored have it in their names."""
    levels = {"engine": "SQL-ite", "workers": 2}
    text = '{"factors": {"engine": "SQL-ite", "workers": 2}, "repeat": 3}'
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    assert trial_id(levels, 3) == f"sqlite-w2-r3-{digest}"
    assert trial_id(dict(reversed(levels.items())), 3) == trial_id(levels, 3)
    assert trial_id({}, 1).startswith("trial-r1-")
    assert trial_id({"engine": "a", "workers": 1}, 1) != trial_id({"engine": "a", "workers": 2}, 1)


def test_seeds_and_shards():
    digest = hashlib.sha256(b"7:x").digest()
    assert trial_seed(7, "x") == int.from_bytes(digest[:8], "big") // 2 < 2**63
    assert len({trial_seed(seed, name) for seed in (1, 2) for name in "xy"}) == 4
    whole = made(workers=3, processes=2)
    assert (whole.shards, whole.shard_list) == (6, "6")
    assert made(workers=3, processes=2, volume=0.25).shard_list == "6of0.25"
    assert made(volume=1 / 3).shard_list == "1of0.333333"


def test_its_cluster_and_its_class_of_hosts():
    assert made().topology == Topology(nodes=1, replicas=1, routers=0, threads=1, memory_mb=1024)
    shape = {"nodes": 2, "replicas": 3, "routers": 4, "node_threads": 5, "node_memory_mb": 66}
    assert made(**shape).topology == Topology(2, 3, 4, 5, 66)
    assert made().node_class == "data"
    assert made(factors={"node_class": "large"}).node_class == "large"
    assert node_specs(made()) == node_jobs(made()) == ()
    sharded = made(engine="mongodb", nodes=2)
    on_workers = {spec.name for spec in node_specs(sharded)} - {s.name for s in node_jobs(sharded)}
    assert on_workers and all(name.startswith("router") for name in on_workers)


def test_its_phases_and_what_its_clients_create():
    trial = made(indexes=[("align", "q")], index_time="after", study_fields=True)
    assert trial.load is trial.phase("write") is trial.phases[0]
    assert trial.phase("read").step_overrides() == [{}]
    assert trial.phase("write").step_overrides() == [{"threads": 2}]
    with pytest.raises(KeyError, match="query"):
        trial.phase("query")
    schema = trial.store_schema()
    assert schema.kinds == trial.kinds()
    assert [(kind.table, field) for kind, field in schema.indexes] == [("align", "q")]
    assert (schema.index_time, schema.study_fields) == ("after", True)


# All trials of a study.


def study(tmp_path, text):
    (tmp_path / "s.yaml").write_text(text)
    return load_study(tmp_path / "s.yaml", root=tmp_path)


def test_what_the_study_says_for_all_is_in_each(tmp_path):
    (plain,) = study(tmp_path, GOOD).trials()
    assert plain.model_dump(exclude={"factors", "phases", "id", "seed", "indexes"}) == {
        **{"study": "s", "engine": "sqlite", "workload": "alignments", "repeat": 1, "workers": 1},
        **{"processes": 1, "threads": 1, "consistency": "durable", "index_time": "none"},
        **{"settings": {}, "nodes": 1, "replicas": 1, "routers": 0, "node_threads": 1},
        **{"node_memory_mb": 1024, "allow_open_ports": False, "keep_data": False},
        **{"study_fields": False, "on_bad_input": "fail", "volume": 1.0, "verify": 200},
    }
    text = GOOD.replace("[sqlite]", "{sqlite: {page_size: 8192}}") + (
        "indexes: [align.e]\nallow_open_ports: true\nkeep_data: true\nstudy_fields: true\n"
        "on_bad_input: quarantine\nverify: 7\nrepeats: 2\nseed: 5\n"
        "factors: {workers: 2, processes: 3, threads: 4, consistency: weak, index: before,\n"
        "  volume: 0.5, sqlite.cache_mib: 9, read.operations: 6}\n"
    )
    first, second = sorted(study(tmp_path, text).trials(), key=lambda trial: trial.repeat)
    assert (first.repeat, second.repeat) == (1, 2)
    assert first.seed == trial_seed(5, first.id) != second.seed
    assert first.id == trial_id(first.factors, 1)
    assert (first.workers, first.processes, first.threads, first.volume) == (2, 3, 4, 0.5)
    # The factor keeps the study's word, the trial has the level that it means.
    assert (first.factors["consistency"], first.consistency) == ("weak", "relaxed")
    assert (first.index_time, first.indexes) == ("before", [("align", "e")])
    assert first.settings == {"page_size": 8192, "cache_mib": 9}
    assert first.phase("read").params["operations"] == 6
    assert first.phase("write").params["batch_size"] == 10
    assert (first.allow_open_ports, first.keep_data, first.study_fields) == (True, True, True)
    assert (first.on_bad_input, first.verify) == ("quarantine", 7)


def test_trials_come_in_rounds_of_an_order_that_a_new_one_does_not_move(tmp_path):
    def order(workers, seed=1):
        more = f"factors: {{workers: [{workers}]}}\nrepeats: 3\nseed: {seed}\n"
        return study(tmp_path, GOOD + more).trials()

    few = order("1, 2, 3, 4")
    rounds = [[trial for trial in few if trial.repeat == number] for number in (1, 2, 3)]
    assert few == [trial for one in rounds for trial in one]
    for one in rounds:
        digests = [hashlib.sha256(f"order:1:{trial.id}".encode()).digest() for trial in one]
        assert digests == sorted(digests)
    orders = {tuple(trial.workers for trial in one) for one in rounds}
    assert len(orders) == 3, "each round has an order of its own"
    assert [trial for trial in order("1, 2, 3, 4, 5") if trial.workers != 5] == few
    assert [trial.id for trial in order("1, 2, 3, 4", seed=2)] != [trial.id for trial in few]


def test_a_digest_changes_with_any_value(tmp_path):
    one = study(tmp_path, GOOD)
    text = json.dumps(one.model_dump(mode="json"), sort_keys=True)
    assert one.digest() == hashlib.sha256(text.encode()).hexdigest()[:16]
    texts = (GOOD, GOOD + "seed: 2\n", GOOD + "title: a\n", GOOD.replace("100", "101"))
    assert len({study(tmp_path, text).digest() for text in texts}) == 4


def test_rules_take_out_trials_and_phases(tmp_path):
    text = GOOD.replace("[sqlite]", "[sqlite, duckdb]") + (
        "factors: {workers: [1, 2], threads: [1, 2]}\n"
        "exclude: [{engine: sqlite, workers: 2}, {threads: 2, workers: 1}, {engine: null},\n"
        "  {engine: duckdb, workers: 2, phase: read}]\n"
    )
    found = study(tmp_path, text)
    left = {(t.engine, t.workers, t.threads, len(t.phases)) for t in found.trials()}
    assert left == {
        ("sqlite", 1, 1, 2),
        ("duckdb", 1, 1, 2),
        ("duckdb", 2, 1, 1),
        ("duckdb", 2, 2, 1),
    }
    assert found.leaves_out("read", {"engine": "duckdb", "workers": 2, "threads": 9})
    assert not found.leaves_out("read", {"engine": "duckdb", "workers": 1})
    assert not found.leaves_out("write", {"engine": "duckdb", "workers": 2})


def test_each_engine_has_the_factors_that_it_knows(tmp_path):
    text = GOOD.replace("[sqlite]", "[sqlite, postgres]") + (
        "factors: {workers: [1, 2], nodes: [2], node_class: [large], sqlite.cache_mib: [1, 2],\n"
        "  read.operations: [3]}\n"
    )
    found = study(tmp_path, text)
    plain = {"processes": [1], "threads": [1], "consistency": ["durable"], "index": ["none"]}
    both = {**plain, "workers": [1, 2], "read.operations": [3]}
    assert found.levels_of("sqlite") == {**both, "sqlite.cache_mib": [1, 2]}
    shape = {"replicas": [1], "routers": [0], "node_threads": [1], "node_memory_mb": [1024]}
    assert found.levels_of("postgres") == {**both, **shape, "nodes": [2], "node_class": ["large"]}
    # Those of servers do not multiply embedded trials.
    trials = study(tmp_path, OF_SERVERS).trials()
    assert sorted((t.engine, t.nodes) for t in trials) == [
        *(("mongodb", 1), ("mongodb", 2), ("postgres", 1), ("postgres", 2), ("sqlite", 1))
    ]
    assert all("nodes" not in t.factors for t in trials if t.engine == "sqlite")


def test_the_nodes_of_a_trial(tmp_path):
    trials = study(tmp_path, OF_SERVERS).trials()
    nodes = {(t.engine, t.nodes): [spec.name for spec in node_jobs(t)] for t in trials}
    assert nodes["sqlite", 1] == [] and nodes["mongodb", 1] == ["data0"]
    assert nodes["postgres", 2] == ["data0", "data1"]
    # Routers live on the worker hosts unless the study says otherwise.
    assert nodes["mongodb", 2] == ["config0", "data0", "data1"]
    text = OF_SERVERS.replace("sqlite, postgres, ", "").replace(
        "[1, 2]", "2, routers: 2, replicas: 3, node_memory_mb: 512"
    )
    (trial,) = study(tmp_path, text).trials()
    names = [spec.name for spec in node_jobs(trial)]
    assert names.count("router1") == 1 and len(names) == 1 + 2 * 3 + 2
    assert {spec.memory_mb for spec in node_jobs(trial) if spec.role == "data"} == {512}


def test_ways_to_write_engines_and_phases(tmp_path):
    engines, swept = ("[null, sqlite]", "{null: , sqlite: {}}"), "sweep: {threads: [2]}"
    one, other = (
        study(tmp_path, f"inputs: {{paths: data}}\nengines: {names}\nphases: [{phases}]\n")
        for names, phases in (
            (engines[0], "write, read: {operations: 1, steps: [{threads: 2}]}"),
            (engines[1], f"write: , read: {{operations: 1, {swept}}}"),
        )
    )
    assert one.engines == {"null": {}, "sqlite": {}} and one.inputs.paths == ["data"]
    assert [(p.name, p.steps) for p in one.phases] == [("write", []), ("read", [{"threads": 2}])]
    assert (other.engines, other.phases) == (one.engines, one.phases)
    # As it is stored with results.
    assert Study.model_validate(one.model_dump(mode="json")) == one
