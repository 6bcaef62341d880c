"""The factors that every study knows: of workers, of servers, of hosts."""

from __future__ import annotations

from typing import Any

#: Factors of engines with servers, and their levels where the study names none.
SERVER_FACTORS: dict[str, list[Any]] = {
    "nodes": [1],
    "replicas": [1],
    "routers": [0],
    "node_threads": [1],
    "node_memory_mb": [1024],
}


#: A class of hosts, as the profile names it (`storewise.study.host_classes`). Without a default: a
#: study that does not name it has not this factor, so that its trials keep their ids.
NODE_CLASS = "node_class"


#: All factors that only engines with servers have.
OF_SERVERS = (*SERVER_FACTORS, NODE_CLASS)


#: Factors that every workload has, besides `engine` and dotted ones (`write.batch_size`).
PLAIN_FACTORS = (
    *("workers", "processes", "threads", "consistency", "index", "volume"),
    *OF_SERVERS,
)
