"""Variables that a user has set for servers of his own."""

#: Each of them alone fails a trial, or changes what is measured, where it reaches the program that
#: reads it.
HOSTILE = {
    # libpq and PostgreSQL's server
    "PGDATA": "/nowhere",
    "PGPORT": "1",
    "PGHOST": "/nowhere",
    "PGHOSTADDR": "192.0.2.1",
    "PGUSER": "somebody",
    "PGDATABASE": "none",
    "PGOPTIONS": "-c default_transaction_read_only=on",
    "PGSSLMODE": "verify-full",
    "PGCHANNELBINDING": "require",
    "PGCLIENTENCODING": "LATIN1",
    "PGSERVICE": "none",
    "PGSERVICEFILE": "/nowhere",
    "PGSSLROOTCERT": "system",
    "PGSSLNEGOTIATION": "direct",
    "PGREQUIREAUTH": "none",
    "PGTARGETSESSIONATTRS": "standby",
    "PGDATESTYLE": "nonsense",
    "PGTZ": "Nowhere/None",
    # MariaDB, MySQL
    "MYSQL_HOST": "192.0.2.1",
    "MYSQL_TCP_PORT": "1",
    "MYSQL_UNIX_PORT": "/nowhere",
    "MYSQL_PWD": "wrong",
    "MYSQL_HOME": "/nowhere",
    "MYSQL_GROUP_SUFFIX": "_none",
    "MARIADB_HOME": "/nowhere",
    "MARIADB_PLUGIN_DIR": "/nowhere",
    "UMASK": "0777",
    # Java
    "_JAVA_OPTIONS": "-Xmx3g",
    "JAVA_TOOL_OPTIONS": "-Dstorewise.hostile=1",
    "JDK_JAVA_OPTIONS": "--no-such-option",
    "CLASSPATH": "/nowhere",
    "HBASE_OPTS": "-Dstorewise.hostile=1",
    # Erlang
    "ERL_FLAGS": "-no such",
    "ERL_LIBS": "/nowhere",
    "RELX_COOKIE": "known",
    # every program
    "OPENSSL_CONF": "/nowhere",
    "GLIBC_TUNABLES": "glibc.malloc.arena_max=1",
    "MALLOC_ARENA_MAX": "1",
    "REDISCLI_AUTH": "wrong",
    # schedulers and searches
    "SQUEUE_STATES": "PENDING",
    "FASTLIBS": "/nowhere",
}
