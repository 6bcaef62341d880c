"""The one connection of a process to S3, and what its errors mean.

Requests are tried again by botocore (mode "standard": refused connections, time-outs, throttling,
errors of the server), so an error that arrives here has lasted.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

import boto3
import botocore.session
from boto3.exceptions import Boto3Error, S3UploadFailedError
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    FlexibleChecksumError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    ResponseStreamingError,
)
from botocore.utils import parse_timestamp

from storewise.errors import StorewiseError
from storewise.s3.uri import Place

T = TypeVar("T")
R = TypeVar("R")

#: Seconds to wait for a connection, and for the next bytes of an answer.
CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
#: Tries of one request in all; the waits between them grow to 20 s.
TRIES = 5
#: Connections that are kept for the next request: more than a process has threads that ask.
CONNECTIONS = 256
#: Requests of one task that are under way at a time, each with its own connection.
AT_ONCE = 16

#: S3's answers to content that has not the checksum that came with it.
_SPOILT = {"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"}
#: Of an endpoint's URL, which errors name.
_PASSWORD = re.compile(r"//[^/\s]*@")


class ObjectError(StorewiseError):
    """An object or prefix on S3 cannot be read, written or listed."""


class NotThere(ObjectError):
    """No such object."""


class Changed(ObjectError):
    """The object has changed since it was listed or first read."""


class Spoilt(ObjectError):
    """The content that arrived, at S3 or from it, is not that which was sent."""


class NoUpload(ObjectError):
    """No such upload in parts: it was completed or ended."""


#: A client takes tenths of a second and megabytes to make; threads may ask for it at once.
_making = threading.RLock()
os.register_at_fork(
    before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release
)


def s3() -> Any:
    """This process's client. A child that was forked makes its own: connections are not shared."""
    with _making:
        return _client(os.getpid())


@cache
def _client(process: int) -> Any:
    core = botocore.session.get_session()
    parsers = core.get_component("response_parser_factory")
    parsers.set_parser_defaults(timestamp_parser=_time)
    try:
        with explained("S3"):
            return boto3.session.Session(botocore_session=core).client(
                "s3",
                config=Config(
                    connect_timeout=CONNECT_SECONDS,
                    read_timeout=READ_SECONDS,
                    retries={"total_max_attempts": TRIES, "mode": "standard"},
                    max_pool_connections=CONNECTIONS,
                ),
            )
    except ValueError as error:
        raise ObjectError(f"S3: {error}; check AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL") from error


def _time(value: Any) -> datetime:
    """A time of an answer. botocore's own way takes three quarters of the time of a listing."""
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return parse_timestamp(value)  # a header's, or no text


@contextmanager
def explained(where: Place | str) -> Iterator[None]:
    """A context that converts errors of boto3 to an ObjectError about `where`."""
    try:
        yield
    except (BotoCoreError, ClientError, Boto3Error) as error:
        raise error_of(where, error) from error


def error_of(where: Place | str, error: Exception) -> ObjectError:
    """The message for an error of boto3: its meaning, and what to do; no header or key of the
    request."""
    if isinstance(error, S3UploadFailedError) and isinstance(error.__context__, ClientError):
        error = error.__context__
    if isinstance(error, ClientError):
        return _refused(where, error)
    text = _PASSWORD.sub("//", str(error))
    if isinstance(error, NoCredentialsError | PartialCredentialsError | ProfileNotFound):
        return ObjectError(
            f"{where}: no AWS credentials ({text}); give some as for every AWS tool: the "
            "environment, ~/.aws/credentials, or a role of the instance"
        )
    if isinstance(error, NoRegionError):
        return ObjectError(
            f"{where}: no AWS region; set AWS_DEFAULT_REGION or `region` in ~/.aws/config"
        )
    if isinstance(error, FlexibleChecksumError):
        return Spoilt(f"{where}: what arrived has another checksum than what is stored")
    if isinstance(error, ResponseStreamingError):
        return ObjectError(f"{where}: the answer ended too early ({text})")
    if isinstance(error, EndpointConnectionError | ConnectionClosedError | HTTPClientError):
        return ObjectError(
            f"{where}: S3 does not answer after {TRIES} tries ({text}); check the network, the "
            "region, and AWS_ENDPOINT_URL_S3 where it is set"
        )
    return ObjectError(f"{where}: {text}")


def code_of(error: ClientError) -> str:
    """S3's name of an error; of a HEAD request, which has no body, the HTTP status."""
    return str(error.response.get("Error", {}).get("Code", ""))


def no_bucket(where: Place | str) -> ObjectError:
    """The error that the bucket of `where` is missing."""
    return ObjectError(f"{where}: there is no such bucket in this account and region")


def _refused(where: Place | str, error: ClientError) -> ObjectError:
    code = code_of(error)
    text = str(error.response.get("Error", {}).get("Message", "")) or code
    if code == "NoSuchBucket":
        return no_bucket(where)
    if code in ("NoSuchKey", "404", "NotFound"):
        return NotThere(f"{where}: there is no such object")
    if code == "NoSuchUpload":
        return NoUpload(f"{where}: the upload has gone; is another process at it? Try again")
    if code in _SPOILT:
        return Spoilt(
            f"{where}: what arrived had another checksum than what was sent, again and again; "
            "something on the way spoils it: check the network and proxies"
        )
    if code in ("PreconditionFailed", "412"):
        return Changed(f"{where}: the object was replaced while it was read")
    if code in ("AccessDenied", "403", "Forbidden", "AllAccessDisabled"):
        return ObjectError(
            f"{where}: access denied for {error.operation_name}; the credentials in use need "
            "s3:ListBucket on the bucket and s3:GetObject on its objects (and kms:Decrypt where a "
            "key of KMS encrypts them), to publish also those that "
            "docs/s3.md names (s3:PutObject, s3:PutObjectTagging, ...)"
        )
    if code in ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"):
        return ObjectError(f"{where}: the AWS credentials are not accepted ({code}): renew them")
    if code == "400" and error.operation_name.startswith("Head"):
        return ObjectError(
            f"{where}: S3 refuses to tell of it, and HEAD has no reason in its answer; most often "
            "the AWS credentials have expired: renew them"
        )
    if code == "RequestTimeTooSkewed":
        return ObjectError(f"{where}: this host's clock is wrong ({text}); set it")
    if code == "InvalidObjectState":
        return ObjectError(
            f"{where}: the object is archived and cannot be read; restore it first "
            "(`aws s3api restore-object`), or leave it out of the inputs"
        )
    if code in ("PermanentRedirect", "301", "AuthorizationHeaderMalformed"):
        return ObjectError(
            f"{where}: the bucket is in another region; set AWS_DEFAULT_REGION to its own"
        )
    return ObjectError(f"{where}: {error.operation_name} failed: {text} ({code})")


def in_threads(
    work: Callable[[T], R], things: Iterable[T], at_once: int = AT_ONCE
) -> Iterator[tuple[T, R]]:
    """Yield each thing with the result of `work`, as they are done.

    The first error is raised when what was under way has ended; nothing else is begun then, nor
    where the caller stops to listen.
    """
    with ThreadPoolExecutor(at_once) as pool:
        try:
            running = {pool.submit(work, thing): thing for thing in things}
            for future in as_completed(running):
                yield running.pop(future), future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
