"""Sizes of Cassandra's tables, from the virtual tables of each node.

https://cassandra.apache.org/doc/5.0/cassandra/managing/operating/virtualtables.html
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from storewise.engines.cassandra.cluster import KEYSPACE
from storewise.engines.support.servers import wait_until

_MIB = 1 << 20
_FLUSH_POOLS = ("MemtableFlushWriter", "MemtablePostFlush", "MemtableReclaimMemory")
_FLUSH_MS = 250
_FLUSH_SECONDS = 120.0


def disk_bytes_of(shared: Any, tables: Iterable[str]) -> int:
    """Bytes of our tables on the disks of all nodes; whole MiB of each table and node."""
    session, hosts = shared.session, shared.driver.metadata.all_hosts()
    names = list(tables)
    # Without JMX the way to have memory written to disk is to say that it may not be old.
    for period in (_FLUSH_MS, 0):
        for name in names:
            session.execute(
                f"ALTER TABLE {KEYSPACE}.{name} WITH memtable_flush_period_in_ms = {period}"
            )
        if period:
            _await_flushes(session, hosts)
    total = 0
    for host in hosts:
        cql = "SELECT keyspace_name, mebibytes FROM system_views.disk_usage"
        rows = session.execute(cql, host=host)
        total += sum(int(size) for keyspace, size in rows if keyspace == KEYSPACE)
    return total * _MIB


def _await_flushes(session: Any, hosts: Iterable[Any]) -> None:
    """Return when no node has flushed anything for several periods."""
    cql = "SELECT name, active_tasks, pending_tasks, completed_tasks FROM system_views.thread_pools"
    before: dict[str, int] | None = None
    quiet_since = 0.0
    for host in hosts:

        def lacking(host: Any = host) -> str | None:
            nonlocal before, quiet_since
            rows = [row for row in session.execute(cql, host=host) if row[0] in _FLUSH_POOLS]
            done = {row[0]: row[3] for row in rows}
            now = time.monotonic()
            if done != before or any(row[1] or row[2] for row in rows):
                before, quiet_since = done, now
            elif now - quiet_since > 4 * _FLUSH_MS / 1000:
                return None
            work = [f"{row[0]} {row[1]} active, {row[2]} pending" for row in rows]
            return f"it still writes ({'; '.join(work)})"

        complaint = f"cassandra: the memory of {host.endpoint} is not on its disk"
        wait_until(lacking, _FLUSH_SECONDS, complaint, poll=_FLUSH_MS / 1000)
