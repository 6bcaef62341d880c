"""What a node sends is delayed or limited, by the kernel's traffic control (tc(8)).

Each slowed node has a class below one root of the interface (``htb``), numbered by its port, so
that several nodes of one interface can be slowed; the last one that ends takes the root away. What
comes from the ports of the node's server goes into its class; others send undisturbed.

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
from typing import Any

import psutil

from storewise.errors import EngineError
from storewise.metrics.host import host_name
from storewise.waiting import wait_for

#: Of our root on an interface; nobody else is likely to use it.
_ROOT = "5715:"
#: Rate of a class that only delays, Mbit/s.
_UNLIMITED_MBIT = 40_000.0
#: Packets that may wait in a class; more are dropped, as in a switch.
_MAX_PACKETS = 2000
_LOCK_SECONDS = 30.0


def slow_traffic(
    address: str, ports: Sequence[int], *, delay_ms: float | None, rate_mbit: float | None
) -> None:
    """Slow what a node sends from `ports` of `address`; its class is that of the first port.

    EngineError where this host cannot: no tc, no rights, a kernel without netem, an interface whose
    traffic somebody else controls.
    """
    interface = interface_of(address)
    device, class_id = ("dev", interface), _class_id(ports[0])
    rate = rate_mbit or _UNLIMITED_MBIT
    # A burst of 10 ms at the rate, and a full packet at least.
    burst = str(max(1600 if rate_mbit else 1 << 20, int(rate * 1e6 / 8 * 0.01)))
    kbit = f"{rate * 1000:.0f}kbit"
    limits = ("rate", kbit, "ceil", kbit, "burst", burst, "cburst", burst)
    delay = ("netem", "delay", f"{delay_ms * 1000:.0f}us") if delay_ms is not None else ("pfifo",)
    with _locked(interface):
        _make_root(interface)
        try:
            _tc("class", "add", *device, "parent", _ROOT, "classid", class_id, "htb", *limits)
            _tc("qdisc", "add", *device, "parent", class_id, *delay, "limit", str(_MAX_PACKETS))
            for port in ports:
                where = ("filter", "add", *device, "parent", _ROOT, "prio", str(ports[0]))
                match = ("protocol", "ip", "u32", "match", "ip", "sport", str(port), "0xffff")
                _tc(*where, *match, "flowid", class_id)
        except EngineError:
            _remove_class(interface, ports[0])
            raise


def restore_traffic(address: str, port: int) -> None:
    """Remove the class of a port, and the root with the last one; nothing where it has gone."""
    interface = interface_of(address)
    with _locked(interface):
        _remove_class(interface, port)


def bytes_sent(address: str, port: int) -> int | None:
    """Bytes that have passed the class of a port; None where it is not there."""
    for qdisc in _qdiscs(interface_of(address)):
        if qdisc.get("parent") == _class_id(port):
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


def _class_id(port: int) -> str:
    return f"{_ROOT}{port:x}"


def _make_root(interface: str) -> None:
    if _has_root(interface):
        return
    for qdisc in _qdiscs(interface):
        if qdisc.get("root") and qdisc.get("handle") != "0:":
            raise EngineError(
                f"the traffic of {interface} on host {host_name()} is under control already (tc "
                f"qdisc show dev {interface}: {qdisc.get('kind')} {qdisc.get('handle')}); remove "
                "that, or slow another way"
            )
    _tc("qdisc", "add", "dev", interface, "root", "handle", _ROOT, "htb")


def _remove_class(interface: str, port: int) -> None:
    device = ("dev", interface)
    # tc shows classes as text only.
    text = _tc("class", "show", *device)
    present = set(re.findall(rf"^class htb ({_ROOT}[0-9a-f]+) ", text, re.MULTILINE))
    if _class_id(port) in present:
        _tc("filter", "delete", *device, "parent", _ROOT, "prio", str(port), missing_ok=True)
        _tc("class", "delete", *device, "classid", _class_id(port), missing_ok=True)
    if _has_root(interface) and not present - {_class_id(port)}:
        _tc("qdisc", "delete", *device, "root", missing_ok=True)


def _has_root(interface: str) -> bool:
    return any(qdisc.get("handle") == _ROOT for qdisc in _qdiscs(interface))


def _qdiscs(interface: str) -> list[dict[str, Any]]:
    shown = _tc("-s", "-j", "qdisc", "show", "dev", interface).strip()
    qdiscs: list[dict[str, Any]] = json.loads(shown or "[]")
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


if __name__ == "__main__":
    # ADDRESS PORT: what a killed job has left.
    restore_traffic(sys.argv[1], int(sys.argv[2]))
