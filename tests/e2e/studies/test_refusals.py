"""What the workflow refuses before anything starts, by Snakemake in this process; what the study
file alone tells is refused in tests/unit/study."""

import subprocess
import sys

import pytest
from support.embedded_study import NOWHERE, POSTGRES
from support.inputs.small_studies import BOMB, GOOD, OF_SERVERS
from support.paths import ROOT
from support.workflow import refusal
from support.workspace import Workspace

from storewise.run.runner import slots_needed
from storewise.study.load import load_study


@pytest.fixture
def place(tmp_path):
    place = Workspace(tmp_path)
    place.copy_inputs()
    return place


def servers(shape, more=""):
    text = OF_SERVERS.replace("nodes: [1, 2]", shape).replace(", mongodb", "")
    assert shape in text
    return text + more


OF_CLASSES = servers("node_class: [data, large]")


@pytest.mark.parametrize(
    ("study", "arguments", "says"),
    [
        pytest.param(
            GOOD + "factors: {workers: [2, 9]}\n",
            ["--cores", "2"],
            ["9 workers that run together", "use --cores 5 or more"],
            id="workers",
        ),
        pytest.param(
            servers("nodes: 9, workers: 2"),
            ["--cores", "2"],
            [
                "has 9 nodes and 2 workers that run together, but only 6 jobs can run at once",
                "use --cores 7 or more",
            ],
            id="nodes and workers",
        ),
        # One of them would fit, but two would each hold what the other one waits for.
        pytest.param(
            servers("nodes: 2, workers: 2", "live_sessions: 2\nrepeats: 2\n"),
            ["--cores", "2"],
            [
                "(8 jobs with those of 1 more, by `live_sessions`), but only 6 jobs can run",
                "use --cores 4 or more",
            ],
            id="sessions that are live at once",
        ),
        pytest.param(
            OF_CLASSES,
            [],
            [
                "is not one of the profile's; known in its resource node_classes: none",
                "docs/clusters.md",
            ],
            id="no class of hosts is known",
        ),
        pytest.param(
            OF_CLASSES,
            ["--set-resources", "node:node_classes='data=a, lagre=b/i4i.large'"],
            ["node class 'large' is not one of the profile's (did you mean 'lagre'?)"],
            id="a class that the profile does not know",
        ),
        pytest.param(
            OF_CLASSES,
            ["-n", "--set-resources", "node:node_classes='data'"],
            ["node_classes of the profile: 'data': cannot be read"],
            id="classes that cannot be read",
        ),
        pytest.param(
            GOOD.replace("paths: data", "search: {queries: data, libraries: [missing.fa]}"),
            [],
            ["missing.fa"],
            id="a library that is not there",
        ),
        pytest.param(
            "workload: ycsb\nengines: [postgres]\nif_missing: leave_out\n"
            "phases: [load: {recordcount: 9}, c: {operations: 9}]\n",
            ["-n"],
            ["no engine of it can run on this host"],
            id="no engine",
        ),
        # Its door of `storewise run` is in tests/unit/cli. A run of a phase that no workload has
        # ends before anything is planned.
        pytest.param(
            GOOD.replace("- read", "- reed") + "exclude:\n" + "- {workers: 9}\n" * 201,
            ["-n"],
            ["201 rules"],
            id="many",
        ),
        pytest.param(
            GOOD.replace("- read", "- reed") + "exclude:\n" + "- {workers: 9}\n" * 201,
            ["-n", "--config", "study=s.yaml", "many=true"],
            ["no phase 'reed'"],
            id="many is asked for by name",
        ),
    ],
)
def test_what_is_refused(place, study, arguments, says):
    place.write_study(study)
    said = refusal(place, *arguments, env={POSTGRES: NOWHERE} if "leave_out" in study else None)
    for words in says:
        assert words in said
    assert not list(place.results.glob("trials/*"))


def test_the_slots_that_are_advised_are_those_that_storewise_run_takes(tmp_path):
    (tmp_path / "s.yaml").write_text(
        servers("nodes: 2, workers: 2", "live_sessions: 2\nrepeats: 2\n")
    )
    assert slots_needed(load_study(tmp_path / "s.yaml")) >= 4


def test_a_bomb_takes_little_memory(tmp_path):
    """In a process that has 500 MB of memory for what its files say, and no more."""
    (tmp_path / "s.yaml").write_text(BOMB + GOOD)
    code = (
        "import sys; from pathlib import Path; from storewise.study.load import load_study\n"
        "import resource; used = int(Path('/proc/self/statm').read_text().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 500_000_000,) * 2)\n"
        # Not getrusage: its peak memory includes that of the parent process before the fork.
        "import atexit; peak = lambda: Path('/proc/self/status').read_text().split('VmHWM:')[1]\n"
        "atexit.register(lambda: print(peak().split()[0]))\n"
        "load_study('s.yaml', root=Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(ROOT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith("storewise.errors.ConfigError: s.yaml, line 5")
    assert 0 < int(done.stdout) < 500_000
