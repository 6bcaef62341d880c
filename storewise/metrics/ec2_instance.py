"""The EC2 instance that a host is, from its instance metadata service, version 2.

A session token comes by PUT, everything else by GET with it (Amazon EC2 User Guide, "Use IMDSv2").
The service has a link-local address that nothing answers elsewhere, so it is asked only where the
firmware says that this is EC2, or where ``AWS_EC2_METADATA_SERVICE_ENDPOINT`` names another
address; ``AWS_EC2_METADATA_DISABLED=true`` forbids it, as for all AWS tools.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from storewise.errors import StorewiseError

_log = logging.getLogger(__name__)

ENDPOINT = "http://169.254.169.254"
ENDPOINT_IPV6 = "http://[fd00:ec2::254]"
DMI = Path("/sys/class/dmi/id")
#: Hosts of the older hypervisor, Xen, have this one.
HYPERVISOR = Path("/sys/hypervisor/uuid")
#: Seconds for an answer, which takes a millisecond from the host itself.
TIMEOUT = 1.0
#: No answer that is asked for is longer; whatever else listens there may never end.
MOST_BYTES = 65_536
#: How long a token is asked to hold, in s: the longest time there is.
TOKEN_SECONDS = 21_600
#: An interruption is at most that far ahead, in s (spot: 120); else clocks or texts are wrong.
FARTHEST = 600.0
#: Seconds between two looks for an interruption. EC2 says so two minutes before, and recommends 5.
LOOK_EVERY = 5.0
_TOKEN = "/latest/api/token"
_DOCUMENT = "/latest/dynamic/instance-identity/document"
_LIFE_CYCLE = "/latest/meta-data/instance-life-cycle"
_SPOT_ACTION = "/latest/meta-data/spot/instance-action"
SPOT = "spot"


class MetadataError(StorewiseError):
    """The instance metadata service did not answer, or with something else than metadata."""


@dataclass(frozen=True, slots=True)
class Instance:
    """What a reader of the results wants to know of an instance.

    `life_cycle` is EC2's word: ``on-demand``, ``spot``, ``scheduled`` or ``capacity-block``.
    """

    type: str
    zone: str
    region: str
    image: str
    life_cycle: str


@dataclass(frozen=True, slots=True)
class Notice:
    """EC2's word that it takes an instance back: what it does (terminate, stop, hibernate), when
    (ISO 8601, UTC)."""

    action: str
    time: str

    @property
    def at(self) -> float:
        """The same as Unix time, at most `FARTHEST` from now; 0 where it is no time."""
        try:
            return min(datetime.fromisoformat(self.time).timestamp(), time.time() + FARTHEST)
        except ValueError:
            return 0.0


def on_ec2() -> bool:
    """Whether there is a metadata service to ask. Reads small files, never the network."""
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return False
    if os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        return True
    if _text(DMI / "sys_vendor").startswith("Amazon EC2"):
        return True
    # Amazon EC2 User Guide, "Determine whether your instance is an EC2 instance".
    return any(_text(path).lower().startswith("ec2") for path in (DMI / "product_uuid", HYPERVISOR))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # not there, or only for root
        return ""


def _endpoint() -> str:
    if endpoint := os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        return endpoint
    ipv6 = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "").lower() == "ipv6"
    return ENDPOINT_IPV6 if ipv6 else ENDPOINT


class Metadata:
    """A client of the metadata service of this host; each method raises MetadataError."""

    def __init__(self, endpoint: str | None = None) -> None:
        self.endpoint = endpoint or _endpoint()
        self._token = ""

    def instance(self) -> Instance:
        """Type, place, image and life cycle of this instance."""
        keys = ("instanceType", "availabilityZone", "region", "imageId")
        kind, zone, region, image = self._values(
            _DOCUMENT, self._get(_DOCUMENT), keys, "instance identity document"
        )
        return Instance(kind, zone, region, image, self._get(_LIFE_CYCLE) or "unknown")

    def spot_action(self) -> Notice | None:
        """The interruption that EC2 has announced; None while there is none (404)."""
        if (text := self._get(_SPOT_ACTION)) is None:
            return None
        keys = ("action", "time")
        return Notice(*self._values(_SPOT_ACTION, text, keys, "spot instance action"))

    def _values(self, path: str, text: str | None, keys: Sequence[str], what: str) -> list[str]:
        """The values of some keys of the JSON object that was read at a path."""
        try:
            document = json.loads(text or "")
            return [str(document[key]) for key in keys]
        except (ValueError, KeyError, TypeError) as error:
            raise MetadataError(f"{self.endpoint}{path}: no {what} ({error!r})") from error

    def _get(self, path: str) -> str | None:
        """The text at a path, None where there is none."""
        for _ in range(2):
            if not self._token:
                header = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
                status, self._token = self._ask("PUT", _TOKEN, header)
                if status != 200 or not self._token.isprintable():
                    self._token = ""
                    raise MetadataError(
                        f"{self.endpoint}{_TOKEN}: no token of instance metadata, version 2 "
                        f"(status {status})"
                    )
            status, text = self._ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
            if status != 401:
                break
            self._token = ""  # it has expired
        if status == 404:
            return None
        if status != 200:
            raise MetadataError(f"{self.endpoint}{path}: status {status}")
        return text

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        # Here, because most hosts are none of EC2. Not urllib: a proxy of the environment must
        # never see a question to this address.
        from http.client import HTTPConnection, HTTPException

        try:
            parts = urlsplit(self.endpoint)
            if parts.scheme != "http" or not parts.hostname:
                raise ValueError("is no address such as http://127.0.0.1:1338")
            # Without a port, HTTPConnection takes the end of an IPv6 address for one.
            connection = HTTPConnection(parts.hostname, parts.port or 80, timeout=TIMEOUT)
            with closing(connection):
                connection.request(method, parts.path.rstrip("/") + path, headers=headers)
                answer = connection.getresponse()
                text = answer.read(MOST_BYTES).decode("utf-8", errors="replace")
                return answer.status, text.strip()
        except (OSError, HTTPException, ValueError) as error:
            raise MetadataError(
                f"{self.endpoint}{path}: {error or type(error).__name__}"
            ) from error


@cache
def instance() -> Instance | None:
    """The instance that this host is, asked once in a process; None elsewhere, and where the
    metadata service gives no answer, which is logged."""
    if not on_ec2():
        return None
    try:
        return Metadata().instance()
    except MetadataError as error:
        _log.warning("instance metadata are not known: %s", error)
        return None


def market(life_cycle: str) -> Literal["on_demand", "spot"]:
    """The class of prices that an instance's life cycle means."""
    return "spot" if life_cycle == SPOT else "on_demand"


class Interruption:
    """Whether EC2 takes this host back: looked up every few seconds, on spot instances only."""

    def __init__(
        self, every: float = LOOK_EVERY, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        host = instance()
        self._metadata = Metadata() if host is not None and host.life_cycle == SPOT else None
        self._every = every
        self._next = 0.0
        self.at = 0.0
        """When the host goes (Unix time), once there is a reason."""

    def reason(self) -> str | None:
        """Why the trial ends, in words; None while the host stays.

        A look that gets no answer says nothing: it must not end a trial.
        """
        if self._metadata is None or self._clock() < self._next:
            return None
        self._next = self._clock() + self._every
        try:
            notice = self._metadata.spot_action()
        except MetadataError as error:
            _log.warning("no word on an interruption: %s", error)
            return None
        if notice is None:
            return None
        self.at = notice.at
        return f"EC2 takes back host {socket.gethostname()} (spot interruption at {notice.time})"
