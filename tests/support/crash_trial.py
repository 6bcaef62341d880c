"""One server killed while a client writes to it, and what is left of what it acknowledged.

For the tests of engines, without a workflow; by hand:
``python tests/support/crash_trial.py ENGINE [LEVEL ...]``.
"""

import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from storewise.documents import Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.registry import engine as engine_named
from storewise.errors import EngineError

# As a program it is not told where the tests are.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.servers.local import running
from support.servers.stores import available
from support.waiting import wait_until

_BEFORE = 400
#: Longer than any server keeps the definition of a table unwritten at its weakest level.
_SECONDS = 2.0
_AFTER = 200
_PATIENCE = 24.0


@dataclass
class Survived:
    """What one crash has left."""

    acknowledged: int
    lost: int
    errors: int
    recovery: float
    """From the kill to the server's first answer, s."""
    unavailable: float
    """From the last success before to the first after, s."""


def crash(name, directory, *, consistency="", topology=None, settings=None, node="data0"):
    """Write single documents, kill a node's server with SIGKILL in the middle, start it again,
    write on with the same client, and read back every acknowledged id with a new one."""
    store = engine_named(name)
    acknowledged = []
    times = []
    errors = []
    ended = threading.Event()
    with running(name, directory, topology, settings, consistency, Schema()) as result:
        client = store.connect(result.cluster, "write")

        def write():
            number = 0
            while not ended.is_set():
                number += 1
                key = number.to_bytes(12, "big")
                document = {"_id": key, "t": 602, "b": 1, "e": 2, "l": 3, "s": "ACGT", "ti": key}
                try:
                    client.insert(Kind.RNA, [document])
                except EngineError as error:
                    errors.append(error)
                    continue
                acknowledged.append(key)
                times.append(time.monotonic())

        writer = threading.Thread(target=write)
        writer.start()
        try:
            _until(
                lambda: len(acknowledged) >= _BEFORE and times[-1] - times[0] > _SECONDS,
                "writes before the kill",
                errors,
            )
            server = result.servers[node]
            killed = time.monotonic()
            server.kill()
            dead = time.monotonic()
            server.again(lambda: None)
            recovery = time.monotonic() - killed
            _until(
                lambda: sum(t > dead for t in times[-_AFTER:]) >= _AFTER, "writes after it", errors
            )
        finally:
            ended.set()
            writer.join()
        client.close()
        gap = max(b - a for a, b in pairwise(times))
        reader = store.connect(result.cluster, "read")
        lost = 0
        for start in range(0, len(acknowledged), 200):
            lost += reader.get_many(Kind.RNA, acknowledged[start : start + 200]).count(None)
        reader.close()
    return Survived(len(acknowledged), lost, len(errors), recovery, gap)


def _until(done, what, errors):
    wait_until(done, _PATIENCE, lambda: f"{what} ({errors[-1:]})")


#: The node that is killed where it is not data0.
NODE = {"hbase": "master0"}


def main(name, *levels):
    for level in levels or engine_named(name).consistencies:
        with tempfile.TemporaryDirectory() as directory:
            try:
                result = crash(
                    name,
                    Path(directory),
                    consistency=level,
                    settings=available(name),
                    node=NODE.get(name, "data0"),
                )
            except (EngineError, AssertionError) as error:
                result = f"{type(error).__name__}: {error}"
            print(name, level, result, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
