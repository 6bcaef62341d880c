"""The host's EC2 instance, from the instance metadata service, version 2 (IMDSv2).

A session token is requested by PUT and sent with every GET (Amazon EC2 User Guide, "Use IMDSv2").
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
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from storewise.errors import StorewiseError

_log = logging.getLogger(__name__)

ENDPOINT = "http://169.254.169.254"
ENDPOINT_IPV6 = "http://[fd00:ec2::254]"
DMI = Path("/sys/class/dmi/id")
#: On instances of the older hypervisor, Xen.
HYPERVISOR = Path("/sys/hypervisor/uuid")
#: Seconds to wait for an answer, which takes a millisecond.
TIMEOUT = 1.0
#: Bytes read of an answer: what else listens there may send without end.
MAX_ANSWER = 65_536
#: Lifetime of a token in s, the longest that is allowed.
TOKEN_SECONDS = 21_600
#: An interruption is announced at most this many s ahead (spot: 120), whatever clocks say.
MAX_NOTICE_SECONDS = 600.0
#: Seconds between two polls for an interruption; EC2 announces it two minutes before.
POLL_SECONDS = 5.0
_DOCUMENT = "/latest/dynamic/instance-identity/document"
SPOT = "spot"


class MetadataError(StorewiseError):
    """The instance metadata service gave no answer or an invalid one."""


@dataclass(frozen=True, slots=True)
class Instance:
    """The facts about an instance that results record.

    `life_cycle` is EC2's word: ``on-demand``, ``spot``, ``scheduled`` or ``capacity-block``.
    """

    type: str
    zone: str
    region: str
    image: str
    life_cycle: str


@dataclass(frozen=True, slots=True)
class Interruption:
    """A spot interruption notice: the action (terminate, stop, hibernate) and its time (ISO 8601,
    UTC)."""

    action: str
    time: str

    @property
    def at(self) -> float:
        """`time` as Unix time, at most `MAX_NOTICE_SECONDS` from now; 0 if it is invalid."""
        try:
            at = datetime.fromisoformat(self.time).timestamp()
        except ValueError:
            return 0.0
        return min(at, time.time() + MAX_NOTICE_SECONDS)


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
    ipv6 = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "").lower() == "ipv6"
    default = ENDPOINT_IPV6 if ipv6 else ENDPOINT
    return os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or default


class Metadata:
    """A client of the metadata service of this host; each method raises MetadataError."""

    def __init__(self, endpoint: str | None = None) -> None:
        self.endpoint = endpoint or _endpoint()
        self._token = ""

    def instance(self) -> Instance:
        """Type, place, image and life cycle of this instance."""
        keys = ("instanceType", "availabilityZone", "region", "imageId")
        values = self._get_json(_DOCUMENT, keys)
        if values is None:
            raise MetadataError(f"{self.endpoint}{_DOCUMENT}: status 404")
        kind, zone, region, image = values
        life_cycle = self._get("/latest/meta-data/instance-life-cycle") or "unknown"
        return Instance(kind, zone, region, image, life_cycle)

    def interruption(self) -> Interruption | None:
        """The interruption that EC2 has announced; None while there is none (404)."""
        values = self._get_json("/latest/meta-data/spot/instance-action", ("action", "time"))
        return None if values is None else Interruption(*values)

    def _get_json(self, path: str, keys: tuple[str, ...]) -> list[str] | None:
        """The values of some keys of the JSON object at a path; None where there is none."""
        text = self._get(path)
        try:
            document: Any = None if text is None else json.loads(text)
            return None if text is None else [str(document[key]) for key in keys]
        except (ValueError, KeyError, TypeError) as error:
            raise MetadataError(
                f"{self.endpoint}{path}: no object with {', '.join(keys)} ({error!r})"
            ) from error

    def _get(self, path: str) -> str | None:
        """The text at a path; None where there is none."""
        status = 401
        for _ in range(2):
            if not self._token:
                self._token = self._new_token()
            status, text = self._request("GET", path, {"X-aws-ec2-metadata-token": self._token})
            if status == 200:
                return text
            if status == 404:
                return None
            self._token = ""  # 401: it has expired
        raise MetadataError(f"{self.endpoint}{path}: status {status}")

    def _new_token(self) -> str:
        path = "/latest/api/token"
        header = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
        status, token = self._request("PUT", path, header)
        if status != 200 or not token.isprintable():
            raise MetadataError(f"{self.endpoint}{path}: no token of IMDSv2 (status {status})")
        return token

    def _request(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        # Imported here: most hosts are not on EC2. Not urllib, which uses proxies of the
        # environment: a token must not go to one.
        from http.client import HTTPConnection, HTTPException

        try:
            parts = urlsplit(self.endpoint)
            if parts.scheme != "http" or not parts.hostname:
                raise ValueError("is no address such as http://127.0.0.1:1338")
            # Without a port, HTTPConnection takes the end of an IPv6 address for one.
            connection = HTTPConnection(parts.hostname, parts.port or 80, timeout=TIMEOUT)
            with closing(connection):
                connection.request(method, parts.path.rstrip("/") + path, headers=headers)
                response = connection.getresponse()
                text = response.read(MAX_ANSWER).decode("utf-8", errors="replace")
                return response.status, text.strip()
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
    """The price list that applies to an instance's life cycle."""
    return "spot" if life_cycle == SPOT else "on_demand"


class InterruptionWatch:
    """Polls for a spot interruption of this host every few seconds; only on spot instances."""

    def __init__(
        self, every: float = POLL_SECONDS, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every, self._clock = every, clock
        host = instance()
        self._metadata = Metadata() if host is not None and host.life_cycle == SPOT else None
        self._next = 0.0
        self.at = 0.0
        """Unix time of the interruption, once announced."""

    def reason(self) -> str | None:
        """Why the trial must end; None without an interruption, or if the service is silent."""
        if self._metadata is None or self._clock() < self._next:
            return None
        self._next = self._clock() + self._every
        try:
            notice = self._metadata.interruption()
        except MetadataError as error:
            _log.warning("cannot tell whether there is a spot interruption: %s", error)
            return None
        if notice is None:
            return None
        self.at = notice.at
        return f"EC2 takes back host {socket.gethostname()} (spot interruption at {notice.time})"
