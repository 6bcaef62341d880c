"""Faults of S3 that a test asks for, and a proxy that brings some of them over real sockets."""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import sys
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import NamedTuple
from urllib.parse import unquote

#: Headers of one connection, not of what goes over it (RFC 9110, 7.6.1).
_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "date", "server"}


def environment(endpoint):
    return {
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class Reset(NamedTuple):
    """The connection is reset before any answer."""


class Lost(NamedTuple):
    """The request is carried out, and the connection reset before any answer."""


class Delay(NamedTuple):
    """The answer comes `seconds` late."""

    seconds: float


class Together(NamedTuple):
    """The answer comes when as many requests wait for theirs as the barrier has parties."""

    barrier: threading.Barrier


class Cut(NamedTuple):
    """The connection ends after `after` bytes of the answer's body; its length promised more."""

    after: int


class Stall(NamedTuple):
    """After `after` bytes of the answer's body nothing comes for `seconds`; then the rest."""

    after: int
    seconds: float


class Flip(NamedTuple):
    """Byte `at` of the answer's body (of the request's, with `sent`) is another."""

    at: int
    sent: bool = False


class Status(NamedTuple):
    """S3 answers with an error."""

    status: int
    code: str = ""
    message: str = "as the test asked"


class Without(NamedTuple):
    """A server that does not know this header of the request (in memory only)."""

    header: str


Fault = Reset | Lost | Delay | Together | Cut | Stall | Flip | Status | Without


class Request(NamedTuple):
    """What the proxy saw: `target` is path and query as sent, unquoted."""

    method: str
    target: str
    headers: Mapping[str, str]


@dataclass
class _Rule:
    fault: Fault
    method: str
    target: re.Pattern[str]
    left: int | None
    skip: int
    when: Callable[[Request], bool] | None
    #: Requests that it spoiled.
    met: int = field(default=0)


class Rules:
    """Faults to inject, and `requests`: all requests so far, in their order."""

    def __init__(self):
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self.requests: list[Request] = []

    def add(self, fault, *, method="", target="", times=1, skip=0, when=None):
        """Spoils `times` requests (None: all) after the first `skip` of those with this method,
        whose path and query (unquoted) have the regular expression `target` in them, and of which
        `when` says so. Of several rules that hold, each Delay and the first other one counts."""
        rule = _Rule(fault, method, re.compile(target), times, skip, when)
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self):
        with self._lock:
            self._rules.clear()
            self.requests.clear()

    def seen(self, method="", target=""):
        """The requests with this method in whose path and query `target` is found."""
        with self._lock:
            return [
                request
                for request in self.requests
                if method in ("", request.method) and re.search(target, request.target)
            ]

    def meet(self, request):
        """What a request meets, for whoever answers it."""
        result: list[Fault] = []
        with self._lock:
            self.requests.append(request)
            for rule in self._rules:
                if (
                    rule.left == 0
                    or rule.method not in ("", request.method)
                    or not rule.target.search(request.target)
                    or (rule.when is not None and not rule.when(request))
                    or not (isinstance(rule.fault, Delay) or all(type(f) is Delay for f in result))
                ):
                    continue
                if rule.skip:
                    rule.skip -= 1
                    continue
                if rule.left is not None:
                    rule.left -= 1
                rule.met += 1
                result.append(rule.fault)
        return result


class Faults(Rules):
    """A proxy in front of a server (`upstream`, its endpoint) over real sockets. It knows the
    faults Delay, Stall and Status; the others are those of `memory.Memory`."""

    def __init__(self, upstream):
        super().__init__()
        self._upstream = upstream.removeprefix("http://")
        #: Requests that are being answered.
        self.answering = 0

    def __enter__(self):
        self._server = _Listener(("127.0.0.1", 0), _Handler)
        self._server.faults = self
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self):
        return environment(self.endpoint)

    @contextmanager
    def counted(self):
        with self._lock:
            self.answering += 1
        try:
            yield
        finally:
            with self._lock:
                self.answering -= 1

    def forward(self, method, target, headers, body):
        upstream = http.client.HTTPConnection(self._upstream, timeout=300)
        try:
            upstream.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if name.lower() not in (_HOP | {"content-length"}):
                    upstream.putheader(name, value)
            if body or method in ("PUT", "POST"):
                upstream.putheader("Content-Length", str(len(body)))
            upstream.endheaders(body or None)
            answer = upstream.getresponse()
            data = answer.read()
            return answer.status, answer.getheaders(), data
        finally:
            upstream.close()


class _Listener(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """A client that goes away in the middle is nothing to print."""
        if not isinstance(sys.exc_info()[1], ConnectionError | ValueError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        return  # tests read the list of requests; the server's own log is not needed

    def _serve(self):
        faults = self.server.faults
        with faults.counted():
            body, stall = self._body(), None
            headers = dict(self.headers.items())
            for fault in faults.meet(Request(self.command, unquote(self.path), headers)):
                match fault:
                    case Delay(seconds):
                        time.sleep(seconds)
                    case Status():
                        text = error_text(fault).encode()
                        self._answer(fault.status, [("Content-Type", "application/xml")], text)
                        return
                    case Stall():
                        stall = fault
            self._answer(*faults.forward(self.command, self.path, headers, body), stall)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815

    def _answer(self, status, headers, data, stall=None):
        head = self.command == "HEAD"
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        if "content-length" not in {name.lower() for name, _ in headers} and status != 204:
            self.send_header("Content-Length", "0" if head else str(len(data)))
        self.end_headers()
        if stall is not None:
            self.wfile.write(data[: stall.after])
            self.wfile.flush()
            time.sleep(stall.seconds)
            data = data[stall.after :]
        self.wfile.write(b"" if head else data)

    def _body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                continue  # trailers
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))


def error_text(fault):
    code = fault.code or fault.status
    return f"<Error><Code>{code}</Code><Message>{fault.message}</Message></Error>"


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if at < len(data) else data


def wrong_checksum(headers, body):
    """What is wrong with a checksum that a request brings in its headers; empty where nothing."""
    values = {name.lower(): value for name, value in headers.items()}
    if "aws-chunked" in values.get("content-encoding", ""):
        return ""  # the checksum is of what the chunks hold
    sums = {
        "x-amz-checksum-sha256": lambda: hashlib.sha256(body).digest(),
        "x-amz-checksum-crc32": lambda: zlib.crc32(body).to_bytes(4, "big"),
        "content-md5": lambda: hashlib.md5(body).digest(),
    }
    for name, digest in sums.items():
        if name in values and base64.b64encode(digest()).decode() != values[name]:
            return f"the {name} you specified did not match what we received"
    return ""
