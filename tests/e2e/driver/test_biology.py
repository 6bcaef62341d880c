"""Mixed phases and questions of the driver; a whole study of them: studies/test_biology.py."""

import logging
from copy import copy
from dataclasses import replace

import pytest
from support import driving
from support.client_context import place_of
from support.driving import make_inputs, trial

from storewise.documents import KINDS
from storewise.driver.worker import run_worker
from storewise.engines.contract.queries import Plan
from storewise.engines.registry import engine
from storewise.errors import ConfigError, EngineError
from storewise.metrics.schema import read_part
from storewise.ssearch.inputs.shards import load_shard
from storewise.workloads.alignments.mixed_phase import MixedParams, left_files
from storewise.workloads.alignments.query_phase import QueryParams, learn
from storewise.workloads.alignments.stored_files import StoredFiles
from storewise.workloads.alignments.workload import AlignmentsWorkload, WriteParams
from storewise.workloads.contract import ClientContext

LEAVING = {"name": "write", "params": {"leave": 0.5}}


def run(measured, place, phase, before):
    """Run a phase after others; what its part says of itself."""
    job = replace(driving.job(measured, place, phase), before=tuple(before))
    run_worker(job, driving.check_of(place), logging.getLogger("worker"))
    before.append(job.result)
    return read_part(job.result)[1]


@pytest.mark.parametrize(
    "name", ["sqlite", "files", pytest.param("duckdb", marks=pytest.mark.all_cells)]
)
def test_what_a_mixed_phase_stored_is_read_and_verified(name, tmp_path):
    make_inputs(tmp_path, 2)
    steps = [{"writes": 0.5}, {"writes": 1.0}, {"writes": 0.0}]
    mixed = {"name": "mixed", "params": {"operations": 8, "batch_size": 150}, "steps": steps}
    read = {"name": "read", "params": {"operations": 12}}
    settings = {"processes": 1} if name == "files" else {}
    measured = trial(name, [LEAVING, mixed, read], processes=2, verify=20, settings=settings)
    before = []
    run(measured, tmp_path, "write", before)
    loaded = StoredFiles.read([tmp_path / "written.0.parquet"])
    assert 0 < (loaded.documents == 0).all(axis=1).sum() < len(loaded.table)
    output = run(measured, tmp_path, "mixed", before)
    # Of several embedded stores each client changes its own; nothing else is to be said.
    assert all("own one of the" in text for text in output["warnings"])
    later = loaded.with_notes(output["notes"])
    added = sum(later.total(kind) - loaded.total(kind) for kind in KINDS)
    of_steps = [
        driving.total(before[1], "documents", operation="add", step=step, second=None)
        for step in range(3)
    ]
    assert sum(of_steps) == added
    assert min(of_steps[:2]) > 0 == of_steps[2]
    assert not run(measured, tmp_path, "read", before)["warnings"]
    driving.verify(measured, tmp_path, before)
    counted = driving.rows(tmp_path / "verify.parquet", metric="counted_documents")
    assert {row["operation"]: row["value"] for row in counted} == {
        kind.table: later.total(kind) for kind in KINDS
    }


def context_of(place, **more):
    values = {
        "engine": engine("sqlite"),
        "schema": trial("sqlite").store_schema(),
        "params": MixedParams(operations=30, writes=0.6, batch_size=50),
        "shards": place / "shards.parquet",
        **{"seed": 4, "phase": "mixed", "written": (place / "written.0.parquet",)},
        "load": WriteParams(leave=0.5),
    }
    return ClientContext(**place_of(values | more))


class Refusing:
    """A client whose inserts fail now and then, half of the batch stored."""

    def __init__(self):
        self.stored = {}
        self.calls = 0

    def insert(self, kind, documents):
        self.calls += 1
        refused = self.calls % 3 == 0
        for document in documents[: len(documents) // 2] if refused else documents:
            self.stored[document["_id"]] = document
        if refused:
            raise EngineError("refused")

    def get(self, kind, document_id):
        return self.stored.get(document_id, {"_id": document_id})


def test_a_refused_insert_is_repeated_and_never_counted_twice(tmp_path):
    make_inputs(tmp_path, 1)
    driving.run_here(trial("null", [LEAVING]), tmp_path, "write")
    sqlite = copy(engine("sqlite"))
    sqlite.encoding = "dict"
    client, context = Refusing(), context_of(tmp_path, engine=sqlite)
    acknowledged = refused = 0
    for operation in AlignmentsWorkload().operations("mixed", client, context):
        try:
            acknowledged += operation.call() if operation.name == "add" else 0
        except EngineError:
            refused += 1
            assert sum(any(n["unsure"]) for n in context.notes if "stored" in n) == 1
    noted = [n for n in context.notes if "stored" in n]
    assert refused >= 3
    assert sum(sum(n["documents"]) for n in noted) == acknowledged
    assert len(client.stored) - acknowledged <= 50
    # Each acknowledged id can be read from what the notes say.
    files = StoredFiles.read([tmp_path / "written.0.parquet"])
    later = files.with_notes(context.notes)
    assert sum(later.total(k) - files.total(k) for k in KINDS) == acknowledged


def test_what_is_left_is_neither_nothing_nor_everything(tmp_path):
    make_inputs(tmp_path, 1)
    files = load_shard(tmp_path / "shards.parquet", 0)
    for share, count in ((0.0, 0), (0.01, 1), (0.5, 3), (0.99, 5)):
        left = left_files(files, share)
        assert len(left) == count
        assert left == left_files(list(reversed(files)), share)
    assert left_files(files[:1], 0.9) == []
    driving.run_here(trial("null", [LEAVING]), tmp_path, "write")
    with pytest.raises(ConfigError, match=r"leave: 0\.3"):
        AlignmentsWorkload().operations(
            "mixed", Refusing(), context_of(tmp_path, load=WriteParams())
        )


def test_all_engines_are_asked_the_same_questions(tmp_path):
    make_inputs(tmp_path, 1)
    driving.run_here(trial("null"), tmp_path, "write")
    learnt = learn(StoredFiles.read([tmp_path / "written.0.parquet"]))
    assert learnt.rna and learnt.genes

    class Asked:
        def __init__(self):
            self.seen = []

        def explain(self, query):
            return Plan(f"by {query.where[0].field}", True)

        def __getattr__(self, verb):
            def ask(*arguments, **named):
                self.seen.append((verb, arguments, named))
                return {} if verb == "histogram" else []

            return ask

    def asked(**more):
        client = Asked()
        params = QueryParams(operations=10)
        context = context_of(tmp_path, params=params, phase="query", **more)
        for operation in AlignmentsWorkload().operations("query", client, context):
            operation.call()
        plans = [(note.get("plan"), note.get("uses_index")) for note in context.notes]
        found = [(f"by {name}", True) for name in ("q", "gene", "e")]
        assert plans == ([*found, (None, None), (None, None)] if context.client == 0 else [])
        return client.seen

    first = asked()
    assert [verb for verb, _, _ in first[:5]] == ["find", "find", "find", "top", "histogram"]
    assert asked(seed=99, engine=engine("duckdb")) == first
    assert asked(step=1) != first
    assert asked(thread=1, threads=2) != first[:5]
    with pytest.raises(ConfigError, match=r"'best_hits'.*study_fields"):
        asked(schema=replace(trial("sqlite").store_schema(), study_fields=True))
