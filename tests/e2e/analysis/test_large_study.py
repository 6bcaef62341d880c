"""A study read in lots, in several processes and from packs: the same tables, in little memory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.results import synthetic
from support.waiting import exit_code

from storewise.analysis.pipeline import parallel as readers
from storewise.analysis.pipeline.build import measured_tables
from storewise.analysis.pipeline.load import load_results
from storewise.metrics.pack import write_pack


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


#: A script without a guard: a child that ran it again would start children of its own.
CHILDREN = """
import sys
from pathlib import Path
from storewise.analysis.pipeline import parallel
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.pipeline.output import write_study
parallel.LOT, parallel.WORTH = 1, 0
def progress(done, total):
    if done == 1:
        print("reading", flush=True)
        sys.stdin.readline()
results = load_results(Path(sys.argv[1]), processes=2, progress=progress)
write_study(results, Path(sys.argv[2]))
"""
Running = tuple[subprocess.Popen[str], list[psutil.Process], Path]


@pytest.fixture
def running(study: Path, tmp_path: Path) -> Iterator[Running]:
    """An analysis with two children that read, which waits for a line before it takes anything."""
    out, script = tmp_path / "out", tmp_path / "script.py"
    script.write_text(CHILDREN)
    with subprocess.Popen(
        [sys.executable, script, str(study), str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "reading\n"
            children = psutil.Process(process.pid).children()
            assert len(children) == 3  # Python's tracker of shared resources is one
            yield process, children, out
        finally:
            process.kill()


def gone(children: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(children, timeout=20)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.all_cells),
        pytest.param(signal.SIGKILL, marks=pytest.mark.all_cells),
    ],
)
def test_no_process_and_no_table_outlives_the_analysis(
    running: Running, how: signal.Signals
) -> None:
    process, children, out = running
    if how == signal.SIGINT:  # as a terminal sends it
        os.killpg(process.pid, how)
    else:
        process.send_signal(how)
    assert exit_code(process, 20) != 0
    assert gone(children)
    assert not out.exists()


MEMORY = """
import resource, sys
from pathlib import Path
from storewise.analysis.pipeline import parallel as readers
from storewise.analysis.pipeline.load import load_results
readers.WORTH = 10**12
load_results(Path(sys.argv[1]))  # imports, and memory that the libraries keep
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
room = used + int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_AS, (room, room))
readers.LOT = int(sys.argv[4])
load_results(Path(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits address space by /proc")
def test_no_more_than_a_lot_of_trials_is_in_memory(tmp_path: Path) -> None:
    """Of 1.2 million samples an eighth is read at a time; all at once they do not fit."""
    small, large = tmp_path / "small", tmp_path / "large"
    synthetic.make_study(small, engines=["sqlite"], workers=[1], repeats=1)
    synthetic.make_study(large, engines=["sqlite"], workers=[1], repeats=8)
    for path in large.glob("trials/*/read.0.parquet"):
        table = pq.read_table(path)
        seconds = table.filter(pc.equal(table["metric"], "cpu_user"))
        more = pa.concat_tables([seconds] * (150_000 // len(seconds)))
        pq.write_table(pa.concat_tables([table, more]), path, compression="zstd")
    room, lot = 150_000_000, 1
    arguments = [str(small), str(large), str(room)]
    for size, fits in ((lot, True), (10**9, False)):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, *arguments, str(size)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) == fits, done.stderr[-2000:]


def frames(study: Path, **options: int) -> dict[str, pd.DataFrame]:
    return measured_tables(load_results(study, **options)).frames()


def equal(result: dict[str, pd.DataFrame], expected: dict[str, pd.DataFrame]) -> None:
    assert set(result) == set(expected)
    for name, table in expected.items():
        pd.testing.assert_frame_equal(result[name], table, check_categorical=False, obj=name)


def of_workers(trial: Path) -> list[Path]:
    return [p for p in trial.glob("*.*.parquet") if p.name.startswith(("write.", "read."))]


@pytest.mark.slow
def test_how_many_trials_are_read_at_once_makes_no_difference(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = frames(study)
    assert {"unreadable_part", "missing_worker"} <= set(together["warnings"]["code"])
    assert len(together["per_node"]) > 2
    monkeypatch.setattr(readers, "LOT", 1)
    equal(frames(study), together)
    packed = tmp_path / "s"
    shutil.copytree(study, packed)
    made = [write_pack(of_workers(trial)) for trial in sorted((packed / "trials").iterdir())]
    assert sum(one is None for one in made) == 1, "a part of it is damaged"
    result = frames(packed, processes=1)
    for table in (result["warnings"], together["warnings"]):
        table["message"] = table["message"].str.replace(str(tmp_path), str(study.parent))
    equal(result, together)


@pytest.mark.slow
def test_several_processes_read_the_same(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = frames(study)
    monkeypatch.setattr(readers, "LOT", 1)
    monkeypatch.setattr(readers, "WORTH", 0)
    equal(frames(study, processes=2), together)
