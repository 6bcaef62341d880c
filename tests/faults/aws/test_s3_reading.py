"""Objects as streams and fetched ahead, over a real socket, and what goes wrong there."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import traceback
from contextlib import ExitStack

import pytest
from support.paths import ROOT, SAMPLE, SMALL
from support.s3.server import Cut, Delay, Flip, Reset, Stall, Status, Together

from storewise.errors import InputError
from storewise.s3 import client
from storewise.s3 import prefetch as ahead
from storewise.s3 import stream as reading
from storewise.s3.client import TRIES, Changed, ObjectError, in_threads
from storewise.s3.listing import stats
from storewise.s3.uri import parse
from storewise.ssearch.inputs.paths import list_inputs
from storewise.ssearch.inputs.scan import scan_file
from storewise.ssearch.parse.remote import Listed, fetched_ahead
from storewise.ssearch.parse.stream import open_input


def listed(uris):
    """`uris` as S3 lists them now."""
    result = stats(sorted(uris))
    return [Listed(uri, result[uri].size, result[uri].mtime_ns) for uri in uris]


def content(uri):
    with open_input(uri) as stream:
        return b"".join(iter(lambda: stream.read(1 << 20), b""))


# --- Reading


@pytest.fixture
def small_windows(monkeypatch):
    for module in (reading, ahead):
        monkeypatch.setattr(module, "WINDOW", 10_000)
    monkeypatch.setattr(reading, "_WAIT", 0.001)


def test_a_stream_gives_what_is_stored(s3, small_windows):
    random.seed(5)
    for size in (0, 1, 9_999, 10_000, 10_001, 45_678):
        data = random.randbytes(size)
        uri = s3.put("big.bin", data)
        with reading.open_object(uri) as stream:
            got = b"".join(iter(lambda: stream.read(random.randrange(1, 20_000)), b""))
        assert got == data
        with reading.open_object(uri, listed([uri])[0]) as stream:
            assert stream.read() == data
    ranges = [r.headers.get("Range") for r in s3.faults.seen("GET", "big.bin")]
    assert ranges[-5:] == [
        "bytes=0-9999",
        "bytes=10000-19999",
        "bytes=20000-29999",
        "bytes=30000-39999",
        "bytes=40000-45677",
    ]
    assert "If-Match" in s3.faults.seen("GET", "big.bin")[-1].headers
    assert s3.faults.connections == 1  # each is used again: a new one costs S3's handshakes


def test_a_body_that_is_cut_is_resumed_where_it_was_cut(s3, small_windows):
    data = random.Random(6).randbytes(25_000)
    uri = s3.put("cut.bin", data)
    s3.faults.clear()
    s3.faults.add(Cut(1234), target="cut.bin", method="GET")
    s3.faults.add(Cut(100), target="cut.bin", method="GET")
    with reading.open_object(uri) as stream:
        assert stream.read() == data
    ranges = [r.headers.get("Range") for r in s3.faults.seen("GET", "cut.bin")]
    assert ranges[:3] == ["bytes=0-9999", "bytes=1234-9999", "bytes=1334-9999"]
    # One that is always cut ends: with an error, not with half of the file.
    s3.faults.clear()
    s3.faults.add(Cut(1), target="cut.bin", method="GET", times=None)
    with (
        reading.open_object(uri) as stream,
        pytest.raises(ObjectError, match=r"cut\.bin: .*ended too early"),
    ):
        stream.read()
    assert len(s3.faults.seen("GET", "cut.bin")) == TRIES


def test_a_server_that_stalls_is_not_waited_for(s3, small_windows, monkeypatch):
    monkeypatch.setattr(client, "READ_SECONDS", 0.3)
    monkeypatch.setattr(reading, "_PIECE", 100)  # what may be lost of a body
    client._client.cache_clear()
    data = random.Random(8).randbytes(9_000)
    uri = s3.put("slow.bin", data)
    # No answer: boto3 asks again. No more of a body: the rest is asked for.
    s3.faults.add(Delay(1.0), target="slow.bin", method="GET")
    s3.faults.add(Stall(500, 1.0), target="slow.bin", method="GET", skip=1)
    with reading.open_object(uri) as stream:
        assert stream.read() == data
    ranges = [r.headers.get("Range") for r in s3.faults.seen("GET", "slow.bin")]
    assert ranges == [None, None, "bytes=500-8999"]


def test_faults_that_pass_are_not_seen(s3, s3_corpus, small_windows):
    uri = s3_corpus[0]
    size = SMALL[0].stat().st_size
    data = s3.get(uri.removeprefix(f"{s3.uri}/"))
    for fault in (Reset(), Status(503, "SlowDown"), Status(500), Delay(0.1), Flip(size // 2)):
        rule = s3.faults.add(fault, method="GET", target="in/")
        with reading.open_object(uri) as stream:
            assert stream.read() == data, fault
        assert rule.met == 1


def test_a_busy_server_is_waited_for_longer_than_boto3_does(
    s3, s3_corpus, small_windows, monkeypatch
):
    monkeypatch.setattr(client, "TRIES", 1)
    client._client.cache_clear()
    for fault in (Status(503, "SlowDown"), Status(500, "InternalError")):
        rule = s3.faults.add(fault, target="in/", method="GET", times=TRIES - 1)
        with reading.open_object(s3_corpus[0]) as stream:
            assert stream.read() == s3.get(parse(s3_corpus[0]).key)
        assert rule.met == TRIES - 1


def test_faults_that_last_are_named_with_what_to_do(s3, s3_corpus, small_windows, monkeypatch):
    monkeypatch.setattr(client, "TRIES", 2)  # botocore waits seconds between more
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret-key")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "very-secret-token")
    client._client.cache_clear()

    def message(words):
        with pytest.raises(ObjectError, match=words) as error:
            content(s3_corpus[0])
        text = "".join(traceback.format_exception(error.value))
        assert s3_corpus[0] in text
        assert not any(word in text for word in ("very-secret", "Signature=", "AWS4-"))

    for fault, words in (
        (Status(403, "AccessDenied"), "access denied.*s3:GetObject"),
        (Status(503, "SlowDown"), "SlowDown"),
        (Status(400, "ExpiredToken"), r"not accepted \(ExpiredToken\): renew them"),
        (Status(403, "RequestTimeTooSkewed"), "clock is wrong.*set it"),
        (Status(403, "InvalidObjectState"), "archived.*restore it first"),
        (Flip(100), "another checksum"),
    ):
        s3.faults.add(fault, target="in/", method="GET", times=None)
        message(words)
        s3.faults.clear()
    s3.faults.add(Status(400), target="in/", method="HEAD", times=None)
    message("HEAD has no reason in its answer.*credentials have expired: renew them")
    s3.faults.clear()
    with s3.faults.down():
        message("does not answer after 2 tries")
    with pytest.raises(ObjectError, match=r"s3://no-such-bucket-here/.*no such bucket"):
        list_inputs(["s3://no-such-bucket-here/in/"])
    with pytest.raises(InputError, match=r"in/none\.m10: there is no such object"):
        content(f"{s3.uri}/in/none.m10")
    with pytest.raises(InputError, match="this is a bucket; expected s3://BUCKET/KEY"):
        content(s3.uri)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "no address")
    client._client.cache_clear()
    with pytest.raises(
        ObjectError, match="Invalid endpoint: no address; check AWS_ENDPOINT_URL_S3"
    ):
        content(s3_corpus[0])


def test_an_object_that_is_replaced_is_never_read_as_one(s3, small_windows):
    one, other = (bytes([i]) * 30_000 for i in (1, 2))
    uri = s3.put("swap.bin", one)
    before = listed([uri])[0]
    with reading.open_object(uri) as stream:
        stream.read(10_000)
        s3.put("swap.bin", other)
        with pytest.raises(ObjectError, match="replaced"):
            stream.read()
    s3.put("swap.bin", one[:5])
    with pytest.raises(Changed, match="replaced since it was listed"):
        reading.window(parse(uri), 10_000, 10_000, of=30_000, listed=1)
    s3.put("swap.bin", other)
    # The same size, and perhaps the same second, but another object than was listed.
    assert before.mtime_ns != listed([uri])[0].mtime_ns
    with pytest.raises(InputError, match="replaced since it was listed"):
        scan_file(uri, listed=before)
    with pytest.raises(InputError, match="replaced since it was listed"):
        scan_file(uri, digest="sampled", listed=before)


# --- Fetching ahead


def fetching():
    return [thread for thread in threading.enumerate() if thread.name.startswith("fetch-ahead")]


@pytest.fixture
def objects(s3):
    """30 objects of 0 to 29,000 bytes: name -> content, in order."""
    made = random.Random(7)
    data = {f"{s3.uri}/o/{i:02}": made.randbytes(1_000 * i) for i in range(30)}
    for uri, stored in data.items():
        s3.put(parse(uri).key, stored)
    return data


def test_what_was_fetched_ahead_is_what_is_stored(s3, objects, small_windows):
    s3.faults.clear()
    s3.faults.add(Delay(0.01), target="/o/", times=None)
    s3.faults.add(Cut(77), target="/o/17")
    files = listed(list(objects))
    request = len(s3.faults.requests)
    with fetched_ahead(files):
        assert {uri: content(uri) for uri in objects} == objects
        with pytest.raises(InputError, match="no such object"):
            content(f"{s3.uri}/o/none")
        again = next(iter(objects))
        assert content(again) == objects[again]
    assert fetching() == []
    assert s3.faults.most_at_once > 1
    # One request a window (none for the empty object) and one for what was cut; two for what is not
    # there (is the bucket?), one for what was opened again.
    windows = sum(-(-len(data) // 10_000) for data in objects.values())
    assert len(s3.faults.requests) - request == windows + 1 + 2 + 1


def test_no_more_is_held_than_is_allowed(s3, objects, small_windows, monkeypatch):
    monkeypatch.setattr(ahead, "HELD_BYTES", 35_000)
    most = 0
    with ahead.Ahead(listed(list(objects))) as context:
        for uri, data in objects.items():
            stream = context.opened(uri)
            assert stream.read() == data
            most = max(most, context._held)
            stream.close()
            assert context._held <= 35_000
    assert 0 < most <= 35_000
    monkeypatch.setattr(ahead, "HELD_BYTES", 10)  # less than one window: still one at a time
    with fetched_ahead(listed(list(objects))):
        assert {uri: content(uri) for uri in objects} == objects


def test_many_contexts_share_what_may_be_held(s3, small_windows, monkeypatch):
    monkeypatch.setattr(ahead, "HELD_BYTES", 20_000)
    monkeypatch.setattr(ahead, "_LEAST_WINDOW", 1_000)
    data = random.Random(9).randbytes(100_000)
    files = listed([s3.put("large.bin", data)])
    most = 0
    with ExitStack() as stack:
        contexts = [stack.enter_context(ahead.Ahead(files)) for _ in range(8)]
        streams = [context.opened(files[0].path) for context in contexts]
        got = [bytearray() for _ in streams]
        while any(len(part) < len(data) for part in got):
            for part, stream in zip(got, streams, strict=True):
                part += stream.read(500)
            if len(got[0]) > 30_000:  # what was begun before all were there is read
                most = max(most, sum(context._held for context in contexts))
        for stream in streams:
            stream.close()
    assert all(part == data for part in got)
    assert 0 < most <= 20_000


def test_a_file_that_is_open_twice_is_read_twice(s3, objects, small_windows):
    uri = list(objects)[25]
    with fetched_ahead(listed(list(objects))), open_input(uri) as one:
        begun = one.read(4)
        assert content(uri) == objects[uri]
        assert begun + b"".join(iter(lambda: one.read(999), b"")) == objects[uri]


def test_connections_of_many_threads_are_kept(s3, caplog):
    uri = s3.put("one", b"x")
    s3.faults.add(Together(threading.Barrier(60)), method="GET", times=None)
    begun = s3.faults.connections

    def read(_):
        return reading.window(parse(uri), 0, 1, of=1)[0]

    for _ in range(2):
        assert all(data == b"x" for _, data in in_threads(read, range(60), at_once=60))
    assert s3.faults.connections - begun <= 60  # the second round's are those of the first
    assert not caplog.records


def test_files_may_be_left_out_half_read_or_read_in_another_order(s3, objects, small_windows):
    uris = list(objects)
    with fetched_ahead(listed(uris)):
        for place in (3, 4, 9, 8, 29, 0):
            with open_input(uris[place]) as stream:
                if place == 4:
                    continue
                got = stream.read(4) + stream.read(1 << 20)
                assert got == objects[uris[place]][:10_000]
        assert content(uris[29]) == objects[uris[29]]
    with fetched_ahead(listed(uris)), open_input(uris[20]) as one, open_input(uris[25]) as two:
        got = [b"".join(iter(lambda s=s: s.read(999), b"")) for s in (two, one)]
    assert got == [objects[uris[25]], objects[uris[20]]]


def test_an_error_belongs_to_its_file(s3, objects, small_windows):
    uris = list(objects)
    files = listed(uris)
    s3.client.delete_object(Bucket=s3.name, Key="o/11")
    s3.put("o/12", b"x" * 12_000)
    s3.faults.add(Status(403, "AccessDenied"), target="/o/13", times=None)
    errors = {}
    with fetched_ahead(files):
        for uri in uris:
            try:
                assert content(uri) == objects[uri]
            except (InputError, ObjectError) as error:
                errors[uri[-2:]] = error
    assert list(errors) == ["11", "12", "13"]
    assert isinstance(errors["11"], InputError) and "no such object" in str(errors["11"])
    assert isinstance(errors["12"], InputError) and "replaced" in str(errors["12"])
    # No right is no property of the file: it must not be quarantined.
    assert isinstance(errors["13"], ObjectError)


def test_no_thread_outlives_its_context(s3, objects, small_windows):
    def reads():
        with fetched_ahead(listed(list(objects))):
            for uri in objects:
                yield content(uri)

    generator = reads()
    assert next(generator) == b""
    assert fetching()
    generator.close()
    assert fetching() == []
    with pytest.raises(RuntimeError, match="mine"), fetched_ahead(listed(list(objects))):
        raise RuntimeError("mine")
    assert fetching() == []
    # Threads that wait for S3 stop too, and what was left to the collector ends as well.
    generator = reads()
    next(generator)
    del generator
    gc.collect()
    assert fetching() == []


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_host_without_threads_to_spare_reads_all_the_same(
    s3, objects, small_windows, monkeypatch, allowed
):
    start = threading.Thread.start

    def limited(thread):
        if thread.name.startswith("fetch-ahead") and len(fetching()) >= allowed:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with fetched_ahead(listed(list(objects))):
        assert {uri: content(uri) for uri in objects} == objects


def _child(uris, wanted):
    ok = [content(uri) for uri in uris] == wanted and not fetching()
    with fetched_ahead(listed(uris)):
        ok = ok and [content(uri) for uri in uris] == wanted
    os._exit(0 if ok else 1)


def test_a_forked_child_reads_for_itself(s3, objects, small_windows):
    uris = list(objects)[:12]
    wanted = [objects[uri] for uri in uris]
    with fetched_ahead(listed(uris)):
        assert content(uris[0]) == wanted[0]
        child = multiprocessing.get_context("fork").Process(target=_child, args=(uris, wanted))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert [content(uri) for uri in uris[1:]] == wanted[1:]


def test_nothing_of_it_is_loaded_where_no_object_is_named():
    code = (
        "import sys; from storewise.ssearch.parse.remote import fetched_ahead, Listed\n"
        "from storewise.ssearch.inputs.paths import list_inputs\n"
        "import storewise.cli.main, storewise.study.load, storewise.workloads.registry\n"
        f"files = list_inputs([{str(SAMPLE)!r}])\n"
        "with fetched_ahead([Listed(f, 1, 1) for f in files]): pass\n"
        "assert not {'boto3', 'botocore', 'storewise.s3.client'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
