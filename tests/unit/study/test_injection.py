"""What a study can say of a store stays in its place: no program, no door, no other file."""

import pytest
from pydantic import ValidationError

from storewise.engines.registry import engine
from storewise.errors import ConfigError
from storewise.study.inputs import Search
from storewise.study.load import load_study

#: Options by store that run a program, load code, name a file elsewhere, let others in or override
#: what the session sets; most are refused by their name, whatever their value.
CONFIG = {
    "postgres": [
        "archive_command", "Restore_Command", "ssl_passphrase_command", "archive_library",
        "shared_preload_libraries", "session_preload_libraries", "dynamic_library_path",
        "jit_provider", "unix_socket_permissions", "primary_conninfo", "include", "HBA_file",
        "fsync", "port", "Listen_Addresses", {"log_line_prefix": "x'\nport = 1"},
    ],
    "mariadb": [
        "enable_loose_bind_address", "skip-grant", "extra_port", "wsrep_notify_cmd", "init_connect",
        "wsrep_provider", "plugin_dir", "mysqlx_port", "admin_address", "ssl_ca", "datadir",
        "bind_address", "skip-grant-tables", "loose_port", "init_file", "a b",
        {"sort_buffer_size": "1M\nskip-grant-tables"},
    ],
    "mongodb": [
        "net", "net.ipv6", "security", "systemLog.path", "auditLog.destination",
        "net.tls.mode", "setParameter.authenticationMechanisms", "setParameter.enableTestCommands",
        "setParameter.enableLocalhostAuthBypass", "storage.dbPath", "replication.replSetName",
        {"storage": {"journal": {"__exec": "touch /tmp/x"}}},
    ],
    "cassandra": [
        "allow_nodetool_archive_command", "network_authorizer", "internode_authenticator",
        "enable_user_defined_functions", "heap_dump_path", "authenticator", "commitlog_sync",
        "auth_read_consistency_level", "commitlog_sync_period", "commit_failure_policy",
        {"jmx_server_options": {"enabled": True, "remote": True}},
        {"audit_logging_options": {"archive_command": "touch /tmp/x"}},
        {"full_query_logging_options": {"archive_command": "touch /tmp/x"}},
    ],
    "hbase": [
        "hbase.zookeeper.property.admin.enableServer", "hbase.coprocessor.region.classes",
        "hbase.security.authentication", "hbase.superuser", "hbase.regionserver.ipc.address",
    ],
    "riak": [
        "search", "jmx", "riak_control", "include /tmp/x", "ssl.certfile", "nodename",
        {"a": "b\nc = d"},
    ],
    "valkey": [
        "bind", "requirepass", "aclfile", "include", "loadmodule", "enable-module-command",
        "enable-debug-command", "cluster-announce-ip", "tls-port", "rdma-port", "unixsocket",
        "replicaof", "maxmemory-policy", "PORT", {"hz": "10\nbind 0.0.0.0"},
    ],
}  # fmt: skip
#: What stays possible.
TAKEN = {
    "postgres": {
        "wal_compression": True,
        "log_min_messages": "warning",
    },
    "mariadb": {"innodb_io_capacity": 2000, "skip-innodb-adaptive-hash-index": True},
    "mongodb": {"replication.oplogSizeMB": 990, "setParameter.logLevel": 1},
    "cassandra": {"concurrent_writes": 64, "internode_compression": "all"},
    "hbase": {"hbase.hregion.max.filesize": 7, "hbase.regionserver.handler.count": 9},
    "riak": {"leveldb.threads": 31, "erlang.async_threads": 8},
    "valkey": {"activedefrag": True, "hz": 50, "client-output-buffer-limit": "normal 0 0 0"},
}
#: Of Java: programs, code and files of others; "-D" reaches every part of a store.
JVM = [
    "-XX:OnOutOfMemoryError=touch /tmp/x", "-XX:OnError=touch /tmp/x", "-XX:Flags=/tmp/x",
    "-XX:VMOptionsFile=/tmp/x", "-XX:+ManagementServer", "-javaagent:/tmp/x.jar",
    "-agentpath:/tmp/x.so", "-Xbootclasspath/a:/tmp/x.jar", "-cp",
    "-Dcassandra.config=file:///tmp/x", "-Dhbase.rpc.server.impl=x", "-Djava.security.manager=x",
    "-Dcassandra.settings.authenticator=AllowAllAuthenticator", "garbage",
    "-Dcom.sun.management.jmxremote.port=7199", "-agentlib:jdwp=transport=dt_socket,address=*:1",
]  # fmt: skip
MODULES = ("/tmp/x", "../x", "--help", "a; touch /tmp/x", "a b", "$(id)", "a\nb")


@pytest.mark.parametrize("name", CONFIG)
def test_settings_open_and_run_nothing(name):
    settings = engine(name).Settings
    for option in CONFIG[name]:
        config = option if isinstance(option, dict) else {option: "/tmp/x"}
        with pytest.raises(ValidationError, match=next(iter(config)).split(".")[0]):
            settings.model_validate({"config": config})
    assert settings.model_validate({"config": TAKEN[name]})
    assert settings.model_validate({"module": "db/postgresql/16.2-gcc+x"}).module
    for module in MODULES:
        with pytest.raises(ValidationError, match="module"):
            settings.model_validate({"module": module})
    for option in JVM if name in ("cassandra", "hbase") else ():
        with pytest.raises(ValidationError, match="jvm_options"):
            settings.model_validate({"jvm_options": [option]})


def test_an_option_of_a_search_runs_nothing():
    search = {"queries": ["q.fa"], "libraries": ["l.fa"]}
    for option in ("-V !touch /tmp/x", "-e", "-e/tmp/x", "-O/tmp/x", "-V=!x", "!touch /tmp/x"):
        with pytest.raises(ValidationError, match="options"):
            Search.model_validate({**search, "options": ["-m", "10", option]})
    with pytest.raises(ValidationError, match="libraries"):
        Search.model_validate({**search, "libraries": ["!touch /tmp/x"]})


def test_a_study_has_a_name_for_a_directory(tmp_path):
    text = "inputs: {paths: data}\nengines: [sqlite]\nphases: [write]\n"
    for name in ("...", "a{b}", "a'b", "a;b", "a b", "$(id)", "a\nb", "-n"):
        (tmp_path / f"{name}.yaml").write_text(text)
        with pytest.raises(ConfigError, match="rename the file"):
            load_study(tmp_path / f"{name}.yaml")
    (tmp_path / "Größe_2.1_b-c.yaml").write_text(text)
    assert load_study(tmp_path / "Größe_2.1_b-c.yaml").name == "Größe_2.1_b-c"
