"""The designs of published studies: their trials, that they plan, and a tiny run of each."""

import pyarrow.parquet as pq
import pytest
from support.designs import PAPER
from support.paths import ROOT
from support.workspace import Workspace

from storewise.study.load import load_study


def workspace(tmp_path):
    """A place from which the studies find the bundled sample, as they do from the repository."""
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "sample").symlink_to(ROOT / "resources" / "sample")
    return Workspace(tmp_path)


def command(place, name, scale, *more):
    line = place.command(*more)
    at = line.index("--config") + 1
    return [*line[:at], f"study={name}", f"scale={scale}", *line[at + 1 :]]


#: That of CI: servers, some of them slowed. All are read in all sizes in tests/unit/study.
SLOW = "balasubramanian2014"


@pytest.mark.needs("postgres")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if n == SLOW else pytest.mark.all_cells)
        for n in PAPER
    ],
)
def test_a_tiny_run_of_each_design(tmp_path, name):
    place = workspace(tmp_path)
    done = place.run(command(place, name, "tiny"))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    results = tmp_path / "results" / name
    study = load_study(name, scale="tiny", root=ROOT)
    assert len(list(results.glob("trials/*/verify.parquet"))) == len(study.trials())
    for trial in study.trials():
        for phase in trial.phases:
            table = pq.read_table(results / "trials" / trial.id / f"{phase.name}.0.parquet")
            steps = {row["step"] for row in table.select(["step"]).to_pylist()}
            assert steps >= set(range(max(1, len(phase.steps))))
    page = (results / "report.html").read_text(encoding="utf-8")
    assert "Published studies" in page and "other hardware" in page
    assert not list(results.glob("trials/*/failed.json"))
    assert place.processes() == []
