"""Studies of servers: their factors, the nodes of a trial."""

from support.inputs.small_studies import OF_SERVERS

from storewise.study.load import load_study
from storewise.study.trial import node_jobs


def study(tmp_path, text=OF_SERVERS):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    return load_study(path)


def test_factors_of_servers_do_not_multiply_embedded_trials(tmp_path):
    trials = study(tmp_path).trials()
    assert sorted((t.engine, t.nodes) for t in trials) == [
        ("mongodb", 1),
        ("mongodb", 2),
        ("postgres", 1),
        ("postgres", 2),
        ("sqlite", 1),
    ]
    plain = study(tmp_path, OF_SERVERS.replace("factors: {nodes: [1, 2]}\n", "")).trials()
    assert {t.id for t in plain if t.engine == "sqlite"} <= {t.id for t in trials}
    assert all("nodes" not in t.factors for t in trials if t.engine == "sqlite")


def test_the_nodes_of_a_trial(tmp_path):
    result = {(t.engine, t.nodes): [s.name for s in node_jobs(t)] for t in study(tmp_path).trials()}
    assert result["sqlite", 1] == []
    assert result["postgres", 2] == ["data0", "data1"]
    assert result["mongodb", 1] == ["data0"]
    # Routers live on the worker hosts unless the study says otherwise.
    assert result["mongodb", 2] == ["config0", "data0", "data1"]
    text = OF_SERVERS.replace("[sqlite, postgres, mongodb]", "[mongodb]")
    text = text.replace(
        "{nodes: [1, 2]}", "{nodes: 2, routers: 2, replicas: 3, node_memory_mb: 512}"
    )
    (trial,) = study(tmp_path, text).trials()
    names = [s.name for s in node_jobs(trial)]
    assert names.count("router1") == 1 and len(names) == 1 + 2 * 3 + 2
    assert {s.memory_mb for s in node_jobs(trial) if s.role == "data"} == {512}
