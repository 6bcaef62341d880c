"""What the servers of a trial that never ran would have left: parts of nodes and of a session."""

from storewise.metrics.schema import Sample, write_part


def make_session(directory, trial, spans, *, host, hosts=(), offset=0.0):
    """Parts of the nodes and of the session of a trial, given as its jobs get it.

    `spans` are begin and end of each phase in Unix time, `host` is the clients' host, `hosts` are
    those of the nodes in turn (the clients' host where none is named), `offset` is by how many
    seconds the clocks of `hosts` are ahead.

    A node uses 0.8 cores while it is written to, 0.4 while it is read, 0.05 else; its host waits
    30 % of the time for its disk in the load, 1 % else.
    """
    factors, name = trial["factors"], directory.name
    engine, count = str(factors["engine"]), int(factors["nodes"])
    clients = str(host["name"])
    versions = {"postgres": "PostgreSQL 15.18", "mongodb": "MongoDB 6.0.5", "mariadb": "MySQL 8.4.6"}
    version = versions[engine]
    begin = min(start for start, _ in spans.values()) - 3.0
    length = int(max(end for _, end in spans.values()) - begin) + 2
    common = {"trial": name, "repeat": trial["repeat"], "factors": factors}
    message = {}
    for n in range(count):
        node, on = f"data{n}", hosts[n % len(hosts)] if hosts else clients
        rows = []
        for second in range(length):
            load = _overlap(spans.get("write"), begin + second)
            read = _overlap(spans.get("read"), begin + second)
            idle = 1 - load - read
            values = {
                "sample_length": (1.0, "s"),
                "store_cpu": (0.8 * load + 0.4 * read + 0.05 * idle, "s"),
                "store_rss": (3e8, "B"),
                "store_bytes": (4e8, "B"),
                "cpu_user": (50.0, "%"),
                "cpu_system": (5.0, "%"),
                "cpu_iowait": (30 * load + 1 * (1 - load), "%"),
                "cpu_steal": (0.0, "%"),
                "cpu_idle": (10.0, "%"),
                "memory_used": (2e9, "B"),
                "disk_write": (5e7, "B/s"),
                "network_received": (1e6, "B/s"),
            }
            # The first node on a host samples it.
            sampled = n < max(1, len(hosts))
            rows += [
                Sample("session", metric, value, unit, second=second, node=node)
                for metric, (value, unit) in values.items()
                if sampled or metric.startswith("store_")
            ]
        for metric, value, unit in (
            ("started_at", begin + (offset if hosts else 0.0), "s"),
            ("queue_time", 2.0 + n, "s"),
            ("ready_time", 1.5, "s"),
            ("stop_time", 0.5, "s"),
            ("clock_offset", offset if hosts else 0.0, "s"),
            ("node_bytes", 4e8, "B"),
        ):
            rows.append(Sample("session", metric, value, unit, node=node))
        address = f"10.0.0.{n + 5}" if hosts else "127.0.0.1"
        message[node] = {"host": on, "address": address, "version": version, "guard": "password"}
        write_part(
            directory / f"node.{node}.parquet",
            rows,
            host=on,
            conditions={
                "trial": dict(trial),
                "phase": "session",
                "node": node,
                "role": "data",
                "threads": 1,
                "memory_mb": 1024,
                "address": address,
                "guard": "password",
                "versions": {"server": version},
                "host": {**host, "name": on},
                "kept": f"/scratch/{name}-{node}" if hosts else "",
                "warnings": [],
            },
            **common,
        )
    shared = f"nodes share a host and disturb each other ({clients}: data0, data1)"
    write_part(
        directory / "session.parquet",
        [
            Sample("session", "form_time", 0.4, "s"),
            Sample("session", "formed_time", 4.5, "s"),
            Sample("session", "close_time", 0.6, "s"),
        ],
        host=clients,
        conditions={
            "trial": dict(trial),
            "phase": "session",
            "host": dict(host),
            "nodes": message,
            "warnings": [shared] if count > 1 and not hosts else [],
        },
        **common,
    )


def _overlap(span, start):
    """The part of the second from `start` on that lies in a span."""
    if span is None:
        return 0.0
    return max(0.0, min(span[1], start + 1) - max(span[0], start))
