"""Hosts that are network namespaces, joined by a bridge, and a trial whose nodes run on them.

Each host has a network and a host name of its own; files and processes are shared. Nothing
outlives the test process but an empty bridge: a host's first process dies with it, and its network
with that. Sources: unshare(1), nsenter(1), ip-link(8).

As a program it is one job of such a trial: ``hosts.py DIRECTORY node NAME INTERFACE`` or
``hosts.py DIRECTORY worker PHASE``, with the trial in ``DIRECTORY/trial.json``.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from storewise.driver.verify import PHASE as VERIFY
from storewise.driver.verify import run_verify
from storewise.driver.worker import WorkerJob, run_worker
from storewise.errors import Aborted, StorewiseError
from storewise.layout import VERIFIED
from storewise.processes import dies_with_parent
from storewise.session.coordination.cluster import (
    CLUSTER,
    client_cluster,
    make_credentials,
    read_cluster,
)
from storewise.session.coordination.liveness import Abort, Session, abort, read_abort
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.jobs.close import run_close
from storewise.session.jobs.form import run_form
from storewise.session.jobs.node import NodeJob, run_node
from storewise.study.trial import Trial

INTERFACE = "node0"
_PREFIX = "swn"
_HOST = """\
set -e
hostname {name}
echo unshared
read word
ip link set lo up
ip address add {address}/24 dev {interface}
ip link set {interface} up
echo up
exec sleep infinity
"""


@dataclass(frozen=True)
class Host:
    """One namespace; `pid` is its first process."""

    name: str
    address: str
    pid: int

    def command(self, *words: str) -> list[str]:
        """A command as it is run on the host."""
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--", *words]

    def says(self, *words: str) -> str:
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=True)
        return done.stdout


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def hosts(number: int) -> Iterator[list[Host]]:
    """So many hosts, reachable from here; needs root."""
    bridge = f"{_PREFIX}{os.getpid()}b"
    network = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
    with ExitStack() as stack:
        _ip("link", "add", bridge, "type", "bridge")
        stack.callback(_ip, "link", "delete", bridge)
        _ip("address", "add", f"{network}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        yield [stack.enter_context(_host(bridge, network, k)) for k in range(number)]


@contextmanager
def _host(bridge: str, network: str, number: int) -> Iterator[Host]:
    name, address = f"differ{number}", f"{network}.{10 + number}"
    script = _HOST.format(name=name, address=address, interface=INTERFACE)
    with subprocess.Popen(
        ["unshare", "--net", "--uts", "bash", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=dies_with_parent(),
    ) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == "unshared\n"
            end = f"{bridge[:-1]}{number}"
            peer = f"peer name {INTERFACE} netns {process.pid}".split()
            _ip("link", "add", end, "type", "veth", *peer)
            _ip("link", "set", end, "master", bridge, "up")
            process.stdin.write("go\n")
            process.stdin.flush()
            assert process.stdout.readline() == "up\n"
            yield Host(name, address, process.pid)
        finally:
            process.kill()


class OnHosts:
    """A trial with one data node on each host, from its opening to its end."""

    def __init__(self, directory: Path, trial: Trial, places: list[Host]) -> None:
        self.directory, self.trial, self.places = directory, trial, places
        self.live = directory / "live"
        self.results = directory / "results" / "trials" / trial.id
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.live.mkdir(parents=True)
        self.results.mkdir(parents=True)
        self.session = Session(trial.id, "run", 60.0, 0.0)
        make_credentials(self.live)
        (directory / "trial.json").write_text(trial.model_dump_json())

    def __enter__(self) -> OnHosts:
        try:
            for index, place in enumerate(self.places):
                name = f"data{index}"
                self.nodes[name] = self._job(place, "node", name, INTERFACE)
            form = _job(self.live, self.session, "form", self._check)
            run_form(self.trial, self.live / CLUSTER, self.directory, form)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        abort(self.live, Abort("the test ends", failure=False))
        for process in self.nodes.values():
            process.wait(300)

    def _job(self, place: Host | None, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, str(self.directory), *words]
        with (self.directory / f"{words[1]}.log").open("ab") as log:
            return subprocess.Popen(
                place.command(*command) if place is not None else command,
                stdout=log,
                stderr=log,
                preexec_fn=dies_with_parent(),
            )

    def _check(self) -> None:
        for name, process in self.nodes.items():
            if process.poll() is not None:
                raise StorewiseError(f"{name}: {(self.directory / f'{name}.log').read_text()}")

    def run(self, name: str) -> None:
        """The one worker of a phase, to its end."""
        process = self._job(None, "worker", name)
        assert process.wait(120) == 0, (self.directory / f"{name}.log").read_text()

    def close(self) -> None:
        close = _job(self.live, self.session, "close", lambda: _check_of(self.live))
        run_close(self.trial, self.live / CLUSTER, self.results / "session.parquet", close)


def _job(live: Path, session: Session, name: str, check: Callable[[], None]) -> TrialJob:
    def tell(error: BaseException) -> None:
        abort(live, Abort(str(error), failure=True))

    return TrialJob(check, logging.getLogger(name), live, session, tell)


def _check_of(live: Path) -> None:
    if (live / "abort").exists():
        raise Aborted(read_abort(live / "abort").reason)


def _node(directory: Path, trial: Trial, name: str, interface: str) -> None:
    live, results = directory / "live", directory / "results" / "trials" / trial.id
    run_node(
        NodeJob(
            trial,
            name,
            results / f"node.{name}.parquet",
            directory / f"{name}.server.log",
            directory / f"kept.{name}",
            interface=interface,
        ),
        _job(live, Session(trial.id, "run", 60.0, 0.0), "node", lambda: _check_of(live)),
    )


def _worker(directory: Path, trial: Trial, phase: str) -> None:
    """The only worker of a phase, or the check at the end."""
    live, results = directory / "live", directory / "results" / "trials" / trial.id
    phases = [p.name for p in trial.phases]
    job = WorkerJob(
        trial=trial,
        phase=phase,
        worker=0,
        shards=None,
        live=live,
        result=results / (VERIFIED if phase == VERIFY else f"{phase}.0.parquet"),
        hdr_log=results / f"{phase}.0.hlog",
        written=(),
        before=tuple(results / f"{name}.0.parquet" for name in takewhile(phase.__ne__, phases)),
        cluster=client_cluster(trial, live, read_cluster(live / CLUSTER)),
    )
    log = logging.getLogger("worker")
    if phase == VERIFY:
        run_verify(job, lambda: _check_of(live), log)
    else:
        run_worker(job, lambda: _check_of(live), log)


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    directory = Path(sys.argv[1])
    trial = Trial.model_validate_json((directory / "trial.json").read_text())
    jobs = {"node": _node, "worker": _worker}
    try:
        jobs[sys.argv[2]](directory, trial, *sys.argv[3:])
    except Aborted as error:
        logging.info("ended: %s", error)


if __name__ == "__main__":
    main()
