"""What a node sends is delayed or limited, by the kernel's traffic control (tc(8)).

Each slowed node has a class of its own below one root of the interface (``htb``), so that several
nodes of one interface can be slowed and the last one that ends takes the root away. What comes from
the ports of its server goes into its class; others send through the same interface undisturbed.

Sources: tc(8), tc-htb(8), tc-netem(8), tc-u32(8).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from storewise.atomic import read_as, write_aside
from storewise.errors import EngineError
from storewise.metrics.host import host_name
from storewise.waiting import wait_for

#: Of our root on an interface; nobody else is likely to use it.
_ROOT = "5715:"
#: Rate of a class that only delays, Mbit/s.
_UNLIMITED_MBIT = 40_000.0
#: Bytes of packets that may wait in a class; more are dropped, as in a switch.
_MAX_PACKETS = 2000
_CLASSES = range(2, 256)
_LOCK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Class:
    """The class of one slowed node."""

    interface: str
    number: int

    @property
    def name(self) -> str:
        """As tc has it."""
        return f"{_ROOT}{self.number:x}"

    def remove(self) -> None:
        """Take it away, and the root with the last one; nothing where it has gone already."""
        with _locked(self.interface):
            self.remove_locked()

    def remove_locked(self) -> None:
        """`remove`, where the caller has the lock."""
        device, present = ("dev", self.interface), _classes(self.interface)
        if self.number in present:
            where = ("parent", _ROOT, "prio", str(self.number))
            _tc("filter", "delete", *device, *where, missing_ok=True)
            _tc("class", "delete", *device, "classid", self.name, missing_ok=True)
        if _has_root(self.interface) and not present - {self.number}:
            _tc("qdisc", "delete", *device, "root", missing_ok=True)

    def sent(self) -> int | None:
        """Bytes that have passed it; None where it is not there."""
        for qdisc in _qdiscs(self.interface):
            if qdisc.get("parent") == self.name:
                return int(qdisc.get("bytes", 0))
        return None


def interface_of(address: str) -> str:
    """The interface that has an address; EngineError where none has it."""
    if address.startswith("127."):
        return "lo"
    for name, entries in psutil.net_if_addrs().items():
        if any(one.address.split("%")[0] == address for one in entries):
            return name
    raise EngineError(f"no interface of host {host_name()} has the address {address}")


def slow_traffic(
    address: str, ports: Sequence[int], *, delay_ms: float | None, rate_mbit: float | None, to: Path
) -> Class:
    """Slow what a node at `address` sends; `to` is written first and names the class.

    EngineError where this host cannot: no tc, no rights, a kernel without netem, an interface
    whose traffic somebody else controls.
    """
    interface = interface_of(address)
    with _locked(interface):
        if not _has_root(interface):
            for qdisc in _qdiscs(interface):
                if qdisc.get("root") and qdisc.get("handle") != "0:":
                    raise EngineError(
                        f"the traffic of {interface} on host {host_name()} is under control "
                        f"already (tc qdisc show dev {interface}: {qdisc.get('kind')} "
                        f"{qdisc.get('handle')}); remove that, or slow another way"
                    )
            _tc("qdisc", "add", "dev", interface, "root", "handle", _ROOT, "htb")
        taken = _classes(interface)
        chosen = Class(interface, next(n for n in _CLASSES if n not in taken))
        write_aside(to, json.dumps(asdict(chosen)) + "\n")
        try:
            _fill(chosen, ports, delay_ms, rate_mbit)
        except EngineError:
            chosen.remove_locked()
            raise
    return chosen


def _fill(
    class_: Class, ports: Sequence[int], delay_ms: float | None, rate_mbit: float | None
) -> None:
    """Make the class, its delay or its queue, and filters that send the ports' packets to it."""
    device = ("dev", class_.interface)
    rate = rate_mbit or _UNLIMITED_MBIT
    # A burst of 10 ms at the rate, and a full packet at least.
    burst = str(max(1600 if rate_mbit else 1 << 20, int(rate * 1e6 / 8 * 0.01)))
    kbit = f"{rate * 1000:.0f}kbit"
    limits = ("rate", kbit, "ceil", kbit, "burst", burst, "cburst", burst)
    _tc("class", "add", *device, "parent", _ROOT, "classid", class_.name, "htb", *limits)
    delay = ("netem", "delay", f"{delay_ms * 1000:.0f}us") if delay_ms is not None else ("pfifo",)
    handle = f"{0x5800 + class_.number:x}:"
    leaf = ("qdisc", "add", *device, "parent", class_.name, "handle", handle)
    _tc(*leaf, *delay, "limit", str(_MAX_PACKETS))
    for port in ports:
        where = ("filter", "add", *device, "parent", _ROOT, "prio", str(class_.number))
        match = ("protocol", "ip", "u32", "match", "ip", "sport", str(port), "0xffff")
        _tc(*where, *match, "flowid", class_.name)


def _has_root(interface: str) -> bool:
    return any(qdisc.get("handle") == _ROOT for qdisc in _qdiscs(interface))


def _classes(interface: str) -> set[int]:
    """Numbers of our classes of an interface. (tc shows classes as text only.)"""
    text = _tc("class", "show", "dev", interface)
    return {int(n, 16) for n in re.findall(rf"^class htb {_ROOT}([0-9a-f]+) ", text, re.MULTILINE)}


def _qdiscs(interface: str) -> list[dict[str, Any]]:
    qdiscs: list[dict[str, Any]] = json.loads(
        _tc("-s", "-j", "qdisc", "show", "dev", interface).strip() or "[]"
    )
    return qdiscs


def _tc(*arguments: str, missing_ok: bool = False) -> str:
    tc = shutil.which("tc", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin:/sbin"]))
    if tc is None:
        raise EngineError(
            f"host {host_name()} has no tc, which slows networks; install iproute2, or slow "
            "another way"
        )
    done = subprocess.run([tc, *arguments], capture_output=True, text=True, check=False)
    words = " ".join(f"{done.stderr} {done.stdout if done.returncode else ''}".split())
    if done.returncode == 0 or missing_ok:
        return done.stdout
    hint = ""
    if "not permitted" in words:
        hint = "; only root may, or who owns the node's network namespace"
    elif "netem" in arguments and "unknown" in words:
        hint = "; this kernel has no netem (module sch_netem): use rate_mbit without delay_ms"
    raise EngineError(f"host {host_name()}: tc {' '.join(arguments)}: {words}{hint}")


@contextmanager
def _locked(interface: str) -> Iterator[None]:
    """One at a time: nodes of one host change the classes of one interface.

    The lock is an abstract socket: each network namespace has its own, and the kernel takes it
    away when its holder ends.
    """
    with socket.socket(socket.AF_UNIX) as lock:

        def acquired() -> bool:
            with suppress(OSError):
                lock.bind(f"\0storewise-traffic-{interface}")
                return True
            return False

        if not wait_for(acquired, _LOCK_SECONDS, poll=0.05):
            raise EngineError(
                f"the traffic of {interface} on host {host_name()}, which another process changes, "
                f"was not free within {_LOCK_SECONDS:g} s"
            )
        yield


def main() -> None:
    """``python -m storewise.session.faults.traffic_control FILE``: remove the class it names."""
    path = Path(sys.argv[1])
    if path.exists():
        read_as(Class, path).remove()


if __name__ == "__main__":
    main()
