"""A study read in batches, in several processes and from packs: equal tables, little memory."""

import shutil
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.results import synthetic

from storewise.analysis.pipeline import parallel as readers
from storewise.analysis.pipeline.build import measured_tables
from storewise.analysis.pipeline.load import load_results
from storewise.metrics.pack import write_pack


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    place = tmp_path_factory.mktemp("results") / "s"
    synthetic.make_study(
        place,
        engines=["sqlite", "postgres"],
        workers=[2],
        nodes=[1, 2],
        store_hosts=["a", "b"],
        repeats=1,
    )
    first = min(place.glob("trials/sqlite-w2-*"))
    (first / "read.0.parquet").write_bytes(b"PAR1 and no more")
    return place


MEMORY = """
import resource, sys
from pathlib import Path
from storewise.analysis.pipeline import parallel as readers
from storewise.analysis.pipeline.load import load_results
readers.MIN_PARALLEL_BYTES = 10**12
load_results(Path(sys.argv[1]))  # imports, and memory that the libraries keep
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
room = used + int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_AS, (room, room))
readers.BATCH_BYTES = int(sys.argv[4])
load_results(Path(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits address space by /proc")
def test_no_more_than_a_lot_of_trials_is_in_memory(tmp_path):
    """Of 3.2 million samples an eighth is read at a time; all at once they do not fit."""
    small, large = tmp_path / "small", tmp_path / "large"
    synthetic.make_study(small, engines=["sqlite"], workers=[1], repeats=1)
    synthetic.make_study(large, engines=["sqlite"], workers=[1], repeats=8)
    for path in large.glob("trials/*/read.0.parquet"):
        table = pq.read_table(path)
        seconds = table.filter(pc.equal(table["metric"], "cpu_user"))
        more = pa.concat_tables([seconds] * (400_000 // len(seconds)))
        pq.write_table(pa.concat_tables([table, more]), path, compression="zstd")
    room, lot = 200_000_000, 1
    arguments = [str(small), str(large), str(room)]
    for size, fits in ((lot, True), (10**9, False)):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, *arguments, str(size)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) == fits, done.stderr[-2000:]


def frames(study, **options):
    return measured_tables(load_results(study, **options)).frames()


def equal(result, expected):
    assert set(result) == set(expected)
    for name, table in expected.items():
        pd.testing.assert_frame_equal(result[name], table, check_categorical=False, obj=name)


def of_workers(trial):
    return [p for p in trial.glob("*.*.parquet") if p.name.startswith(("write.", "read."))]


@pytest.mark.slow
def test_lots_processes_and_packs_make_no_difference(study, tmp_path, monkeypatch):
    together = frames(study)
    assert {"unreadable_part", "missing_worker"} <= set(together["warnings"]["code"])
    assert len(together["per_node"]) > 2
    monkeypatch.setattr(readers, "BATCH_BYTES", 1)
    equal(frames(study), together)
    monkeypatch.setattr(readers, "MIN_PARALLEL_BYTES", 0)
    equal(frames(study, processes=2), together)
    packed = tmp_path / "s"
    shutil.copytree(study, packed)
    made = [write_pack(of_workers(trial)) for trial in sorted((packed / "trials").iterdir())]
    assert sum(one is None for one in made) == 1, "a part of it is damaged"
    result = frames(packed, processes=1)
    for table in (result["warnings"], together["warnings"]):
        table["message"] = table["message"].str.replace(str(tmp_path), str(study.parent))
    equal(result, together)
