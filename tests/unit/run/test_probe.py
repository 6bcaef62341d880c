"""A part of a study tried out on this machine: which files, with which jobs, and at what rates."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.paths import SMALL

from storewise.errors import Aborted, StorewiseError
from storewise.estimate.work import Probe
from storewise.metrics.schema import Sample, write_part
from storewise.run import probe as module
from storewise.run.probe import probe
from storewise.study.load import load_study

TEXT = "inputs: {{paths: {paths}}}\nengines: {engines}\nphases: [write]\n"


def study(paths=SMALL[0], engines="[postgres, 'null', duckdb, sqlite]"):
    Path("s.yaml").write_text(TEXT.format(paths=paths, engines=engines))
    return load_study("s.yaml")


class Worker:
    """Stands for the code that trials run: a part with so much of each metric, in two seconds."""

    def __init__(self):
        self.jobs, self.error = [], None
        self.done = {"write": 1000.0, "read": 50.0}

    def __call__(self, job, check, log):
        self.jobs.append(job)
        check()
        if self.error is not None:
            raise self.error
        assert job.shards is not None and job.live.is_dir()
        assert set(pq.read_table(job.shards)["shard"].to_pylist()) == {job.worker} == {0}
        done, phase = self.done[job.phase], job.phase
        rows = [
            Sample(phase, "documents", done, "1", operation="insert"),
            Sample(phase, "documents", 7.0, "1", operation="insert", second=0),
            Sample(phase, "documents", 9.0, "1"),
            Sample(phase, "operations", done, "1", operation="get"),
            Sample(phase, "operations", 1.0, "1", operation="get", second=0),
            Sample(phase, "duration", 2.0, "s"),
            Sample(phase, "duration", 1.5, "s", process=0),
        ]
        about = {"trial": "t", "repeat": 1, "host": "h", "factors": {}, "conditions": {}}
        write_part(job.result, rows, **about)


@pytest.fixture
def worker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    worker = Worker()
    monkeypatch.setattr(module, "run_worker", worker)
    return worker


def test_a_load_and_reads_by_id_with_the_first_embedded_store(worker):
    assert probe(study()) == Probe("duckdb", {"documents_per_s": 500.0, "operations_per_s": 25.0})
    load, read = worker.jobs
    assert load.trial == read.trial
    assert (load.trial.engine, load.trial.workload) == ("duckdb", "alignments")
    phases = {phase.name: phase.params for phase in load.trial.phases}
    assert phases == {"write": {}, "read": {"seconds": 3.0}}
    assert (load.phase, load.store, load.files) == ("write", *read.stores, *read.written)
    assert (load.stores, load.written, read.store, read.files) == ((), (), None, None)
    assert load.result != read.result and load.hdr_log != read.hdr_log
    assert sorted(path.name for path in Path().iterdir()) == ["s.yaml"], "nothing is left"
    worker.done["read"] = 0.0
    found = probe(study(engines="[postgres]"))
    assert found == Probe("sqlite", {"documents_per_s": 500.0})


def test_where_nothing_can_be_tried_out(worker, monkeypatch):
    worker.error = StorewiseError("the disk is full")
    assert probe(study()) is None
    assert len(worker.jobs) == 1
    worker.error = None
    now = iter([100.0, 130.0, 130.1])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(now))
    limit = module._time_limit(30.0)
    limit()
    with pytest.raises(Aborted, match="the probe took too long"):
        limit()
    Path("y.yaml").write_text("workload: ycsb\nengines: [sqlite]\nphases: [load]\n")
    assert probe(load_study("y.yaml")) is None
    gone = study("gone.m10")
    assert probe(gone) is None
    assert len(worker.jobs) == 1


def test_the_smallest_files_are_tried(worker, monkeypatch):
    """No more than a load of some seconds, and none that alone takes minutes."""
    used = []

    def manifest(files, *_, **options):
        assert options == {"input_format": "", "on_bad_input": "quarantine"}
        used.extend(files)
        raise StorewiseError("enough")

    monkeypatch.setattr(module, "build_manifest", manifest)
    for sizes, taken in (
        ([10, 30, 20], 3),
        ([30_000, 8_000, 9_000_000], 3),
        ([8_000_000, 10, 8_000_001], 2),
        ([64_000_000], 1),
        ([64_000_001], 0),
    ):
        names = [f"{number}.m10" for number in range(len(sizes))]
        for name, size in zip(names, sizes, strict=True):
            with Path(name).open("wb") as file:
                file.truncate(size)
        used.clear()
        assert probe(study("'*.m10'")) is None
        in_order = sorted(names, key=lambda name: Path(name).stat().st_size)
        assert [Path(path).name for path in used] == in_order[:taken]
        for name in names:
            Path(name).unlink()
