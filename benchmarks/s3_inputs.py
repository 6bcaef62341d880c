"""Speed of inputs on S3: objects streamed through the parser, compared with files on disk.

    python benchmarks/s3_inputs.py [--objects N] [--copies C] [--latency MS] [--rounds R]

prints one JSON object. Files of the bundled sample (their content C times, as files with so many
searches) are put on moto's server, which runs on this machine in a process of its own, and on disk
(in the page cache). `read` decompresses them, `parse` makes documents of them, as a load does. `s3`
fetches ahead, as a load does; `s3_plain` does not. Each measurement is a process of its own, ways
take turns, and the median of R rounds counts; `ratio` is seconds on S3 over seconds on disk.
`latency` is waited for before each answer, for a server that is further away than this machine's
(S3's first byte takes some 10 to 100 ms). moto takes a core's time from the client where there are
few: `cpu_seconds` are the client's alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.s3.faults import Delay, Faults  # noqa: E402
from support.s3.server import S3Server  # noqa: E402

from storewise.ssearch.inputs.paths import list_inputs  # noqa: E402
from storewise.ssearch.inputs.scan import status_of  # noqa: E402
from storewise.ssearch.parse.remote import Listed, fetched_ahead  # noqa: E402
from storewise.ssearch.parse.stream import open_input  # noqa: E402
from storewise.ssearch.reader import DocumentReader  # noqa: E402

WAYS = ("disk", "s3", "s3_plain")


def work(way: str, what: str, spec: str) -> dict[str, float]:
    """Stream all that `spec` names; listed before the clock starts, as a load is."""
    table = status_of(list_inputs([spec])).table
    files = [Listed(*row.values()) for row in table.to_pylist()]
    done = 0
    ahead = fetched_ahead(files) if way == "s3" else contextlib.nullcontext()
    begun, cpu = time.perf_counter(), time.process_time()
    with ahead:
        for file in files:
            if what == "parse":
                with open_input(file.path, file) as stream:
                    reader = DocumentReader(stream, bytes(16), encoding="bson")
                    done += sum(len(batch) for batch in reader)
            else:
                with open_input(file.path, file) as stream:
                    while data := stream.read(1 << 20):
                        done += len(data)
    return {
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": time.process_time() - cpu,
        "files": len(files),
        "stored_bytes": sum(file.bytes for file in files),
        "documents" if what == "parse" else "bytes": done,
    }


def measure(way: str, what: str, spec: str, environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, __file__, "--work", way, what, spec]
    env = {**os.environ, **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--latency", type=float, default=0.0, help="ms")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work(*options.work)))
        return
    sources = sorted((ROOT / "resources" / "sample").glob("*.m10.*"))
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(S3Server())
        environment = server.environment
        if options.latency:
            proxy = stack.enter_context(Faults(server.endpoint))
            proxy.add(Delay(options.latency / 1000), times=None)
            environment = proxy.environment
        bucket, client = server.bucket(), server.client()
        for i in range(options.objects):
            source = sources[i % len(sources)]
            data = source.read_bytes() * options.copies
            name = f"{i:06}.{source.name}"
            (directory / name).write_bytes(data)
            client.put_object(Bucket=bucket, Key=f"in/{name}", Body=data)
        specs = {way: f"s3://{bucket}/in/" if way != "disk" else str(directory) for way in WAYS}
        result: dict[str, dict[str, Any]] = {}
        for what in ("read", "parse"):
            runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            for _ in range(options.rounds):
                for way in WAYS:
                    runs[way].append(measure(way, what, specs[way], environment))
            middle = {
                way: {name: median(run[name] for run in all_of) for name in all_of[0]}
                for way, all_of in runs.items()
            }
            for way in WAYS[1:]:
                middle[way]["ratio"] = middle[way]["seconds"] / middle["disk"]["seconds"]
            result[what] = middle
    values = {k: v for k, v in vars(options).items() if k != "work"}
    machine = {"processors": os.cpu_count(), "python": platform.python_version()}
    print(json.dumps({**values, **machine, **result}, indent=1))


if __name__ == "__main__":
    main()
