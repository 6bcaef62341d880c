"""What the workflow refuses before anything starts, by Snakemake in this process; what the study
file alone tells is refused in tests/unit/study."""

import pytest
from support.embedded_study import NOWHERE, POSTGRES
from support.inputs.small_studies import GOOD, OF_SERVERS
from support.workflow import refusal, snakemake
from support.workspace import Workspace


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
    ],
)
def test_what_is_refused(place, study, arguments, says):
    place.write_study(study)
    said = refusal(place, *arguments, env={POSTGRES: NOWHERE} if "leave_out" in study else None)
    for words in says:
        assert words in said
    assert not list(place.results.glob("trials/*"))


def test_the_rules_pass_snakemake_s_own_lint(place):
    place.write_study(GOOD)
    done = snakemake(place.command("--lint"), place.directory)
    assert done.returncode == 0 and "good condition" in done.stdout + done.stderr


def test_inputs_may_be_gone_once_they_are_listed(tmp_path):
    """Then Snakemake decides what is still needed; the check of paths is for the first run."""
    place = Workspace(tmp_path)
    place.write_study(GOOD)
    listing = place.results / "inputs" / "files.txt"
    listing.parent.mkdir(parents=True)
    listing.write_text("data/gone.m10\n")
    done = place.storewise("run", "s.yaml", "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("1 trial, about "), done.stdout
    assert not (place.results / "logs").exists(), "a plan leaves nothing"
