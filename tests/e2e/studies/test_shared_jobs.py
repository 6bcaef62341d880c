"""Several workers of a phase in one job: as many results as without."""

from support.workflow import planned
from support.workspace import Workspace

STUDY = """\
inputs: {paths: data}
engines: [sqlite]
factors: {workers: 3}
workers_per_job: 2
phases:
  - write: {batch_size: 500}
  - read: {operations: 500}
verify: 50
"""


def test_each_worker_has_its_results_and_each_document_is_counted(tmp_path):
    place = Workspace(tmp_path)
    place.copy_inputs()
    place.write_study(STUDY)
    done = place.snakemake("--omit-from", "analyse")
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = planned(done.stdout + done.stderr)
    assert (jobs["load"], jobs["phase"]) == (2, 2), "two jobs a phase for three workers"
    (trial,) = (place.results / "trials").iterdir()
    parts = {path.name for path in trial.glob("*.[0-9].parquet")}
    assert parts == {f"{p}.{k}.parquet" for p in ("write", "written", "read") for k in range(3)}
    names = ("write.{}.parquet", "write.{}.hlog", "written.{}.parquet")
    index = (trial / "write.0.workers").read_text().split()
    assert sorted(index) == sorted(name.format(k) for k in (0, 1) for name in names)
    expected = place.documents()
    assert list(place.counts().values()) == [(expected, expected)]
    assert not list(trial.glob("store.*")), "stores are temporary"
    assert place.left_behind() == []
