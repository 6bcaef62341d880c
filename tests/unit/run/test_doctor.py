"""What can run on a host, what to install where it cannot, and whether its disk has room."""

import os
import platform
import shutil
from collections import namedtuple
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import ClassVar
from unittest import mock

import pytest
from support.paths import SMALL

from storewise.engines.contract.server import ServerEngine
from storewise.engines.registry import ENGINES
from storewise.errors import EngineError
from storewise.run import doctor
from storewise.run.doctor import Finding, examine, examine_engines, host_line, missing_engines
from storewise.run.free_space import MIN_FREE, too_little
from storewise.ssearch.inputs.manifest import build_manifest
from storewise.study.load import load_study

Usage = namedtuple("Usage", "total used free")


class Embedded:
    """A store of one library."""

    slow_levels: ClassVar = {}

    def versions(self, settings):
        return {"library": "1.2", "driver": settings.get("driver", "3")}


class Served(ServerEngine):
    """A store with servers, found where a test says."""

    programs: dict[str, Path]

    def __init__(self):
        pass

    def find(self, settings):
        if "home" in settings:
            raise EngineError(f"no server in {settings['home']}")
        return namedtuple("Found", "programs version")(self.programs, "server 9")

    def versions(self, settings):
        return {"client": "2"}


Served.__abstractmethods__ = frozenset()


@pytest.fixture
def engines(monkeypatch, tmp_path):
    Served.programs = {"server": tmp_path / "bin" / "server", "other": tmp_path / "other"}
    known = {"sqlite": Embedded, "postgres": Served}

    def engine(name):
        if name not in known:
            raise EngineError(f"the driver of {name} is not installed")
        return known[name]()

    monkeypatch.setattr(doctor, "engine", engine)


@pytest.mark.usefixtures("engines")
def test_engines_with_their_settings(tmp_path):
    asked = {"sqlite": {"driver": "4"}, "postgres": {}, "duckdb": {}, "postgress": {}}
    one, two, three, four = examine_engines(asked)
    assert one == Finding("sqlite", "engine", True, "library 1.2, driver 4", "")
    place = str(tmp_path / "bin")
    assert two == Finding("postgres", "engine", True, "server 9, client 2", "", place)
    lacking = "the driver of duckdb is not installed"
    assert three == Finding("duckdb", "engine", False, "", lacking)
    assert (four.runs, four.version) == (False, "")
    assert four.advice.startswith("there is no such engine (did you mean 'postgres'?); known: ")
    assert missing_engines({"sqlite": {}, "duckdb": {}, "postgres": {"home": "/x"}}) == {
        **{"duckdb": lacking, "postgres": "no server in /x"}
    }
    # Of jars, the directory that has them.
    Served.programs = {"lib": tmp_path}
    assert [finding.place for finding in examine(["postgres", "sqlite"])] == [str(tmp_path), ""]


@pytest.mark.usefixtures("engines")
def test_all_engines_and_tools(monkeypatch):
    def version(package):
        if package == "snakemake":
            return "9.27"
        raise PackageNotFoundError(package)

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name == "qsub" else None)
    findings = {finding.name: finding for finding in examine()}
    assert list(findings)[: len(ENGINES)] == list(ENGINES)
    assert findings["qsub"] == Finding("qsub", "tool", True, "/bin/qsub", "")
    assert findings["snakemake"] == Finding("snakemake", "tool", True, "9.27", "")
    assert findings["sbatch"].advice.startswith("not on PATH; needed for profiles/slurm, aws: ")
    assert not findings["sbatch"].runs
    plugin = findings["snakemake-executor-plugin-pbs"]
    assert plugin.advice == "not installed; needed for profiles/pbs: make env"
    for built in (True, False):
        monkeypatch.setattr(doctor, "CORE", built)
        *_, core = examine()
        assert (core.name, core.kind, core.runs) == ("compiled core", "tool", built)
        assert bool(core.version) == built == (not core.advice)
    assert "`make -B env`" in core.advice
    monkeypatch.setattr(platform, "node", lambda: "n1")
    for uid, user in ((0, "root"), (7, "uid 7")):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        line = host_line()
        assert line.startswith("n1, ") and line.endswith(f"{platform.python_version()}, {user}")


@pytest.mark.parametrize(
    ("engines", "more", "stores"),
    [
        ("[sqlite]", "", 1.0),
        ("[sqlite]", "factors: {volume: [0.5, 0.25]}\n", 0.5),
        ("[files, 'null', postgres]", "", 0.0),
        ("[postgres, duckdb]", "", 1.0),
    ],
)
def test_a_run_needs_room_for_its_largest_store(engines, more, stores, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = f"inputs: {{paths: {SMALL[0]}}}\n"
    Path("s.yaml").write_text(f"{inputs}engines: {engines}\n{more}phases: [write]\n")
    study, results = load_study("s.yaml"), Path("results/s")
    free = [MIN_FREE]
    usage = mock.Mock(side_effect=lambda place: Usage(0, 0, free[0]))
    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert too_little(study, results) is None, "nothing is known of the inputs yet"
    usage.assert_called_with(tmp_path)
    (results / "inputs").mkdir(parents=True)
    build_manifest([str(SMALL[0])], results / "inputs" / "manifest.parquet")
    free[0] = MIN_FREE + int(SMALL[0].stat().st_size * stores)
    assert too_little(study, results) is None
    usage.assert_called_with(results)
    free[0] -= 1
    words = too_little(study, results)
    assert words.startswith(f"there is not enough space: {results.absolute()} has 256 MiB free")
    assert "Make room there, or run in another directory" in words
    monkeypatch.setattr(os, "access", lambda place, mode: mode != os.W_OK)
    assert too_little(study, results) is None, "that is said when something is written"
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "disk_usage", lambda place: Usage(0, 0, MIN_FREE))
    (tmp_path / "y.yaml").write_text("workload: ycsb\nengines: [sqlite]\nphases: [load]\n")
    ycsb = load_study(tmp_path / "y.yaml")
    assert too_little(ycsb, tmp_path / "y") is None, "a workload without inputs has no known size"
