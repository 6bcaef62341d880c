"""What a study can say of a store stays in its place: no program, no door, no other file."""

import pytest
from pydantic import ValidationError

from storewise.engines.registry import engine
from storewise.errors import ConfigError
from storewise.study.inputs import Search
from storewise.study.load import load_study

#: Options by store that run a program, load code, name a file elsewhere, let others in or override
#: what the session sets.
CONFIG = {
    "postgres": [
        {"archive_command": "touch /tmp/x"},
        {"Restore_Command": "touch /tmp/x"},
        {"ssl_passphrase_command": "touch /tmp/x"},
        {"archive_library": "/tmp/x.so"},
        {"shared_preload_libraries": "/tmp/x"},
        {"session_preload_libraries": "pg_stat_statements, ../x"},
        {"dynamic_library_path": "/tmp"},
        {"jit_provider": "/tmp/x"},
        {"external_pid_file": "/tmp/x"},
        {"unix_socket_permissions": "0777"},
        {"log_directory": "/tmp"},
        {"primary_conninfo": "host=elsewhere"},
    ],
    "mariadb": [
        {"bind_addr": "0.0.0.0"},
        {"enable_loose_bind_address": "0.0.0.0"},
        {"skip-grant": True},
        {"extra_port": 4000},
        {"wsrep_notify_cmd": "touch /tmp/x"},
        {"wsrep_provider": "/tmp/x.so"},
        {"plugin_dir": "/tmp"},
        {"init_connect": "DROP DATABASE storewise"},
        {"general_log_file": "/tmp/x"},
        {"mysqlx_port": 4000},
        {"admin_address": "0.0.0.0"},
        {"ssl_ca": "/tmp/x"},
    ],
    "mongodb": [
        {"net": "x"},
        {"net": {"tls": {"mode": "disabled"}}},
        {"net.ipv6": True},
        {"security": ""},
        {"systemLog.path": "/tmp/x"},
        {"setParameter": {"authenticationMechanisms": "PLAIN"}},
        {"setParameter": {"enableTestCommands": True}},
        {"storage": {"journal": {"__exec": "touch /tmp/x"}}},
        {"auditLog.destination": "file"},
    ],
    "cassandra": [
        {"jmx_server_options": {"enabled": True, "remote": True}},
        {"audit_logging_options": {"archive_command": "touch /tmp/x"}},
        {"full_query_logging_options": {"archive_command": "touch /tmp/x"}},
        {"allow_nodetool_archive_command": True},
        {"network_authorizer": "AllowAllNetworkAuthorizer"},
        {"internode_authenticator": "x"},
        {"enable_user_defined_functions": True},
        {"heap_dump_path": "/tmp/x"},
    ],
    "hbase": [
        {"hbase.zookeeper.property.admin.enableServer": True},
        {"hbase.coprocessor.region.classes": "x"},
        {"hbase.dynamic.jars.dir": "/tmp"},
        {"hbase.security.authentication": "simple"},
        {"hbase.superuser": "other"},
        {"hbase.rest.port": 8080},
    ],
    "riak": [
        {"search": "on"},
        {"jmx": "on"},
        {"riak_control": "on"},
        {"include /tmp/x": "y"},
        {"ssl.certfile": "/tmp/x"},
    ],
    "valkey": [
        {"bind": "0.0.0.0"},
        {"requirepass": "x"},
        {"aclfile": "/tmp/x"},
        {"include": "/tmp/x"},
        {"loadmodule": "/tmp/x.so"},
        {"enable-module-command": "yes"},
        {"enable-debug-command": "yes"},
        {"cluster-announce-ip": "10.0.0.1"},
        {"tls-port": 6380},
        {"rdma-port": 6381},
        {"unixsocket": "/tmp/x"},
        {"replicaof": "10.0.0.1 6379"},
        {"dbfilename": "x"},
        {"maxmemory-policy": "allkeys-lru"},
        {"PORT": 1},
        {"hz": "10\nbind 0.0.0.0"},
    ],
}
#: What stays possible.
TAKEN = {
    "postgres": {
        "shared_preload_libraries": "pg_stat_statements, auto_explain",
        "auto_explain.log_min_duration": 0,
        "wal_compression": True,
        "log_min_messages": "warning",
    },
    "mariadb": {"innodb_io_capacity": 2000, "skip-innodb-adaptive-hash-index": True},
    "mongodb": {"replication": {"oplogSizeMB": 990}, "setParameter": {"logLevel": 1}},
    "cassandra": {"concurrent_writes": 64, "internode_compression": "all"},
    "hbase": {"hbase.hregion.max.filesize": 7, "hbase.regionserver.handler.count": 9},
    "riak": {"leveldb.threads": 31, "erlang.async_threads": 8},
    "valkey": {"activedefrag": True, "hz": 50, "client-output-buffer-limit": "normal 0 0 0"},
}
REFUSED = [(name, config) for name, found in CONFIG.items() for config in found]


@pytest.mark.parametrize(("name", "config"), REFUSED, ids=[f"{n} {c}"[:60] for n, c in REFUSED])
def test_a_config_opens_and_runs_nothing(name, config):
    with pytest.raises(ValidationError, match=next(iter(config)).split(".")[0]):
        engine(name).Settings.model_validate({"config": config})


@pytest.mark.parametrize("name", TAKEN)
def test_a_config_still_tunes(name):
    engine(name).Settings.model_validate({"config": TAKEN[name]})


@pytest.mark.parametrize(
    "option",
    [
        "-XX:OnOutOfMemoryError=touch /tmp/x",
        "-XX:OnError=touch /tmp/x",
        "-XX:Flags=/tmp/x",
        "-XX:VMOptionsFile=/tmp/x",
        "-XX:+ManagementServer",
        "-javaagent:/tmp/x.jar",
        "-agentpath:/tmp/x.so",
        "-Xbootclasspath/a:/tmp/x.jar",
        "-cp",
        "-Dcassandra.config=file:///tmp/x",
        "-Dcassandra.settings.authenticator=AllowAllAuthenticator",
        "-Dhbase.rpc.server.impl=x",
        "-Djava.security.manager=x",
    ],
)
def test_an_option_of_java_runs_nothing(option):
    for name in ("cassandra", "hbase"):
        with pytest.raises(ValidationError, match="jvm_options"):
            engine(name).Settings.model_validate({"jvm_options": [option]})


@pytest.mark.parametrize("name", TAKEN)
def test_a_module_is_a_name(name):
    settings = engine(name).Settings
    assert settings.model_validate({"module": "db/postgresql/16.2-gcc+x"}).module
    for module in ("/tmp/x", "../x", "--help", "a; touch /tmp/x", "a b", "$(id)", "a\nb"):
        with pytest.raises(ValidationError, match="module"):
            settings.model_validate({"module": module})


@pytest.mark.parametrize(
    "option", ["-V !touch /tmp/x", "-e", "-e/tmp/x", "-O/tmp/x", "-V=!x", "!touch /tmp/x"]
)
def test_an_option_of_a_search_runs_nothing(option):
    search = {"queries": ["q.fa"], "libraries": ["l.fa"]}
    with pytest.raises(ValidationError, match="options"):
        Search.model_validate({**search, "options": ["-m", "10", option]})
    with pytest.raises(ValidationError, match="libraries"):
        Search.model_validate({**search, "libraries": ["!touch /tmp/x"]})


@pytest.mark.parametrize(
    "name", ["...yaml", "a{b}.yaml", "a'b.yaml", "a;b.yaml", "$(id).yaml", "a\nb.yaml", "-n.yaml"]
)
def test_a_study_has_a_name_for_a_directory(name, tmp_path):
    text = "inputs: {paths: data}\nengines: [sqlite]\nphases: [write]\n"
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match="rename the file"):
        load_study(tmp_path / name)
    (tmp_path / "Größe 2.1_b-c.yaml").write_text(text)
    assert load_study(tmp_path / "Größe 2.1_b-c.yaml").name == "Größe 2.1_b-c"
