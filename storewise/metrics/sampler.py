"""What a host does each second of a step: processor, memory, disk, network, store and clients.

Samples are taken on whole seconds from the step's start (no drift: each waits for its own
boundary); the last one, when the step ends between two, is shorter and says so in
``sample_length``. One sampler per host and phase takes the host's figures; every worker takes
those of its own processes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

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
#: Below the live directory.
ELECTED = "elected"
#: The share of a second that measuring the store's files may take.
_DU_SHARE = 0.02


def elect(live: Path, name: str) -> bool:
    """Whether this process is the one on its host that does `name`, once for a live directory.

    The first to create a file exclusively is (O_EXCL is atomic on NFS since version 3).
    """
    # Jobs look for a word in the live directory twice a second: a thousand hosts leave their names
    # elsewhere.
    path = live / ELECTED / f"{name}.{host_name()}"
    path.parent.mkdir(exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


class ProcessGroup:
    """CPU time and memory of processes and all that descends from them, which come and go."""

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

        A process that has ended counts in its parent, which has waited for it (getrusage(2));
        only what processes used that somebody outside the group has waited for is not seen.
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
    """What one sampler looks at.

    `clients` are the worker's client processes by process index. `store_roots` are the root pids
    of the store's servers on this host; an embedded store (`embedded`) lives in the clients.
    `store` are the directories whose size this worker reports (its own while it loads; those of
    all, by one worker only, afterwards). `disk_path` lies on the disk to look at.
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


class Sampler:
    """A thread that samples one step; `stop` ends it and gives the samples.

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
        self._second = 0
        self._failure: BaseException | None = None
        self._latest: dict[str, float] = {}
        path = watched.disk_path
        self.disk = disk_of(path) if path is not None and path.exists() else None
        """The disk that is sampled; None stands for all disks of the host."""

    def start(self, zero: int) -> None:
        """Begin; `zero` is the step's start by the clock."""
        self._zero = zero
        self._take_first()
        self._thread.start()

    def follow(self, roots: Sequence[int]) -> None:
        """From now on the store's servers are these: they were started again."""
        self._roots = ProcessGroup(roots)

    def latest(self) -> dict[str, float]:
        """The figures of the last sample by metric, summed over processes; empty before it."""
        return self._latest

    def stop(self) -> list[Sample]:
        """Take the last, partial sample and hand all samples over."""
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

    def _take_first(self) -> None:
        watched = self._watched
        self._at = self._now()
        self._groups = {n: ProcessGroup([pid]) for n, pid in watched.clients.items()}
        self._roots = ProcessGroup(watched.store_roots)
        self._routers = ProcessGroup(watched.routers)
        self._next_du = 0.0
        if watched.host:
            self._cpu = psutil.cpu_times()
            self._disk = self._disk_counters()
            self._net = psutil.net_io_counters(pernic=True)
            self._swap = psutil.swap_memory()

    def _disk_counters(self) -> dict[str, tuple[int, int, int]]:
        counters = psutil.disk_io_counters(perdisk=True)
        names = [self.disk] if self.disk else [n for n in counters if _is_whole(n)]
        return {
            name: (c.read_bytes, c.write_bytes, int(getattr(c, "busy_time", 0)))
            for name in names
            if (c := counters.get(name)) is not None
        }

    def _take(self, second: int) -> None:
        now = self._now()
        length = now - self._at
        if length < 0.001:  # the step ended on a boundary: nothing new to say
            return
        self._at = now
        self._second = second
        first = len(self._samples)
        watched = self._watched
        worker = self._worker
        cpu_sum, rss_sum = 0.0, 0
        for process, group in self._groups.items():
            cpu, rss = group.sample()
            self._put("client_cpu", cpu, worker, process)
            self._put("client_rss", rss, worker, process)
            cpu_sum, rss_sum = cpu_sum + cpu, rss_sum + rss
        if watched.embedded:
            self._put("store_cpu", cpu_sum, worker)
            self._put("store_rss", rss_sum, worker)
        elif watched.store_roots:
            cpu, rss = self._roots.sample()
            self._put("store_cpu", cpu, worker)
            self._put("store_rss", rss, worker)
        if watched.routers:
            cpu, rss = self._routers.sample()
            self._put("router_cpu", cpu, worker)
            self._put("router_rss", rss, worker)
        if watched.store and now >= self._next_du:
            before = self._now()
            self._put("store_bytes", tree_bytes(watched.store), worker)
            took = self._now() - before
            self._next_du = before + took / _DU_SHARE if took > _DU_SHARE else 0.0
        if watched.host:
            self._put("sample_length", length)
            self._take_host(length)
        latest: dict[str, float] = {}
        for sample in self._samples[first:]:
            latest[sample.metric] = latest.get(sample.metric, 0.0) + sample.value
        self._latest = latest  # in one go: another thread reads it

    def _put(
        self, metric: str, value: float, worker: int | None = None, process: int | None = None
    ) -> None:
        sample = Sample(self._phase, metric, value, METRICS[metric], self._step, self._second)
        self._samples.append(sample._replace(worker=worker, process=process))

    def _take_host(self, length: float) -> None:
        put = self._put
        times = psutil.cpu_times()
        # Kernel counters of idle and iowait can step back a little (proc(5)).
        spent = {
            metric: max(0.0, sum(getattr(times, f, 0) - getattr(self._cpu, f, 0) for f in fields))
            for metric, fields in _CPU.items()
        }
        self._cpu = times
        total = sum(spent.values())
        for metric, value in spent.items():
            put(metric, 100 * value / total if total else 0.0)
        memory = psutil.virtual_memory()
        put("memory_used", memory.used)
        put("memory_available", memory.available)
        swap, paged = psutil.swap_memory(), self._swap
        self._swap = swap
        put("swap_in", max(0, swap.sin - paged.sin) / length)
        put("swap_out", max(0, swap.sout - paged.sout) / length)
        disk, old = self._disk_counters(), self._disk
        self._disk = disk
        both = disk.keys() & old.keys()
        put("disk_read", sum(disk[n][0] - old[n][0] for n in both) / length)
        put("disk_write", sum(disk[n][1] - old[n][1] for n in both) / length)
        # Milliseconds in which the busiest disk had work, as a share of the sample's length.
        busy = max((disk[n][2] - old[n][2] for n in both), default=0)
        put("disk_busy", min(100.0, busy / (10 * length)))
        net, before = psutil.net_io_counters(pernic=True), self._net
        self._net = net
        received = sent = loopback = 0
        for name in net.keys() & before.keys():
            if name == "lo":
                loopback += net[name].bytes_sent - before[name].bytes_sent
            else:
                received += net[name].bytes_recv - before[name].bytes_recv
                sent += net[name].bytes_sent - before[name].bytes_sent
        put("network_received", received / length)
        put("network_sent", sent / length)
        put("loopback", loopback / length)


def _is_whole(name: str) -> bool:
    """Whether a kernel disk name is a whole real disk: no partition, loop, ram or mapper device
    (those would count the same bytes twice)."""
    block = Path("/sys/block") / name
    return block.exists() and not name.startswith(("loop", "ram", "zram", "dm-", "md"))
