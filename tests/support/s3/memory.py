"""S3 in this process: botocore's requests end at moto, and no socket is opened.

botocore asks handlers of its event `before-send` for the answer before it opens a connection. What
comes before (parameters, checksums, signing) and after it (tries, errors, bodies that are read as
they come) is botocore's and urllib3's own.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError, EndpointConnectionError
from botocore.handlers import BUILTIN_HANDLERS
from botocore.loaders import JSONFileLoader
from moto.backends import get_backend
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.exceptions import HTTPException
from moto.core.request import normalize_request
from moto.s3.responses import S3Response
from support.s3.faults import (
    Cut,
    Delay,
    Flip,
    Lost,
    Request,
    Reset,
    Rules,
    Stall,
    Status,
    Together,
    Without,
    environment,
    error_text,
    flipped,
    wrong_checksum,
)
from support.s3.server import Bucket

from storewise.s3 import client, stream

#: Keys of a page of a listing.
PAGE = 5
#: Nothing listens there: of the tested code, and of the test's own client.
ENDPOINT = "http://127.0.0.1:1"
AROUND = "http://127.0.0.1:2"
AMAZON = "http://s3.amazonaws.com"


class Memory(Rules):
    """Answers the tested code's requests, spoiled as a test asks for. `waits` are the seconds that
    botocore would have slept between its tries."""

    def __init__(self):
        super().__init__()
        self.waits: list[float] = []
        self._down = False

    @contextmanager
    def down(self):
        """Within, connections are refused."""
        self._down = True
        try:
            yield
        finally:
            self._down = False

    def answer(self, request):
        sent = _sent(request, ENDPOINT)
        target = unquote(sent.url).removeprefix(AMAZON)
        met = self.meet(Request(sent.method, target, dict(sent.headers)))
        if self._down:
            raise EndpointConnectionError(endpoint_url=request.url)
        fault = next((fault for fault in met if not isinstance(fault, Delay)), None)
        match fault:
            case Together(barrier):
                barrier.wait(timeout=20)
            case Reset():
                raise ConnectionClosedError(endpoint_url=request.url)
            case Status():
                return _error(request, fault)
            case Without(header):
                del sent.headers[header]
            case Flip(at, sent=True):
                sent.body = flipped(sent.body, at)
        # That of a completed multipart upload (POST) is of the object, not of its body.
        if sent.method == "PUT" and (wrong := wrong_checksum(sent.headers, sent.body)):
            return _error(request, Status(400, "BadDigest", wrong))
        status, headers, data = _moto(sent)
        if isinstance(fault, Lost):
            raise ConnectionClosedError(endpoint_url=request.url)
        if isinstance(fault, Flip) and not fault.sent:
            data = flipped(data, fault.at)
        return _response(request, status, headers, data, fault)


_memory: list[Memory] = []


def _before_send(request, **_):
    """A fake connection; clients of any other endpoint open a real one."""
    if request.url.startswith(ENDPOINT + "/"):
        return _memory[-1].answer(request)
    if request.url.startswith(AROUND + "/"):
        return _response(request, *_moto(_sent(request, AROUND)))
    return None


BUILTIN_HANDLERS.append(("before-send.s3", _before_send))


def _sent(request, endpoint):
    """What goes over the connection: addressed to Amazon, as moto wants it, with its whole body."""
    body = request.body
    if hasattr(body, "read"):
        body = body.read()  # as over a socket: the rest of it, botocore rewinds for another try
    headers = HTTPHeaders()
    for name, value in request.headers.items():
        headers[name] = value.decode() if isinstance(value, bytes) else value
    url = request.url.replace(endpoint, AMAZON, 1)
    return AWSPreparedRequest(request.method, url, headers, body or b"", request.stream_output)


def _moto(sent):
    """The answer of moto's S3, whose search for the service of an address would cost as much."""
    request = normalize_request(sent)
    key = urlsplit(sent.url).path[1:].partition("/")[2]
    dispatch = S3Response.key_dispatch if key else S3Response.ambiguous_dispatch
    try:
        status, headers, body = dispatch(request, request.raw_url, request.headers)
    except HTTPException as error:
        status, headers, body = error.code, error.get_headers(), error.get_body()
    data = body.encode() if isinstance(body, str) else body
    return status, {name: str(value) for name, value in dict(headers).items()}, data


class _Body(io.BytesIO):
    """What comes over a connection that stays silent after a `Stall`."""

    silent = False

    def read(self, size=-1, /):
        data = super().read(size)
        if not data and self.silent:
            raise TimeoutError("timed out")
        return data

    read1 = read


def _response(request, status, headers, data, fault=None):
    from urllib3 import HTTPResponse

    headers = {"content-length": str(len(data))} | {k.lower(): v for k, v in headers.items()}
    if isinstance(fault, Cut | Stall):
        data = data[: fault.after]
    body = _Body(b"" if request.method == "HEAD" else data)
    body.silent = isinstance(fault, Stall)
    raw = HTTPResponse(
        body,
        headers,
        status,
        preload_content=False,
        decode_content=False,
        request_method=request.method,
    )
    return AWSResponse(request.url, status, raw.headers, raw)


def _error(request, fault):
    content = {"Content-Type": "application/xml"}
    return _response(request, fault.status, content, error_text(fault).encode())


@cache
def _around():
    return boto3.session.Session(
        aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1"
    ).client("s3", endpoint_url=AROUND, config=Config(s3={"addressing_style": "path"}))


#: botocore's descriptions of S3, which take most of the time of making a client.
_load_file = staticmethod(cache(JSONFileLoader().load_file))


@pytest.fixture
def s3(monkeypatch):
    """An empty bucket in this process; its environment leads there. No wait takes time."""
    memory = Memory()
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment(ENDPOINT).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", str(PAGE))
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=memory.waits.append))
    monkeypatch.setattr(stream, "_WAIT", 0.0)
    monkeypatch.setattr(JSONFileLoader, "load_file", _load_file)
    _memory.append(memory)
    _around().create_bucket(Bucket="bucket")
    # A client takes a tenth of a second to make; a test that changes its settings clears it.
    if client.s3().meta.endpoint_url != ENDPOINT:
        client._client.cache_clear()
    yield Bucket(_around(), "bucket", memory)
    _memory.pop()
    get_backend("s3")[DEFAULT_ACCOUNT_ID]["aws"].reset()
