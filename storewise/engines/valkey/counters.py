"""Valkey's own counters (INFO), summed over the servers.

Names: https://valkey.io/commands/info/
"""

from __future__ import annotations

from storewise.engines.support.servers import sum_counters
from storewise.engines.valkey.connection import Links, Unreached

#: Those that are kept.
_NAMES = frozenset(
    {
        "aof_current_size",
        "aof_delayed_fsync",
        "evicted_keys",
        "keyspace_hits",
        "keyspace_misses",
        "maxmemory",
        "total_commands_processed",
        "total_connections_received",
        "total_forks",
        "total_net_input_bytes",
        "total_net_output_bytes",
        "used_cpu_sys",
        "used_cpu_user",
        "used_memory",
        "used_memory_dataset",
        "used_memory_rss",
    }
)


def read_counters(links: Links, servers: int) -> dict[str, float]:
    """Sums by name; `servers` is the number of servers that are in them."""
    return sum_counters(range(servers), lambda server: counters_of(links, server), (Unreached,))


def counters_of(links: Links, server: int) -> dict[str, float]:
    """The counters of one server."""
    counters = links.ask(server, lambda client: client.info())
    return {name: float(value) for name, value in counters.items() if name in _NAMES}
