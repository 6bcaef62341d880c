"""MariaDB and MySQL: what is started and sent (pure), and what real servers make of it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_samples import sample
from hypothesis import given
from hypothesis import strategies as st
from server_stores import Clusters, Target, available

from storewise.documents import Field, Kind
from storewise.engines.base import Client, Endpoint, Schema
from storewise.engines.mysql import MysqlEngine, option_file, pool_mb, server_version
from storewise.engines.mysqllink import sign_in
from storewise.engines.mysqlrows import load_text, value_lists
from storewise.engines.server import Credentials, Installation, Node, Topology
from storewise.errors import EngineError
from storewise.session.local import running
from storewise.session.server import Server, start_server

ENGINE = MysqlEngine()
MARIADB = Installation(
    {"mariadbd": Path("/x/mariadbd"), "mariadb-install-db": Path("/x/mariadb-install-db")},
    "MariaDB 10.11.6",
)
MYSQL = Installation({"mariadbd": Path("/x/mysqld")}, "MySQL 8.4.6")


def node(
    installation: Installation = MARIADB, *, consistency: str = "durable", **settings: Any
) -> Node:
    topology = Topology(memory_mb=2048)
    return Node(
        spec=ENGINE.roles(topology, settings)[0],
        topology=topology,
        settings=settings,
        consistency=consistency,
        session="s-1",
        directory=Path("/long/" + "d" * 120 + "/data0"),
        address="10.0.0.7",
        port=33999,
        installation=installation,
        credentials=Credentials.make(),
    )


def options(text: str) -> dict[str, str]:
    head, *lines = text.splitlines()
    assert head == "[mysqld]"
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
            ("MariaDB", (10, 11, 19)),
        ),
        ("/opt/mysql 5.7/bin/mysqld  Ver 8.4.6 for Linux on x86_64 (MySQL Community Server - GPL)",
         ("MySQL", (8, 4, 6))),
        ("MariaDB 10.11.6", ("MariaDB", (10, 11, 6))),
        ("MySQL 9.7.4", ("MySQL", (9, 7, 4))),
    ],
)  # fmt: skip
def test_a_server_says_which_it_is(text: str, expected: tuple[str, tuple[int, ...]]) -> None:
    assert server_version(text) == expected


def test_other_programs_are_no_server() -> None:
    with pytest.raises(EngineError, match="hello"):
        server_version("hello 1.2")


@pytest.mark.parametrize("installation", [MARIADB, MYSQL], ids=["mariadb", "mysql"])
def test_a_launch_hides_its_secrets_and_listens_on_one_address(installation: Installation) -> None:
    asked = node(installation)
    launch = ENGINE.launch(asked)
    words = [*launch.command, *(word for step in launch.steps for word in step)]
    words += [*launch.environment.values(), launch.files["my.cnf"]]
    assert not any(asked.credentials.password in word for word in words)
    secret = [name for name, text in launch.files.items() if asked.credentials.password in text]
    assert secret == list(launch.remove_when_ready) == ["init.sql"]
    # The server can be started again when the secrets have been removed.
    assert not any("init.sql" in word for word in launch.command)
    assert launch.refuses_root
    found = options(launch.files["my.cnf"])
    assert (found["bind-address"], found["port"]) == ("10.0.0.7", "33999")
    assert len(found["socket"]) < 107
    assert found["innodb-buffer-pool-size"] == "1024M"
    if installation is MYSQL:
        assert found["loose-mysqlx"] == "OFF"
        assert "--initialize-insecure" in launch.steps[0]
    else:
        assert launch.steps[0][0] == "/x/mariadb-install-db"


@pytest.mark.parametrize(
    ("level", "commit", "doublewrite"),
    [("durable", "1", "ON"), ("relaxed", "2", "ON"), ("unsafe", "0", "OFF")],
)
def test_levels(level: str, commit: str, doublewrite: str) -> None:
    found = options(option_file(node(consistency=level)))
    assert found["innodb-flush-log-at-trx-commit"] == commit
    assert found["innodb-doublewrite"] == doublewrite


def test_options_that_shape_files_are_known_from_the_beginning() -> None:
    config = {"innodb_page_size": "32k", "innodb_io_capacity": 5000}
    launch = ENGINE.launch(node(config=config))
    assert {"innodb-page-size", "innodb-io-capacity"} <= options(launch.files["my.cnf"]).keys()
    first = options(launch.files["init.cnf"])
    assert "innodb-page-size" in first and "innodb-io-capacity" not in first


def test_options_of_a_study() -> None:
    found = options(
        option_file(node(config={"innodb_io_capacity": 5000, "innodb_adaptive_hash_index": False}))
    )
    assert found["innodb-io-capacity"] == "5000"
    assert found["innodb-adaptive-hash-index"] == "OFF"
    # The study's word counts, written once.
    text = option_file(node(config={"max_connections": 50}))
    assert text.count("max-connections") == 1
    assert options(text)["max-connections"] == "50"


@pytest.mark.parametrize(
    "config",
    [
        {"bind_address": "0.0.0.0"},
        {"skip-grant-tables": True},
        {"loose_port": 3306},
        {"init_file": "/tmp/x"},
        {"general_log": True},
        {"a b": 1},
        {"sort_buffer_size": "1M\nskip-grant-tables"},
    ],
)
def test_options_that_a_study_cannot_have(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="config"):
        MysqlEngine.Settings.model_validate({"config": config})


@given(st.integers(256, 1 << 20))
def test_the_pool_is_about_half_of_the_memory(memory: int) -> None:
    assert 0.44 * memory <= pool_mb(memory) <= 0.6 * memory


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        (Topology(nodes=0), "nodes"),
        (Topology(replicas=2), "replicas"),
        (Topology(routers=1), "routers"),
        (Topology(memory_mb=64), "node_memory_mb = 64"),
    ],
)
def test_shapes_that_it_cannot_have(topology: Topology, words: str) -> None:
    with pytest.raises(EngineError, match=words):
        ENGINE.roles(topology, {})


def test_the_nodes_of_a_cluster() -> None:
    specs = ENGINE.roles(Topology(nodes=3, threads=2, memory_mb=512), {})
    assert [(s.name, s.threads, s.memory_mb) for s in specs] == [
        ("data0", 2, 512), ("data1", 2, 512), ("data2", 2, 512)
    ]  # fmt: skip


def _program(directory: Path, name: str, words: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{words}'\n")
    path.chmod(0o755)


def test_an_installation_is_found_and_judged(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no mariadbd or mysqld.*STOREWISE_MARIADB_BIN"):
        ENGINE.find({"home": str(tmp_path)})
    _program(tmp_path, "mysqld", "mysqld  Ver 8.4.6 for Linux on x86_64")
    assert ENGINE.find({"home": str(tmp_path)}).version == "MySQL 8.4.6"
    # MariaDB's server comes first, and needs its script.
    _program(tmp_path, "mariadbd", "mariadbd  Ver 10.6.2-MariaDB for Linux on x86_64")
    with pytest.raises(EngineError, match="no mariadb-install-db or mysql_install_db"):
        ENGINE.find({"home": str(tmp_path)})
    _program(tmp_path, "mysql_install_db", "")
    found = ENGINE.find({"home": str(tmp_path)})
    assert found.version == "MariaDB 10.6.2"
    assert found.programs["mariadb-install-db"] == tmp_path / "mysql_install_db"


@pytest.mark.parametrize(
    "words", ["mysqld  Ver 5.7.44 for Linux", "mysqld  Ver 10.3.39-MariaDB for Linux"]
)
def test_an_old_server_is_refused(tmp_path: Path, words: str) -> None:
    _program(tmp_path, "mysqld", words)
    with pytest.raises(EngineError, match="or newer is needed"):
        ENGINE.find({"home": str(tmp_path)})


def test_the_variable_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path, "mysqld", "mysqld  Ver 9.1.0 for Linux on x86_64")
    monkeypatch.setenv("STOREWISE_MARIADB_BIN", str(tmp_path))
    assert ENGINE.find({}).programs == {"mariadbd": tmp_path / "mysqld"}


COLUMNS = (
    Field("_id", "id", ""), Field("n", "int", ""), Field("x", "float", ""), Field("s", "str", "")
)  # fmt: skip
GOOD = (b"\0" * 12, 1, 0.5, "a")


def test_the_text_of_load_data() -> None:
    rows = [GOOD, (b"\xff" * 12, None, None, None), (b"\t" * 12, -3, 1e-300, "\t\n\\N\r\0'\"é😀")]
    assert load_text("rna", COLUMNS, rows).decode().split("\n") == [
        "0" * 24 + "\t1\t0.5\ta",
        "f" * 24 + "\t\\N\t\\N\t\\N",
        "09" * 12 + "\t-3\t1e-300\t\\t\\n\\\\N\\r\\0'\"é😀",
        "",
    ]


def test_the_values_of_a_statement() -> None:
    rows = [GOOD, (b"\xff" * 12, None, None, "it's \\ \n\"é")]
    assert value_lists("rna", COLUMNS, rows).decode() == (
        "(x'" + "0" * 24 + "',1,0.5,'a'),"
        "(x'" + "f" * 24 + "',NULL,NULL,'it\\'s \\\\ \\n\"é')"
    )  # fmt: skip


@pytest.mark.parametrize("write", [load_text, value_lists])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, None), (0, b"short"), (0, b"x" * 13), (0, "x" * 12),
        (1, 1.5), (1, "1"), (1, True),
        (2, float("nan")), (2, float("-inf")), (2, 10**400), (2, "1"),
        (3, 1), (3, b"a"), (3, "\ud800"), (3, "\udc80"),
    ],
)  # fmt: skip
def test_values_that_a_column_cannot_hold(write: Any, column: int, value: object) -> None:
    bad = (*GOOD[:column], value, *GOOD[column + 1 :])
    with pytest.raises(EngineError, match="rna"):
        write("rna", COLUMNS, [GOOD, bad])


@pytest.fixture(params=["load_data", "insert"])
def writer(request: pytest.FixtureRequest, clusters: Clusters) -> Iterator[Client]:
    cluster = clusters.fresh(Target("mariadb", 1))
    cluster = replace(cluster, settings={**cluster.settings, "bulk": request.param})
    with closing(ENGINE.connect(cluster, "write")) as client:
        client.create(Schema())
        yield client


NASTY = "tab\t newline\n return\r back\\slash \\N \\0 'one' \"two\" nul\0 end\x1a %s é✓😀 "


def test_texts_with_the_signs_of_the_format_come_back(writer: Client) -> None:
    documents = [
        {**document, "s": text, "seqid": text[::-1]}
        for document, text in zip(
            sample(1, 6)[Kind.GS], [NASTY, "", " ", "\\N", "NULL", NASTY * 5000], strict=True
        )
    ]
    documents[0]["b"] = None
    writer.insert(Kind.GS, documents)
    assert writer.get_many(Kind.GS, [d["_id"] for d in documents]) == documents


def test_blanks_and_cases_are_told_apart(writer: Client) -> None:
    documents = sample(1, 5)[Kind.ALIGN]
    for document, gene in zip(documents, ["a", "a ", "A", "á", "a "], strict=True):
        document["gene"] = gene
    writer.insert(Kind.ALIGN, documents)
    assert writer.aggregate(Kind.ALIGN, "gene", 9) == [("a ", 2), ("A", 1), ("a", 1), ("á", 1)]
    assert len(writer.range(Kind.ALIGN, "gene", "a", "a")) == 1


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1, 1.5, "1", True])
def test_what_does_not_fit_is_refused_and_nothing_stays(writer: Client, value: object) -> None:
    good, bad = sample(1, 2)[Kind.RNA]
    bad["b"] = value
    with pytest.raises(EngineError, match=r"mariadb|cannot hold"):
        writer.insert(Kind.RNA, [good, bad])
    assert writer.count(Kind.RNA) == 0
    writer.insert(Kind.RNA, [good])
    with pytest.raises(EngineError):
        writer.update(Kind.RNA, good["_id"], {"b": value})
    assert writer.get(Kind.RNA, good["_id"]) == good


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[Node, Path, int]]:
    settings = available("mariadb")
    asked = replace(
        node(ENGINE.find(settings)), address="127.0.0.1", directory=tmp_path / "it is #1" / "data0"
    )
    server = start_server(ENGINE, asked, tmp_path / "log", lambda: None)
    try:
        yield server.node, tmp_path, server.pid
    finally:
        server.stop()


def test_a_password_is_nowhere_to_be_read(
    started: tuple[Node, Path, int],
) -> None:
    asked, place, pid = started
    password = asked.credentials.password.encode()
    for path in place.rglob("*"):
        if path.is_file():
            assert password not in path.read_bytes(), path
    seen = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    assert b"my.cnf" in seen and password not in seen


def test_only_the_user_of_the_session_comes_in(
    started: tuple[Node, Path, int],
) -> None:
    asked, _, _ = started
    endpoint = Endpoint("data", 0, "here", asked.address, asked.port)
    assert ENGINE.answers(endpoint, asked.credentials)
    for user, password in [("storewise", "x"), ("storewise", ""), ("root", ""), ("", "")]:
        with pytest.raises(EngineError, match=rf"127\.0\.0\.1:{asked.port}.*denied"):
            ENGINE.answers(endpoint, replace(asked.credentials, user=user, password=password))
    link = sign_in(asked.address, asked.port, asked.credentials)
    with closing(link), link.cursor() as cursor:
        cursor.execute("SHOW GRANTS")
        granted = " ".join(str(row[0]) for row in cursor.fetchall())
    assert "PROCESS ON *.*" in granted and "ALL PRIVILEGES ON *.*" not in granted


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    settings = available("mariadb")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        asked = replace(
            node(ENGINE.find(settings)),
            address="127.0.0.1",
            port=taken.getsockname()[1],
            directory=tmp_path / "data0",
        )
        with Server(ENGINE, asked, tmp_path / "log") as server:
            server.start(lambda: None)
            with pytest.raises(EngineError, match=r"(?i)address already in use"):
                server.wait_ready(lambda: None)


def test_an_option_that_the_server_does_not_know_is_named(tmp_path: Path) -> None:
    settings = {**available("mariadb"), "config": {"innodb_no_such_thing": 1}}
    shape = Topology(memory_mb=256)
    with (
        pytest.raises(EngineError, match=r"innodb[-_]no[-_]such[-_]thing"),
        running("mariadb", tmp_path, shape, settings),
    ):
        pytest.fail("the server has started")
