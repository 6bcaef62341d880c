"""Objects as streams: which requests are made, what is resumed, and that two never mix."""

import random
import threading
import traceback

import pytest
from support.s3.faults import Cut, Flip, Lost, Reset, Stall, Status, Without

from storewise.errors import InputError
from storewise.s3 import client, stream
from storewise.s3.client import TRIES, Changed, NotThere, ObjectError, Spoilt
from storewise.s3.listing import stat, version
from storewise.s3.stream import Stopped, open_object, window
from storewise.s3.uri import parse
from storewise.ssearch.inputs.paths import list_inputs
from storewise.ssearch.inputs.scan import scan_file
from storewise.ssearch.parse.remote import Listed
from storewise.ssearch.parse.stream import open_input


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(stream, "WINDOW", 10_000)


def listed(uri):
    known = stat(parse(uri))
    return Listed(uri, known.size, known.mtime_ns)


def ranges(s3, target=""):
    return [r.headers.get("Range") for r in s3.faults.seen("GET", target)]


def test_a_stream_gives_what_is_stored(s3):
    made = random.Random(5)
    for size in (0, 1, 9_999, 10_000, 10_001, 45_678):
        data = made.randbytes(size)
        uri = s3.put("big.bin", data)
        with open_object(uri) as opened:
            assert opened.readable() and opened.name == uri
            parts = list(iter(lambda: opened.read(made.randrange(1, 20_000)), b""))
            assert opened.read() == opened.read(7) == b""
        assert b"".join(parts) == data and max(map(len, parts), default=0) <= 10_000
        with open_object(uri, listed(uri)) as opened:
            assert opened.read(3) + opened.read(0) + opened.read() == data
    first, *others = s3.faults.seen("GET", "big.bin")[-5:]
    assert ranges(s3)[-5:] == [
        "bytes=0-9999",
        "bytes=10000-19999",
        "bytes=20000-29999",
        "bytes=30000-39999",
        "bytes=40000-45677",
    ]
    # The first answer's ETag is a condition of all others.
    assert "If-Match" not in first.headers
    assert {r.headers["If-Match"] for r in others} == {stat(parse(uri)).etag}


def test_a_body_that_ends_too_early_is_resumed_where_it_broke(s3, monkeypatch):
    monkeypatch.setattr(stream, "_PIECE", 100)  # what may be lost of a body
    data = random.Random(6).randbytes(25_000)
    uri = s3.put("cut.bin", data)
    for fault in (Cut(1234), Cut(100), Stall(500, 1)):
        s3.faults.add(fault, target="cut.bin", method="GET")
    with open_object(uri) as opened:
        assert opened.read() == data
    starts = (0, 1234, 1334, 1834, 10_000, 20_000)
    assert ranges(s3) == [f"bytes={at}-{min(at // 10_000 * 10_000 + 9999, 24999)}" for at in starts]
    assert len({r.headers["If-Match"] for r in s3.faults.seen("GET")}) == 1
    # One that is always cut ends: with an error, not with half of the file.
    s3.faults.clear()
    s3.faults.add(Cut(1), target="cut.bin", method="GET", times=None)
    with (
        open_object(uri) as opened,
        pytest.raises(
            ObjectError,
            match=r"cut\.bin: the answer ended too early, 5 times \(.*check the network",
        ),
    ):
        opened.read()
    assert len(s3.faults.seen("GET", "cut.bin")) == TRIES


class Clock(threading.Event):
    """Seconds that were waited, none of which pass; ends at the last."""

    def __init__(self, last=None):
        super().__init__()
        self.waits, self._last = [], last

    def wait(self, timeout=None):
        self.waits.append(timeout)
        if len(self.waits) == self._last:
            self.set()
        return self.is_set()


def test_tries_are_further_and_further_apart_and_end_with_who_waits(s3, monkeypatch):
    monkeypatch.setattr(stream, "_WAIT", 0.1)
    uri = s3.put("k", bytes(1000))
    s3.faults.add(Cut(10), method="GET", times=None)
    drawn = iter([0.5, 1.5, 1.0, 1.0])
    monkeypatch.setattr(random, "uniform", lambda low, high: max(low, min(high, next(drawn))))
    clock = Clock()
    with pytest.raises(ObjectError, match="ended too early, 5 times"):
        window(parse(uri), 0, 1000, of=1000, stop=clock)
    assert clock.waits == pytest.approx([0.05, 0.3, 0.4, 0.8])
    drawn = iter([0.0, 9.0])
    s3.faults.requests.clear()
    with pytest.raises(Stopped):
        window(parse(uri), 0, 1000, of=1000, stop=(clock := Clock(last=2)))
    assert clock.waits == pytest.approx([0.05, 0.3]) and len(s3.faults.requests) == 2


def test_who_does_not_wait_any_longer_is_given_nothing_more(s3, monkeypatch):
    monkeypatch.setattr(stream, "_PIECE", 100)
    uri = s3.put("k", bytes(1000))
    stop = threading.Event()
    data, _ = window(parse(uri), 0, 1000, of=1000, stop=stop)
    assert data == bytes(1000)
    s3.faults.add(Lost(), when=lambda request: stop.set() or False)
    with pytest.raises(Stopped):
        window(parse(uri), 0, 1000, of=1000, stop=stop)


@pytest.mark.parametrize(
    "fault", [Reset(), Lost(), Status(503, "SlowDown"), Status(500), Flip(900), Cut(0), Stall(7, 1)]
)
def test_faults_that_pass_are_not_seen(s3, fault):
    data = random.Random(3).randbytes(1800)
    uri = s3.put("in/k", data)
    rule = s3.faults.add(fault, method="GET", target="in/")
    with open_object(uri) as opened:
        assert opened.read() == data
    assert rule.met == 1


@pytest.fixture
def few_tries(s3, monkeypatch):
    """botocore tries a request once."""
    monkeypatch.setattr(client, "TRIES", 1)
    client._client.cache_clear()
    yield
    client._client.cache_clear()


def test_a_busy_server_is_waited_for_longer_than_boto3_does(s3, few_tries):
    uri = s3.put("in/k", b"data")
    for code in ("SlowDown", "ServiceUnavailable", "InternalError", "503", "500"):
        rule = s3.faults.add(Status(503, code), method="GET", times=TRIES - 1)
        with open_object(uri) as opened:
            assert opened.read() == b"data"
        assert rule.met == TRIES - 1
    rule = s3.faults.add(Status(503), method="GET", times=None)
    with open_object(uri) as opened, pytest.raises(ObjectError, match=r"failed: as the test.*503"):
        opened.read()
    assert rule.met == TRIES


def test_faults_that_last_are_named_without_any_secret(s3, few_tries, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret-key")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "very-secret-token")
    client._client.cache_clear()
    uri = s3.put("in/k", bytes(1000))

    def message(kind, words, name=uri):
        with pytest.raises(kind, match=words) as error, open_input(name) as opened:
            opened.read(1 << 20)
        text = "".join(traceback.format_exception(error.value))
        assert name in text
        assert not any(word in text for word in ("very-secret", "Signature=", "AWS4-"))

    for fault, met, words in (
        (Status(403, "AccessDenied"), 1, "access denied.*s3:GetObject"),
        (Status(400, "ExpiredToken"), 1, r"not accepted \(ExpiredToken\): renew them"),
        (Status(503, "SlowDown"), TRIES, "SlowDown"),
    ):
        rule = s3.faults.add(fault, target="in/", method="GET", times=None)
        message(ObjectError, words)
        assert rule.met == met
        s3.faults.clear()
    rule = s3.faults.add(Flip(100), target="in/", method="GET", times=None)
    message(Spoilt, "what arrived has another checksum than what is stored")
    assert rule.met == TRIES
    s3.faults.clear()
    s3.faults.add(Status(400), target="in/", method="HEAD", times=None)
    message(ObjectError, "HEAD has no reason in its answer.*credentials have expired: renew them")
    s3.faults.clear()
    with s3.faults.down():
        message(ObjectError, "does not answer after 1 tries")
    with pytest.raises(ObjectError, match=r"s3://no-such-bucket-here/.*no such bucket"):
        list_inputs(["s3://no-such-bucket-here/in/"])
    message(InputError, r"in/none\.m10: there is no such object", f"{s3.uri}/in/none.m10")
    message(InputError, "this is a bucket; expected s3://BUCKET/KEY", s3.uri)


def test_an_object_that_is_replaced_is_never_read_as_one(s3):
    one, other = (bytes([i]) * 30_000 for i in (1, 2))
    uri = s3.put("swap.bin", one)
    before = listed(uri)
    with open_object(uri) as opened:
        opened.read(10_000)
        s3.put("swap.bin", other)
        with pytest.raises(Changed, match="replaced while it was read"):
            opened.read()
    # A server that knows no conditions does not mix them, either.
    with open_object(uri) as opened:
        opened.read(10_000)
        s3.put("swap.bin", one)
        s3.faults.add(Without("If-Match"), method="GET")
        with pytest.raises(Changed, match="replaced since it was listed"):
            opened.read()
    # The same size, and perhaps the same second, but another object than was listed.
    s3.put("swap.bin", other)
    assert before.mtime_ns != listed(uri).mtime_ns
    with pytest.raises(InputError, match="replaced since it was listed"):
        scan_file(uri, listed=before)
    # Another size, with or without a range that it still has.
    etag = stat(parse(uri)).etag
    for start, size in ((0, 20_000), (0, 10_000), (40_000, 10_000)):
        with pytest.raises(Changed, match="replaced since it was listed"):
            window(parse(uri), start, size, of=max(20_000, start + size), listed=version(etag))
    s3.delete("swap.bin")
    with pytest.raises(NotThere, match="no such object"):
        window(parse(uri), 0, 30_000, of=30_000, etag=etag)


def test_a_range_that_comes_too_short_or_too_long_is_asked_for_again(s3):
    data = random.Random(9).randbytes(1_000)
    uri = s3.put("k", data)
    # All of it, where only a part was asked for.
    s3.faults.add(Without("Range"), method="GET", times=2)
    got, etag = window(parse(uri), 100, 50, of=1_000)
    assert got == data[100:150] and etag == stat(parse(uri)).etag
    assert ranges(s3)[-3:] == ["bytes=100-149"] * 3
