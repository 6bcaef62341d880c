"""Studies of servers: their factors, what is refused when one is read, and what a host can run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import storewise
from support.inputs.small_studies import OF_SERVERS
from support.workspace import Workspace

from storewise.engines.registry import ENGINES
from storewise.run.doctor import examine
from storewise.run.runner import slots_needed
from storewise.study.load import load_study


def test_the_doctor_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("POSTGRES", "MARIADB", "MONGODB"):
        monkeypatch.setenv(f"STOREWISE_{name}_BIN", str(tmp_path))
    result = {f.name: f for f in examine()}
    assert set(ENGINES) < set(result)
    for name in ("postgres", "mariadb", "mongodb"):
        assert not result[name].runs
        assert str(tmp_path) in result[name].advice, result[name].advice
        assert ";" in result[name].advice, "what to do stands behind the reason"
    assert result["sqlite"].runs and result["sqlite"].version
    assert result["snakemake-executor-plugin-slurm"].runs
    done = storewise("doctor", "postgres")
    assert done.returncode == 1 and "no " in done.stdout
    done = storewise("doctor", "--json")
    assert done.returncode == 0
    assert {json.loads(line)["name"] for line in done.stdout.splitlines()} == set(result)


def test_more_nodes_and_workers_than_can_run_at_once_are_refused(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    place.copy_inputs()
    place.write_study(
        OF_SERVERS.replace("nodes: [1, 2]", "nodes: 9, workers: 2").replace(", mongodb", "")
    )
    done = place.snakemake("--cores", "2", timeout=100)
    assert done.returncode != 0
    text = " ".join(done.stderr.split())
    assert "has 9 nodes and 2 workers that run together, but only 6 jobs can run at once" in text
    assert "use --cores 7 or more" in text
    assert place.left_behind() == []


def test_sessions_that_are_live_at_once_must_fit_together(tmp_path: Path) -> None:
    """One of them would fit, but two would each hold what the other one waits for."""
    place = Workspace(tmp_path)
    place.copy_inputs()
    text = OF_SERVERS.replace("nodes: [1, 2]", "nodes: 2, workers: 2").replace(", mongodb", "")
    place.write_study(text + "live_sessions: 2\nrepeats: 2\n")
    done = place.snakemake("--cores", "2", timeout=100)
    assert done.returncode != 0
    text = " ".join(done.stderr.split())
    assert "(8 jobs with those of 1 more, by `live_sessions`), but only 6 jobs can run" in text
    assert "use --cores 4 or more" in text
    assert slots_needed(load_study(str(tmp_path / "s.yaml"))) >= 4
    assert place.left_behind() == []
