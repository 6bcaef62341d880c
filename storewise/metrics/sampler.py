"""Samples of a host each second of a step: processor, memory, disk, network, store and clients.

They are taken on whole seconds from the step's start, without drift; the last one, when the step
ends, may be shorter (``sample_length``). One worker per host samples the host; each worker samples
its own processes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import psutil

from storewise.metrics.host import disk_of, host_name, tree_bytes
from storewise.metrics.recorder import NS
from storewise.metrics.schema import METRICS, Sample

#: psutil's names of Linux CPU times, by our metric. Guest time is part of user time there.
_CPU = {
    "cpu_user": ("user", "nice"),
    "cpu_system": ("system", "irq", "softirq"),
    "cpu_iowait": ("iowait",),
    "cpu_idle": ("idle",),
    "cpu_steal": ("steal",),
}
#: Directory below the live directory.
ELECTED = "elected"
#: Fraction of the time that measuring the size of the store's files may take.
_MAX_SIZE_TIME = 0.02


def elect(live: Path, name: str) -> bool:
    """Whether this process is the first on its host to claim the task `name` in a trial.

    It is if it creates the task's file (O_EXCL is atomic on NFS since version 3).
    """
    # Not in the live directory itself, which all jobs list: a thousand hosts leave names here.
    path = live / ELECTED / f"{name}.{host_name()}"
    path.parent.mkdir(exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


class ProcessGroup:
    """CPU time and memory of processes and all their descendants, which may start and end."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = tuple(pids)
        self._used = 0.0
        self.sample()

    def _members(self) -> list[psutil.Process]:
        members = []
        for pid in self._pids:
            try:
                root = psutil.Process(pid)
                members += [root, *root.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
        return members

    def sample(self) -> tuple[float, int]:
        """(CPU seconds since the sample before, resident bytes now).

        The time of a process that has ended counts in its parent, which has waited for it
        (getrusage(2)), but not if that parent is outside the group.
        """
        used, resident = 0.0, 0
        for process in self._members():
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    memory = process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
            used += times.user + times.system + times.children_user + times.children_system
            resident += memory
        since, self._used = max(0.0, used - self._used), used
        return since, resident


@dataclass(frozen=True, slots=True)
class Watched:
    """The targets of one sampler.

    `clients` are the pids of the worker's client processes by process index. `store_roots` are the
    root pids of the store's servers on this host; an embedded store (`embedded`) is in the clients.
    `store` are the directories whose size this worker reports (its own while it loads; those of
    all, by one worker only, afterwards). `disk_path` lies on the disk to sample.
    """

    clients: Mapping[int, int]
    store_roots: tuple[int, ...] = ()
    embedded: bool = False
    routers: tuple[int, ...] = ()
    """Root pids of servers beside the clients, which hold no data."""
    store: tuple[Path, ...] = ()
    disk_path: Path | None = None
    host: bool = True
    """Take the host's figures (one worker per host does)."""


@dataclass(frozen=True, slots=True)
class _HostCounters:
    """Counters of the kernel, which only rise."""

    cpu: Any
    swap: Any
    disks: Mapping[str, tuple[int, int, int]]
    """Bytes read, bytes written, ms busy."""
    links: Mapping[str, Any]

    @classmethod
    def now(cls, disk: str | None) -> _HostCounters:
        counters = psutil.disk_io_counters(perdisk=True)
        names = [disk] if disk else [name for name in counters if _is_whole(name)]
        disks = {
            name: (c.read_bytes, c.write_bytes, int(getattr(c, "busy_time", 0)))
            for name in names
            if (c := counters.get(name)) is not None
        }
        links = psutil.net_io_counters(pernic=True)
        return cls(psutil.cpu_times(), psutil.swap_memory(), disks, links)

    def figures(self, before: _HostCounters, length: float) -> dict[str, float]:
        """Metrics of the `length` s since the counters `before`."""
        # Kernel counters of idle and iowait can step back a little (proc(5)).
        spent = {
            metric: max(
                0.0, sum(getattr(self.cpu, f, 0) - getattr(before.cpu, f, 0) for f in names)
            )
            for metric, names in _CPU.items()
        }
        total = sum(spent.values())
        figures = {metric: 100 * s / total if total else 0.0 for metric, s in spent.items()}
        figures["swap_in"] = max(0, self.swap.sin - before.swap.sin) / length
        figures["swap_out"] = max(0, self.swap.sout - before.swap.sout) / length
        pairs = [(self.disks[n], before.disks[n]) for n in self.disks.keys() & before.disks.keys()]
        figures["disk_read"] = sum(now[0] - old[0] for now, old in pairs) / length
        figures["disk_write"] = sum(now[1] - old[1] for now, old in pairs) / length
        # Of the busiest disk, in ms.
        busy = max((now[2] - old[2] for now, old in pairs), default=0)
        figures["disk_busy"] = min(100.0, busy / (10 * length))
        received = sent = loopback = 0
        for name in self.links.keys() & before.links.keys():
            now, old = self.links[name], before.links[name]
            if name == "lo":
                loopback += now.bytes_sent - old.bytes_sent
            else:
                received += now.bytes_recv - old.bytes_recv
                sent += now.bytes_sent - old.bytes_sent
        figures["network_received"] = received / length
        figures["network_sent"] = sent / length
        figures["loopback"] = loopback / length
        return figures


class Sampler:
    """A thread that samples one step; `stop` ends it and returns the samples.

    `clock` gives ns; `wait` waits for an event for so many s at most, and is true where it came.
    """

    def __init__(
        self,
        watched: Watched,
        *,
        phase: str,
        worker: int,
        step: int,
        clock: Callable[[], int] = perf_counter_ns,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self._clock, self._wait = clock, wait
        self._watched = watched
        self._phase, self._worker, self._step = phase, worker, step
        self._samples: list[Sample] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._zero = 0
        self._failure: BaseException | None = None
        self._latest: dict[str, float] = {}
        path = watched.disk_path
        self.disk = disk_of(path) if path is not None and path.exists() else None
        """The disk that is sampled; None stands for all disks of the host."""

    def start(self, zero: int) -> None:
        """Begin; `zero` is the step's start, in ns of this sampler's clock."""
        self._zero = zero
        self._sampled_at = self._now()
        self._next_size = 0.0
        watched = self._watched
        #: By role, and index of a client process.
        self._groups: dict[tuple[str, int | None], ProcessGroup] = {
            ("client", n): ProcessGroup([pid]) for n, pid in watched.clients.items()
        }
        self.follow(watched.store_roots)
        if watched.routers:
            self._groups["router", None] = ProcessGroup(watched.routers)
        if watched.host:
            self._counters = _HostCounters.now(self.disk)
        self._thread.start()

    def follow(self, roots: Sequence[int]) -> None:
        """Replace the root processes of the store's servers, after a restart."""
        if roots:
            self._groups["store", None] = ProcessGroup(roots)

    def latest(self) -> dict[str, float]:
        """The figures of the last sample by metric, summed over processes; empty before it."""
        return self._latest

    def stop(self) -> list[Sample]:
        """Take the last, partial sample; all samples."""
        self._done.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._samples

    def _run(self) -> None:
        try:
            second = 0
            last = False
            while not last:
                due = self._zero + (second + 1) * NS
                last = self._wait(self._done, max(0.0, (due - self._clock()) / NS))
                self._take(second)
                # A stalled host may have slept over boundaries: the sample then covers them all.
                second = max(second + 1, (self._clock() - self._zero) // NS)
        except BaseException as error:
            self._failure = error
            raise

    def _now(self) -> float:
        return self._clock() / NS

    def _take(self, second: int) -> None:
        now = self._now()
        length = now - self._sampled_at
        if length < 0.001:  # the step ended on a boundary: nothing new to say
            return
        self._sampled_at = now
        latest: dict[str, float] = {}

        def put(metric: str, value: float, worker: int | None, process: int | None = None) -> None:
            sample = Sample(self._phase, metric, value, METRICS[metric], self._step, second)
            self._samples.append(sample._replace(worker=worker, process=process))
            latest[metric] = latest.get(metric, 0.0) + value

        worker, watched = self._worker, self._watched
        for (name, process), group in list(self._groups.items()):
            cpu, resident = group.sample()
            put(f"{name}_cpu", cpu, worker, process)
            put(f"{name}_rss", resident, worker, process)
        if watched.embedded:  # the store is in the clients
            put("store_cpu", latest.get("client_cpu", 0.0), worker)
            put("store_rss", latest.get("client_rss", 0.0), worker)
        if watched.store and now >= self._next_size:
            before = self._now()
            put("store_bytes", tree_bytes(watched.store), worker)
            seconds = self._now() - before
            pause = seconds > _MAX_SIZE_TIME
            self._next_size = before + seconds / _MAX_SIZE_TIME if pause else 0.0
        if watched.host:
            counters = _HostCounters.now(self.disk)
            for metric, value in counters.figures(self._counters, length).items():
                put(metric, value, None)
            self._counters = counters
            memory = psutil.virtual_memory()
            put("memory_used", memory.used, None)
            put("memory_available", memory.available, None)
            put("sample_length", length, None)
        self._latest = latest  # in one go: another thread reads it


def _is_whole(name: str) -> bool:
    """Whether a kernel disk name is a whole real disk: no partition, loop, ram or mapper device
    (those would count the same bytes twice)."""
    block = Path("/sys/block") / name
    return block.exists() and not name.startswith(("loop", "ram", "zram", "dm-", "md"))
