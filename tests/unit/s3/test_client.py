"""What S3's answers and boto3's errors mean, the connection itself, and work in threads."""

import re
import threading
from types import SimpleNamespace

import boto3
import pyarrow.fs
import pytest
from boto3.exceptions import S3UploadFailedError
from botocore import exceptions
from support.s3.faults import Lost, Reset, Status

from storewise.s3 import arrow, client
from storewise.s3.client import (
    TRIES,
    Changed,
    NotThere,
    NoUpload,
    ObjectError,
    Spoilt,
    error_of,
    explained,
    in_threads,
)


@pytest.fixture
def own_client():
    """The test's own: what makes it differ, or wears it out, is no other test's."""
    client._client.cache_clear()
    yield
    client._client.cache_clear()


@pytest.mark.parametrize(
    "status, code, kind, words",
    [
        (404, "NoSuchBucket", ObjectError, "no such bucket in this account and region"),
        (404, "NoSuchKey", NotThere, "there is no such object"),
        (404, "NotFound", NotThere, "there is no such object"),
        (404, "", NotThere, "there is no such object"),
        (404, "NoSuchUpload", NoUpload, "the upload has gone"),
        (400, "BadDigest", Spoilt, "another checksum than what was sent"),
        (400, "InvalidDigest", Spoilt, "another checksum"),
        (400, "XAmzContentSHA256Mismatch", Spoilt, "another checksum"),
        (400, "XAmzContentChecksumMismatch", Spoilt, "another checksum"),
        (412, "PreconditionFailed", Changed, "replaced while it was read"),
        (412, "", Changed, "replaced while it was read"),
        (403, "AccessDenied", ObjectError, "denied for GetObject; .*s3:GetObject.*PutObjectTagg"),
        (403, "", ObjectError, "access denied for GetObject"),
        (403, "Forbidden", ObjectError, "access denied for GetObject"),
        (403, "AllAccessDisabled", ObjectError, "access denied for GetObject"),
        (403, "InvalidAccessKeyId", ObjectError, "not accepted .InvalidAccessKeyId.: renew them"),
        (403, "SignatureDoesNotMatch", ObjectError, "not accepted .SignatureDoesNotMatch.: renew"),
        (400, "ExpiredToken", ObjectError, "not accepted .ExpiredToken.: renew them"),
        (400, "InvalidToken", ObjectError, "not accepted .InvalidToken.: renew them"),
        (400, "", ObjectError, r"GetObject failed: as it said \(400\)"),
        (403, "RequestTimeTooSkewed", ObjectError, r"clock is wrong \(as it said\); set it"),
        (403, "InvalidObjectState", ObjectError, "archived .*restore it first"),
        (400, "AuthorizationHeaderMalformed", ObjectError, "another region; set AWS_DEFAULT_REG"),
        (409, "OperationAborted", ObjectError, r"GetObject failed: as it said \(OperationAborted"),
    ],
)
def test_an_answer_says_what_to_do(s3, status, code, kind, words):
    s3.faults.add(Status(status, code, "as it said"))
    with pytest.raises(ObjectError) as error, explained("s3://bucket/k"):
        client.s3().get_object(Bucket="bucket", Key="k")
    assert type(error.value) is kind
    assert re.match(rf"s3://bucket/k: .*{words}", str(error.value)), error.value
    assert len(s3.faults.requests) == 1 and s3.faults.waits == []


def refused(code):
    return exceptions.ClientError({"Error": {"Code": code}}, "PutObject")


def uploading(context):
    error = S3UploadFailedError("not sent")
    error.__context__ = context
    return error


NETWORK = r"S3 does not answer after 5 tries \(.*http://h/k.*\); check .*AWS_ENDPOINT_URL_S3"


@pytest.mark.parametrize(
    "error, kind, words",
    [
        (exceptions.NoCredentialsError(), ObjectError, "no AWS credentials .*~/.aws/credentials"),
        (
            exceptions.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
            ObjectError,
            r"no AWS credentials \(.*AWS_SECRET_ACCESS_KEY\); give some",
        ),
        (exceptions.ProfileNotFound(profile="mine"), ObjectError, r"no AWS credentials .*\(mine"),
        (exceptions.NoRegionError(), ObjectError, "no AWS region; set AWS_DEFAULT_REGION"),
        (exceptions.FlexibleChecksumError(error_msg=""), Spoilt, "what arrived has another checks"),
        (exceptions.EndpointConnectionError(endpoint_url="http://me:pw@h/k"), ObjectError, NETWORK),
        (exceptions.ConnectionClosedError(endpoint_url="http://h/k"), ObjectError, NETWORK),
        (exceptions.ReadTimeoutError(endpoint_url="http://h/k"), ObjectError, NETWORK),
        (exceptions.ResponseStreamingError(error="cut"), ObjectError, r"ended too early \(.*cut\)"),
        (exceptions.InvalidRegionError(region_name="no one"), ObjectError, "Provided region_name"),
        (uploading(refused("NoSuchUpload")), NoUpload, "the upload has gone"),
        (uploading(None), ObjectError, "not sent"),
        (refused("Odd"), ObjectError, r"PutObject failed: Odd \(Odd\)"),
        (exceptions.ClientError({}, "PutObject"), ObjectError, r"PutObject failed:  \(\)"),
    ],
)
def test_an_error_of_boto3_says_what_to_do(error, kind, words):
    told = error_of("s3://bucket/k", error)
    assert type(told) is kind
    assert re.match(rf"s3://bucket/k: .*{words}", str(told)), told
    assert "pw" not in str(told)


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("AWS_PROFILE", "nobody", r"S3: no AWS credentials \(.*nobody"),
        ("AWS_ENDPOINT_URL_S3", "no address", "S3: Invalid endpoint: no address; check AWS_ENDP"),
    ],
)
def test_a_connection_that_cannot_be_made(s3, own_client, monkeypatch, name, value, words):
    monkeypatch.setenv(name, value)
    with pytest.raises(ObjectError, match=words):
        client.s3()


def test_one_connection_for_all_threads_that_tries_again(s3, own_client):
    assert len({id(made) for _, made in in_threads(lambda _: client.s3(), range(20))}) == 1
    settings = client.s3().meta.config
    assert (settings.connect_timeout, settings.read_timeout) == (10, 60)
    assert settings.max_pool_connections == 256, "as many as a process has threads that ask"
    s3.put("k", b"x")
    for fault in (Reset(), Lost(), Status(503, "SlowDown"), Status(500), Status(502), Status(504)):
        s3.faults.clear()
        s3.faults.add(fault, times=TRIES - 1)
        assert client.s3().get_object(Bucket="bucket", Key="k")["Body"].read() == b"x", fault
        assert len(s3.faults.requests) == TRIES == 5
    assert len(s3.faults.waits) == 6 * 4 and all(0 <= wait <= 20 for wait in s3.faults.waits)
    s3.faults.clear()
    why = "does not answer after 5 tries"
    with s3.faults.down(), pytest.raises(ObjectError, match=why), explained("s3://bucket/k"):
        client.s3().get_object(Bucket="bucket", Key="k")
    assert len(s3.faults.requests) == 5


def test_work_in_threads_gives_each_thing_with_its_result():
    assert sorted(in_threads(lambda x: x * x, range(40))) == [(x, x * x) for x in range(40)]
    assert list(in_threads(str, [])) == []
    # So many at once, and no more: each waits for the others of its turn.
    for wanted, many in ((16, {}), (3, {"at_once": 3})):
        turn, lock, now, most = threading.Barrier(wanted), threading.Lock(), 0, 0

        def work(thing, turn=turn, lock=lock):
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            turn.wait(timeout=60)
            with lock:
                now -= 1

        assert len(list(in_threads(work, range(2 * wanted), **many))) == 2 * wanted
        assert most == wanted


@pytest.mark.parametrize("ends", ["error", "listener"])
def test_nothing_is_begun_after_an_error_or_for_nobody(ends):
    begun, ended, workers = [], [], set()

    def work(thing):
        workers.add(threading.current_thread())
        begun.append(thing)
        if thing == 0 and ends == "error":
            raise ValueError("mine")
        if thing > 1:
            threading.Event().wait(0.01)
        ended.append(thing)

    results = in_threads(work, range(1000), at_once=2)
    if ends == "error":
        with pytest.raises(ValueError, match="mine"):
            list(results)
        ended.append(0)
    else:
        next(results)
        results.close()
    assert sorted(ended) == sorted(begun), "what was under way has ended"
    assert len(begun) < 500
    assert not any(worker.is_alive() for worker in workers)


KEYS = {"access_key": "test", "secret_key": "test", "session_token": None}
NEAR = {"endpoint_override": "127.0.0.1:1", "scheme": "http"}
OTHER = {"endpoint_override": "a-amazonaws.com", "scheme": "https"}


@pytest.mark.parametrize(
    "endpoint, method, expected",
    [
        ("http://127.0.0.1:1", "env", KEYS | NEAR),
        ("https://s3.eu-north-1.amazonaws.com", "env", KEYS),
        # A role's keys end: Arrow finds and renews them itself.
        ("https://s3.cn-north-1.amazonaws.com.cn", "iam-role", {}),
        ("https://a-amazonaws.com", None, OTHER),
    ],
)
def test_arrow_goes_the_same_way(s3, monkeypatch, endpoint, method, expected):
    meta = SimpleNamespace(endpoint_url=endpoint, region_name="eu-north-1")
    monkeypatch.setattr(arrow, "s3", lambda: SimpleNamespace(meta=meta))
    if method != "env":
        known = SimpleNamespace(method=method) if method else None
        monkeypatch.setattr(boto3.session.Session, "get_credentials", lambda self: known)
    made = []
    monkeypatch.setattr(pyarrow.fs, "S3FileSystem", lambda **given: made.append(given) or made)
    arrow._file_system.cache_clear()
    assert arrow.file_system() is arrow.file_system() is made
    arrow._file_system.cache_clear()
    given = {"region": "eu-north-1", "connect_timeout": 10, "request_timeout": 60}
    assert made == [expected | given]
