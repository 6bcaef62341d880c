"""Objects that threads fetch ahead: what is asked for, what is held, and what ends them."""

import gc
import random
import threading
from concurrent.futures import wait
from contextlib import ExitStack

import pytest
from support.s3.faults import Cut, Status, Together

from storewise.errors import InputError
from storewise.s3 import prefetch as ahead
from storewise.s3 import stream
from storewise.s3.client import ObjectError
from storewise.s3.listing import stats
from storewise.s3.uri import parse
from storewise.ssearch.parse.remote import Listed, fetched_ahead
from storewise.ssearch.parse.stream import open_input


def listed(uris):
    """`uris` as S3 lists them now."""
    result = stats(sorted(uris))
    return [Listed(uri, result[uri].size, result[uri].mtime_ns) for uri in uris]


def content(uri):
    with open_input(uri) as opened:
        return b"".join(iter(lambda: opened.read(1 << 20), b""))


def fetching():
    return [thread for thread in threading.enumerate() if thread.name.startswith("fetch-ahead")]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    for module in (stream, ahead):
        monkeypatch.setattr(module, "WINDOW", 10_000)


@pytest.fixture
def objects(s3):
    """15 objects of 0 to 28,000 bytes: name -> content, in order."""
    made = random.Random(7)
    data = {f"{s3.uri}/o/{i:02}": made.randbytes(2_000 * i) for i in range(15)}
    for uri, stored in data.items():
        s3.put(parse(uri).key, stored)
    return data


def test_what_was_fetched_ahead_is_what_is_stored(s3, objects):
    files = [*listed(list(objects)), Listed("/a/file", 1, 1)]
    s3.faults.clear()
    s3.faults.add(Cut(77), target="/o/13")
    # As many requests at once as a context has threads.
    s3.faults.add(Together(threading.Barrier(ahead.THREADS)), target="/o/", times=ahead.THREADS)
    with fetched_ahead(files):
        assert {uri: content(uri) for uri in objects} == objects
        with pytest.raises(InputError, match="no such object"):
            content(f"{s3.uri}/o/none")
        again = next(iter(objects))
        assert content(again) == objects[again]
    assert fetching() == []
    # One request a window (none for the empty object) and one for what was cut; two for what is not
    # there (is the bucket?), one for what was opened again.
    windows = sum(-(-len(data) // 10_000) for data in objects.values())
    assert len(s3.faults.requests) == windows + 1 + 2 + 1


def test_no_more_is_held_than_is_allowed(s3, objects, monkeypatch):
    monkeypatch.setattr(ahead, "HELD_BYTES", 35_000)
    most = 0
    with ahead.Ahead(listed(list(objects))) as context:
        for uri, data in objects.items():
            opened = context.opened(uri)
            assert opened.read() == data
            most = max(most, context._held)
            opened.close()
            assert context._held <= 35_000
    assert 20_000 < most <= 35_000
    for limit, value in (("HELD_BYTES", 10), ("HELD_WINDOWS", 1)):  # still one at a time
        s3.faults.clear()
        with monkeypatch.context() as patched:
            patched.setattr(ahead, limit, value)
            with fetched_ahead(listed(list(objects))):
                before = len(s3.faults.seen("GET", "/o/"))
                assert {uri: content(uri) for uri in objects} == objects
        assert before <= 1
        windows = sum(-(-len(data) // 10_000) for data in objects.values())
        assert len(s3.faults.seen("GET", "/o/")) == windows


def test_many_contexts_share_what_may_be_held(s3, monkeypatch):
    monkeypatch.setattr(ahead, "HELD_BYTES", 20_000)
    monkeypatch.setattr(ahead, "_LEAST_WINDOW", 1_000)
    data = random.Random(9).randbytes(60_000)
    files = listed([s3.put("large.bin", data)])
    most = 0
    with ExitStack() as stack:
        contexts = [stack.enter_context(ahead.Ahead(files)) for _ in range(8)]
        # The more there are, the fewer threads each has.
        assert [context._pool._max_workers for context in contexts] == [6, 6, 6, 6, 4, 4, 3, 3]
        streams = [context.opened(files[0].path) for context in contexts]
        got = [bytearray() for _ in streams]
        while any(len(part) < len(data) for part in got):
            for part, opened in zip(got, streams, strict=True):
                part += opened.read(2_500)
            if len(got[0]) > 30_000:  # what was begun before all were there is read
                most = max(most, sum(context._held for context in contexts))
                assert max(context._held for context in contexts) <= 2_500
        for opened in streams:
            opened.close()
    assert all(part == data for part in got)
    assert 0 < most <= 20_000
    sizes = {r.headers["Range"] for r in s3.faults.seen("GET", "large.bin")}
    assert "bytes=50000-52499" in sizes, "windows shrink to what each of eight may hold"


def test_a_file_that_is_open_twice_is_read_twice(s3, objects):
    uri = list(objects)[12]
    with fetched_ahead(listed(list(objects))), open_input(uri) as one:
        begun = one.read(4)
        assert content(uri) == objects[uri]
        assert begun + b"".join(iter(lambda: one.read(999), b"")) == objects[uri]


def test_files_may_be_left_out_half_read_or_read_in_another_order(s3, objects):
    uris = list(objects)
    with fetched_ahead(listed(uris)):
        for place in (3, 4, 9, 8, 14, 0):
            with open_input(uris[place]) as opened:
                if place == 4:
                    continue
                got = opened.read(4) + opened.read(1 << 20)
                assert got == objects[uris[place]][:10_000]
        assert content(uris[14]) == objects[uris[14]]
    with fetched_ahead(listed(uris)), open_input(uris[10]) as one, open_input(uris[12]) as two:
        got = [b"".join(iter(lambda s=s: s.read(999), b"")) for s in (two, one)]
    assert got == [objects[uris[12]], objects[uris[10]]]


def test_what_is_passed_over_makes_room(s3, objects, monkeypatch):
    """A file that is closed after its first bytes holds nothing back from those after it."""
    monkeypatch.setattr(ahead, "HELD_BYTES", 30_000)
    uris = list(objects)
    with ahead.Ahead(listed(uris)) as context:
        for uri in uris[:-1]:
            opened = context.opened(uri)
            assert opened.read(1) == objects[uri][:1]
            opened.close()
            assert context._held <= 30_000
        wait([future for _, future in context._coming.values()])
        opened = context.opened(uris[-1])
        assert opened.read() == objects[uris[-1]]
        opened.close()
        assert context._held == 0 and not context._coming


def test_another_thread_reads_for_itself(s3, objects):
    """What one thread reads is none of the files that another one has opened."""
    uris = list(objects)
    got = []
    with fetched_ahead(listed(uris)):
        other = threading.Thread(target=lambda: got.append(content(uris[9])))
        other.start()
        other.join()
        s3.faults.clear()
        assert got == [objects[uris[9]]]
        assert content(uris[9]) == objects[uris[9]]
    # The innermost of several contexts gives what it has, the others what only they have.
    with fetched_ahead(listed(uris[:3])), fetched_ahead(listed(uris[3:6])):
        assert [content(uri) for uri in uris[:6]] == [objects[uri] for uri in uris[:6]]
        assert not s3.faults.seen("HEAD", "/o/0[34]"), "none was asked for first"


def test_an_error_belongs_to_its_file(s3, objects):
    uris = list(objects)
    files = listed(uris)
    s3.delete("o/11")
    s3.put("o/10", b"x" * 20_000)
    s3.put("o/12", b"x" * 12_000)
    s3.faults.add(Status(403, "AccessDenied"), target="/o/13", times=None)
    errors = {}
    with fetched_ahead(files):
        for uri in uris:
            try:
                assert content(uri) == objects[uri]
            except (InputError, ObjectError) as error:
                errors[uri[-2:]] = error
    assert list(errors) == ["10", "11", "12", "13"]
    assert isinstance(errors["11"], InputError) and "no such object" in str(errors["11"])
    for replaced in (errors["10"], errors["12"]):  # by one of the same size, too
        assert isinstance(replaced, InputError) and "replaced" in str(replaced)
    # No right is no property of the file: it must not be quarantined.
    assert isinstance(errors["13"], ObjectError)


def test_no_thread_outlives_its_context(s3, objects):
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
    # A stream that is still open then goes on without them.
    with ahead.Ahead(listed(list(objects))) as context:
        opened = context.opened(list(objects)[14])
        begun = opened.read(5)
    assert context.opened(list(objects)[14]) is None
    assert begun + opened.read() == list(objects.values())[14]


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_host_without_threads_to_spare_reads_all_the_same(s3, objects, monkeypatch, allowed):
    start = threading.Thread.start

    def limited(thread):
        if thread.name.startswith("fetch-ahead") and len(fetching()) >= allowed:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with fetched_ahead(listed(list(objects))):
        assert {uri: content(uri) for uri in objects} == objects
