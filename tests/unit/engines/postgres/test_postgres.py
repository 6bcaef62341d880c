"""PostgreSQL: what is started, and settings that cannot be."""

from pathlib import Path

from support.servers.nodes import make_node

from storewise.engines.contract.server import Installation, Topology
from storewise.engines.postgres.engine import PostgresEngine

ENGINE = PostgresEngine()


def node(memory_mb=2048, **settings):
    return make_node(
        ENGINE,
        topology=Topology(threads=4, memory_mb=memory_mb),
        settings=settings,
        directory=Path("/it's/" + "d" * 120 + "/data0"),
        installation=Installation(
            {"postgres": Path("/x/postgres"), "initdb": Path("/x/initdb")}, "postgres 15"
        ),
    )


def settings_of(text):
    return dict(line.split(" = ", 1) for line in text.splitlines())


def test_a_launch_hides_its_password_and_listens_on_one_address():
    request = node()
    launch = ENGINE.launch(request)
    words = [*launch.command, *(word for step in launch.steps for word in step)]
    assert not any(request.credentials.password in word for word in words)
    secret = [name for name, text in launch.files.items() if request.credentials.password in text]
    assert secret == list(launch.remove_when_ready) == ["password"]
    assert launch.refuses_root
    values = settings_of(launch.files["postgresql.conf"])
    assert values["listen_addresses"] == "'10.0.0.7'" and values["port"] == "31000"
    assert values["unix_socket_directories"] == "''"
    assert values["data_directory"].startswith("'/it''s/")
    access = [x for x in launch.files["pg_hba.conf"].splitlines() if not x.startswith("#")]
    assert access == ["host all all all scram-sha-256"]


def test_sizes_follow_the_node():
    values = settings_of(ENGINE.launch(node(memory_mb=8192)).files["postgresql.conf"])
    assert values["shared_buffers"] == "'2048MB'"
    assert values["max_parallel_workers"] == "3"
    settings = settings_of(
        ENGINE.launch(node(config={"Work_Mem": "64MB"})).files["postgresql.conf"]
    )
    assert settings["work_mem"] == "'64MB'"
