"""Address and port of a server: those of an interface, and a free port."""

from __future__ import annotations

import ipaddress
import random
import socket

import psutil

from storewise.errors import ConfigError, EngineError

LOOPBACK = "lo"
AUTO = "auto"
#: Below Linux's usual range of ports for outgoing connections (32768-60999), so that none of
#: those takes a port between our look and the server's start.
PORTS = "20000-31999"


def addresses() -> dict[str, str]:
    """IPv4 address of each interface that is up."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    return {
        name: entry.address
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET and name in up
    }


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def address_of(interface: str, host: int = 0) -> str:
    """The IPv4 address that other hosts use for this one.

    `interface` is ``lo`` (loopback: all on one host), ``auto`` (the address of the host's name,
    else of the first interface that is not loopback), an interface's name, or a network such as
    ``10.1.0.0/16`` that one interface is in. On loopback, `host` counts addresses from 127.0.0.1.
    Raises ConfigError with this host's interfaces.
    """
    known = addresses()
    shown = ", ".join(f"{name} ({address})" for name, address in known.items()) or "none"
    if interface == LOOPBACK:
        return str(ipaddress.ip_address("127.0.0.1") + host)
    if interface == AUTO:
        try:
            named = socket.gethostbyname(socket.gethostname())
        except OSError:
            named = ""
        others = [address for address in known.values() if not is_loopback(address)]
        if named in others:
            return named
        if others:
            return others[0]
        raise ConfigError(
            f"interface: auto, but host {socket.gethostname()} has none but loopback: {shown}"
        )
    if "/" in interface:
        try:
            network = ipaddress.ip_network(interface, strict=False)
        except ValueError as error:
            raise ConfigError(f"interface: {interface!r} is not a network: {error}") from error
        for address in known.values():
            if ipaddress.ip_address(address) in network:
                return address
    elif interface in known:
        return known[interface]
    raise ConfigError(
        f"interface: host {socket.gethostname()} has no {interface!r}; it has: {shown}"
    )


def port_range(ports: str) -> range:
    """The ports of ``FIRST-LAST`` or ``PORT``; the usual range for an empty text."""
    first, _, last = (ports or PORTS).partition("-")
    try:
        numbers = range(int(first), int(last or first) + 1)
    except ValueError:
        numbers = range(0)
    if not numbers or numbers[0] < 1024 or numbers[-1] > 65535:
        raise ConfigError(
            f"ports: {ports!r} is not FIRST-LAST or PORT within 1024-65535; in a profile's "
            "set-resources such a text stands in two pairs of quotes: \"'25000-25999'\""
        )
    return numbers


def free_port(address: str, ports: str = "", avoid: frozenset[int] = frozenset()) -> int:
    """A random port of the range on which nobody listens at `address`; EngineError if none."""
    candidates = [port for port in port_range(ports) if port not in avoid]
    random.SystemRandom().shuffle(candidates)
    for port in candidates:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As servers do: a connection of an earlier server in TIME_WAIT is no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
    raise EngineError(
        f"host {socket.gethostname()} has no free port in {ports or PORTS} at {address}; end what "
        "listens there, or give other `ports` in the profile"
    )
