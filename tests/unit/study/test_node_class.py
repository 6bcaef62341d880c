"""The factor `node_class`: vertical scaling as classes of hosts that only the profile knows."""

from pathlib import Path

from storewise.analysis.common.text import setting
from storewise.analysis.files.parts import Part, mixed
from storewise.study.load import load_study

STUDY = """\
inputs: {{paths: data}}
engines: {engines}
factors: {{node_class: {levels}}}
phases: [write, read: {{operations: 10}}]
"""


def study(path, engines="[postgres]", levels="[data, large]"):
    (path / "s.yaml").write_text(STUDY.format(engines=engines, levels=levels))
    return load_study(path / "s.yaml")


def test_only_engines_with_servers_have_it_and_other_trials_keep_their_ids(tmp_path):
    trials = study(tmp_path, "[sqlite, postgres]").trials()
    result = {(t.engine, t.factors.get("node_class"), t.node_class) for t in trials}
    assert result == {
        ("sqlite", None, "data"),
        ("postgres", "data", "data"),
        ("postgres", "large", "large"),
    }
    # Neither an id nor what a rule's stored parameters say changes where a study does not ask.
    text = (tmp_path / "s.yaml").read_text()
    (tmp_path / "s.yaml").write_text(text.replace("node_class: [data, large]", "nodes: [1]"))
    (plain,) = [t for t in load_study(tmp_path / "s.yaml").trials() if t.engine == "postgres"]
    assert plain.node_class == "data" and "node_class" not in str(plain.model_dump())


def test_only_hosts_of_one_class_should_be_alike():
    def node(processor, **factors):
        message = {"host": {"name": "n", "processor": processor}, "factors": factors}
        return Part(Path(), "node.data0.parquet", "t", "session", None, message, "data0")

    def hosts(*parts):
        return [w.message for w in mixed(parts) if w.code == "mixed_hosts"]

    small, big = node("small", node_class="data"), node("big", node_class="large")
    assert hosts(small, big) == []
    (output,) = hosts(small, big, node("other", node_class="large"))
    assert output.startswith("nodes of class large ran on different kinds of hosts: big")
    assert hosts(node("small"), node("big")), "without the factor all nodes are compared"


def test_a_level_in_words():
    assert setting({"node_class": "large"}, ["node_class"]) == "hosts of class large"
