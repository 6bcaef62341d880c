"""Inputs on S3, over a real socket: listed, streamed, fetched ahead, and what goes wrong there."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import traceback

import driving
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from harness import ROOT, SAMPLE, SMALL, Workspace
from s3_server import PAGE, Cut, Delay, Flip, Reset, Status

from storewise.config import load_study
from storewise.errors import ConfigError, InputError
from storewise.objects import ahead, client, reading
from storewise.objects.client import TRIES, Changed, ObjectError
from storewise.objects.listing import stats
from storewise.objects.uri import parse
from storewise.runner import renew_inputs
from storewise.ssearch.inputs import list_inputs, read_list, sample_paths
from storewise.ssearch.manifest import build_manifest, load_manifest
from storewise.ssearch.remote import Listed, fetched_ahead
from storewise.ssearch.scan import scan_file
from storewise.ssearch.shards import load_shards, write_shards
from storewise.ssearch.stream import open_input


def names(bucket, spec):
    """What a spec names, without the bucket."""
    return [uri.removeprefix(f"{bucket.uri}/") for uri in list_inputs([spec])]


@pytest.fixture
def corpus(s3):
    """The smallest files of the sample below in/; their URIs in order."""
    return sorted(s3.put(f"in/{path.name}", path.read_bytes()) for path in SMALL)


def listed(uris):
    """`uris` as S3 lists them now."""
    found = stats(sorted(uris))
    return [Listed(uri, found[uri].size, found[uri].mtime_ns) for uri in uris]


def content(uri):
    with open_input(uri) as stream:
        return b"".join(iter(lambda: stream.read(1 << 20), b""))


# --- Listing


def test_specs_name_what_they_name_on_disk(s3, tmp_path, monkeypatch):
    """The same keys as files, the same specs, the same answer."""
    keys = [
        "a.m10",
        "a.m10.gz",
        "d/b.m10",
        "d/e/c.m10.gz",
        "d/e/f/g.txt.m10",
        "d/.hidden.m10",
        ".dot/x.m10",
        "d/.deep/y.m10",
        "dd/b.m10",
        "x y+ü&#%/n=m?.m10",
    ]
    for key in keys:
        s3.put(f"top/{key}", b"x")
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(b"x")
    s3.put("top/d/", b"")  # what a console makes of a new "folder"
    monkeypatch.chdir(tmp_path)
    specs = ["", "d", "d/", "*.m10", "*", "*/b.m10", "**/*.m10", "d/**", "d/**/c*", "**", "d/?.m10"]
    specs += ["[ab].m10", "d/.h*", "*/*/*", "x*/*", "a.m10", "d/**/**/*.gz"]
    for spec in specs:
        on_disk = list_inputs([str(tmp_path / spec) if spec else str(tmp_path)])
        wanted = sorted(path.removeprefix(f"{tmp_path}/") for path in on_disk)
        assert names(s3, f"{s3.uri}/top/{spec}") == [f"top/{key}" for key in wanted], spec
    assert names(s3, s3.uri) == sorted(f"top/{k}" for k in keys if "/." not in f"/{k}")
    with pytest.raises(InputError, match=r"no input file \(did you mean 's3://[^']*/top/d/e/'\?\)"):
        list_inputs([f"{s3.uri}/top/d/ee/"])
    # Two keys on S3, one path on disk.
    s3.put("odd//a.m10", b"x")
    s3.put("odd/a.m10", b"x")
    assert names(s3, f"{s3.uri}/odd/") == ["odd//a.m10", "odd/a.m10"]


def test_lists_name_objects_prefixes_and_globs(s3, tmp_path, corpus):
    lines = tmp_path / "mine.list"
    odd = s3.put("star/[x]*.m10", b"x")
    s3.put("star/xy.m10", b"x")
    lines.write_text(f"# mine\n{s3.uri}/in/\n{s3.uri}/st*/xy*\n{SMALL[0]}\n{s3.uri}/not/there\n")
    wanted = [*corpus, f"{s3.uri}/star/xy.m10", f"{s3.uri}/not/there", str(SMALL[0])]
    assert list_inputs([lines]) == sorted(wanted)
    assert list_inputs([s3.put("lists/mine.list", lines.read_bytes())]) == sorted(wanted)
    assert list_inputs([f"@{s3.uri}/lists/mine.list"]) == sorted(wanted)
    lines.write_text(f"{s3.uri}/nothing/\n")
    with pytest.raises(InputError, match=r"mine\.list.*nothing/' in it names no input file"):
        list_inputs([lines])
    # What a list of paths was made of is read back as it is, without a request.
    lines.write_text(f"{odd}\n{s3.uri}/in/\n")
    s3.faults.clear()
    assert list(read_list(str(lines))) == [odd, f"{s3.uri}/in/"]
    assert s3.faults.requests == []


def test_a_prefix_is_listed_by_pages_and_sizes_are_not_asked_one_by_one(s3):
    keys = [f"many/{i:03}.m10" for i in range(3 * PAGE)] + [f"other/{i}.m10" for i in range(PAGE)]
    for key in keys:
        s3.put(key, key.encode())
    s3.faults.clear()
    found = list_inputs([f"{s3.uri}/many/"])
    assert len(found) == 3 * PAGE
    assert [r.method for r in s3.faults.requests] == ["GET"] * 3
    s3.faults.clear()
    sizes = stats(sorted([*found, f"{s3.uri}/other/7.m10", f"{s3.uri}/not/there"]))
    assert sorted(sizes) == sorted([*found, f"{s3.uri}/other/7.m10"])
    assert all(sizes[uri].size == len(uri) - len(s3.uri) - 1 for uri in sizes)
    assert len(s3.faults.requests) <= 6
    # Few of many: from one to the next, never through what lies between.
    s3.faults.clear()
    assert len(stats([found[0], found[40], found[74]])) == 3
    assert len(s3.faults.requests) == 3
    s3.faults.clear()
    chosen = sample_paths(found, bytes=100, seed=3)
    assert 100 <= sum(len(uri) - len(s3.uri) - 1 for uri in chosen) < 113
    assert len(s3.faults.requests) <= 4


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


def test_faults_that_pass_are_not_seen(s3, corpus, small_windows):
    uri = corpus[0]
    size = SMALL[0].stat().st_size
    data = s3.get(uri.removeprefix(f"{s3.uri}/"))
    for fault in (Reset(), Status(503, "SlowDown"), Status(500), Delay(0.1), Flip(size // 2)):
        rule = s3.faults.add(fault, method="GET", target="in/")
        with reading.open_object(uri) as stream:
            assert stream.read() == data, fault
        assert rule.met == 1


def test_faults_that_last_are_named_with_what_to_do(s3, corpus, small_windows, monkeypatch):
    monkeypatch.setattr(client, "TRIES", 2)  # botocore waits seconds between more
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret-key")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "very-secret-token")
    client._client.cache_clear()

    def message(words):
        with pytest.raises(ObjectError, match=words) as error:
            content(corpus[0])
        told = "".join(traceback.format_exception(error.value))
        assert corpus[0] in told
        assert not any(word in told for word in ("very-secret", "Signature=", "AWS4-"))

    for fault, words in (
        (Status(403, "AccessDenied"), "access denied.*s3:GetObject"),
        (Status(503, "SlowDown"), "SlowDown"),
        (Flip(100), "another checksum"),
    ):
        s3.faults.add(fault, target="in/", method="GET", times=None)
        message(words)
        s3.faults.clear()
    with s3.faults.down():
        message("does not answer after 2 tries")
    with pytest.raises(ObjectError, match=r"s3://no-such-bucket-here/.*no such bucket"):
        list_inputs(["s3://no-such-bucket-here/in/"])
    with pytest.raises(InputError, match=r"in/none\.m10: there is no such object"):
        content(f"{s3.uri}/in/none.m10")


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
    asked = len(s3.faults.requests)
    with fetched_ahead(files):
        assert {uri: content(uri) for uri in objects} == objects
        with pytest.raises(InputError, match="no such object"):
            content(f"{s3.uri}/o/none")
        again = next(iter(objects))
        assert content(again) == objects[again]
    assert fetching() == []
    assert s3.faults.most_at_once > 1
    # One request a window, one for what was cut, and one for each of the two others.
    windows = sum(-(-max(len(data), 1) // 10_000) for data in objects.values())
    assert len(s3.faults.requests) - asked == windows + 1 + 2


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
        "import sys; from storewise.ssearch.remote import fetched_ahead, Listed\n"
        "from storewise.ssearch.manifest import list_inputs\n"
        "import storewise.cli, storewise.config, storewise.workloads.registry\n"
        f"files = list_inputs([{str(SAMPLE)!r}])\n"
        "with fetched_ahead([Listed(f, 1, 1) for f in files]): pass\n"
        "assert not {'boto3', 'botocore', 'storewise.objects.client'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# --- The manifest


def rows(path, *columns):
    table = load_manifest(path)
    names = [os.path.basename(name) for name in table["path"].to_pylist()]  # noqa: PTH119
    return dict(zip(names, zip(*(table[c].to_pylist() for c in columns), strict=True), strict=True))


@pytest.mark.parametrize("digest", ["full", "sampled", "parsed"])
def test_a_manifest_of_objects_is_that_of_the_files(s3, tmp_path, digest):
    files = sorted(SAMPLE.glob("*.m10.*"), key=lambda path: path.stat().st_size)[:: -(-45 // 12)]
    uris = sorted(s3.put(f"in/{path.name}", path.read_bytes()) for path in files)
    remote, local = tmp_path / "remote.parquet", tmp_path / "local.parquet"
    build_manifest(uris, remote, digest=digest, processes=2)
    build_manifest(sorted(map(str, files)), local, digest=digest)
    columns = ("bytes", "digest", "queries", "hits", "alignments", "documents")
    assert rows(remote, *columns) == rows(local, *columns)
    s3.faults.clear()
    assert build_manifest(uris, remote, digest=digest).digested == 0
    assert not s3.faults.seen("GET", "/in/")
    # Another object of the same size, in the same second.
    name = parse(uris[3]).key
    data = bytearray(s3.get(name))
    s3.put(name, bytes(data))
    again = build_manifest(uris, remote, digest=digest)
    s3.put(name, bytes([data[0] ^ 1]) + bytes(data[1:]))
    with pytest.raises(InputError, match=uris[3]):
        build_manifest(uris, remote, digest=digest)
    assert again.digested <= 1  # the same content: S3 may have given it the same second


def test_bad_objects_are_quarantined_but_faults_of_s3_are_not(s3, tmp_path, corpus, monkeypatch):
    monkeypatch.setattr(reading, "_WAIT", 0.001)
    s3.put("in/cut.m10.gz", s3.get(parse(corpus[0]).key)[:-50])
    gone = f"{s3.uri}/in/gone.m10"
    paths = sorted([*list_inputs([f"{s3.uri}/in/"]), gone])
    out = tmp_path / "manifest.parquet"
    found = build_manifest(paths, out, on_bad_input="quarantine")
    assert [bad.path for bad in found.bad] == [f"{s3.uri}/in/cut.m10.gz", gone]
    assert "there is no such object" in found.bad[1].reason
    s3.put("in/new.m10.gz", s3.get(parse(corpus[1]).key))
    s3.faults.add(Cut(10), method="GET", target=r"in/new", times=None)
    with pytest.raises(ObjectError, match=r"in/new\.m10\.gz"):
        build_manifest([*paths, f"{s3.uri}/in/new.m10.gz"], out, on_bad_input="quarantine")


# --- The workload


@pytest.fixture
def place(s3, corpus, tmp_path):
    build_manifest(corpus, tmp_path / "manifest.parquet")
    write_shards(tmp_path / "manifest.parquet", 1, tmp_path / "shards.parquet")
    (tmp_path / "live").mkdir()
    return tmp_path


def test_a_load_from_s3_stores_what_a_load_from_disk_stores(s3, corpus, place, tmp_path):
    s3.faults.clear()
    measured = driving.trial("sqlite", processes=1, threads=3)
    driving.run_here(measured, place, "write")
    # Each object came once, whole.
    assert len(s3.faults.seen("GET", "/in/")) == len(corpus)
    driving.run_here(measured, place, "read")
    driving.verify(measured, place)
    disk = tmp_path / "disk"
    (disk / "live").mkdir(parents=True)
    build_manifest(sorted(map(str, SMALL)), disk / "manifest.parquet")
    write_shards(disk / "manifest.parquet", 1, disk / "shards.parquet")
    driving.run_here(measured, disk, "write")
    stored = [pq.read_table(at / "written.0.parquet").drop(["path"]) for at in (place, disk)]
    one, other = (table.sort_by("digest") for table in stored)
    assert one.equals(other)
    assert pc.sum(one["queries"]).as_py() > 0


def test_a_load_ends_with_the_fault_of_s3_or_of_the_file(s3, corpus, place):
    s3.faults.add(Status(403, "AccessDenied"), target="/in/", times=None)
    with pytest.raises(Exception, match=r"/in/.*access denied"):
        driving.run_here(driving.trial("sqlite"), place, "write")
    s3.faults.clear()
    (place / "store.0").rename(place / "old")
    key = parse(corpus[2]).key
    s3.put(key, s3.get(key)[::-1])
    with pytest.raises(InputError, match=f"{corpus[2]}: .*replaced since it was listed"):
        driving.run_here(driving.trial("sqlite"), place, "write")


# --- Studies

_STUDY = """\
inputs: {paths: [%s]}
engines: [sqlite]
repeats: 1
phases: [write: {batch_size: 500}]
"""


def test_a_prefix_that_has_nothing_is_refused_with_file_line_and_key(s3, corpus, tmp_path):
    def refusal(spec):
        path = tmp_path / "s.yaml"
        path.write_text(_STUDY % f"{s3.uri}/in/, {spec}")
        load_study(str(path))  # stored results are analysed wherever the inputs are
        with pytest.raises(ConfigError) as error:
            load_study(str(path), inputs_exist=True)
        assert str(error.value).startswith(f"{path}, line 1: inputs.paths.1: "), error.value
        return str(error.value)

    empty = refusal(f"{s3.uri}/inn/")
    assert f"no such object or prefix (did you mean '{s3.uri}/in/'?)" in empty
    assert "no such object or prefix" in refusal(f"{s3.uri}/in/*.none")
    assert "no such bucket" in refusal("s3://no-such-bucket-here/in/")
    assert "names nothing on S3; expected s3://BUCKET/PREFIX" in refusal("s3:///in/")
    s3.faults.add(Status(403, "AccessDenied"), target="list-type", skip=1, times=None)
    assert "access denied" in refusal(f"{s3.uri}/in/x/")
    path = tmp_path / "t.yaml"
    path.write_text(
        f"inputs:\n  search:\n    queries: {s3.uri}/q.fa\n    libraries: l.fa\n"
        "engines: [sqlite]\nphases: [write]\n"
    )
    with pytest.raises(ConfigError, match=r"line 3: inputs\.search\.queries.*is on S3"):
        load_study(str(path))


def test_new_objects_are_found_when_asked_for(s3, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(_STUDY % f"{s3.uri}/in/")
    assert f"{len(SMALL)} files, {len(SMALL)} added" in renew_inputs("s.yaml")
    assert "nothing new" in renew_inputs("s.yaml")
    s3.put("in/new.m10", b"x")
    assert "1 added, 0 removed" in renew_inputs("s.yaml")
    assert (tmp_path / "results/s/inputs/files.txt").read_text().split() == sorted(
        [*corpus, f"{s3.uri}/in/new.m10"]
    )


@pytest.mark.e2e
def test_the_rules_list_digest_and_share_out_a_prefix(s3, corpus, tmp_path):
    """What comes after them, with hosts of Slurm, is in test_aws.py."""
    workspace = Workspace(tmp_path)
    workspace.write_study(_STUDY % f"{s3.uri}/in/*.m10*")
    done = workspace.snakemake("results/s/inputs/shards/1.parquet")
    assert done.returncode == 0, done.stdout + done.stderr
    assert workspace.documents() > 1000
    assert (workspace.results / "inputs" / "files.txt").read_text().split() == corpus
    shards = load_shards(workspace.results / "inputs" / "shards" / "1.parquet")
    assert shards["path"].to_pylist() == corpus
    assert len(s3.faults.seen("GET", "/in/")) == len(corpus)
