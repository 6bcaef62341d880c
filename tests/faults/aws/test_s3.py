"""S3 over real sockets, from processes that are forked, killed or limited.

What needs none of these is in tests/unit/s3 and tests/unit/publish.
"""

import multiprocessing
import os
import random
import re
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support import driving
from support.paths import ROOT, SAMPLE, SMALL
from support.results.published import FOLDER, command, publish, write_results
from support.s3.faults import Delay, Stall, Status
from support.waiting import wait_until

from storewise.errors import InputError
from storewise.publish.manifest import MANIFEST
from storewise.publish.pull import publication
from storewise.s3 import prefetch as ahead
from storewise.s3 import stream as reading
from storewise.s3.client import ObjectError
from storewise.s3.listing import stats
from storewise.s3.uri import parse
from storewise.ssearch.inputs.manifest import build_manifest
from storewise.ssearch.inputs.shards import write_shards
from storewise.ssearch.parse.remote import Listed, fetched_ahead
from storewise.ssearch.parse.stream import open_input

PROGRAM = Path(sys.executable).parent / "storewise"


def content(uri):
    with open_input(uri) as stream:
        return b"".join(iter(lambda: stream.read(1 << 20), b""))


@pytest.fixture
def small_windows(monkeypatch):
    for module in (reading, ahead):
        monkeypatch.setattr(module, "WINDOW", 10_000)


def listed(uris):
    """`uris` as S3 lists them now."""
    result = stats(sorted(uris))
    return [Listed(uri, result[uri].size, result[uri].mtime_ns) for uri in uris]


def _child(uris, wanted):
    ok = [content(uri) for uri in uris] == wanted
    ok = ok and not [one for one in threading.enumerate() if one.name.startswith("fetch-ahead")]
    with fetched_ahead(listed(uris)):
        ok = ok and [content(uri) for uri in uris] == wanted
    os._exit(0 if ok else 1)


def test_a_forked_child_reads_for_itself(s3, small_windows):
    made = random.Random(7)
    objects = {f"{s3.uri}/o/{i:02}": made.randbytes(2_000 * i) for i in range(10)}
    for uri, data in objects.items():
        s3.put(parse(uri).key, data)
    uris, wanted = list(objects), list(objects.values())
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


# --- Inputs of a study


@pytest.fixture
def place(s3, s3_corpus, tmp_path):
    build_manifest(s3_corpus, tmp_path / "manifest.parquet")
    write_shards(tmp_path / "manifest.parquet", 1, tmp_path / "shards.parquet")
    (tmp_path / "live").mkdir()
    return tmp_path


def test_a_load_from_s3_stores_what_a_load_from_disk_stores(s3, s3_corpus, place, tmp_path):
    s3.faults.clear()
    measured = driving.trial("sqlite", processes=1, threads=3)
    driving.run_here(measured, place, "write")
    # Each object came once, whole.
    assert len(s3.faults.seen("GET", "/in/")) == len(s3_corpus)
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


def test_a_load_ends_with_the_fault_of_s3_or_of_the_file(s3, s3_corpus, place):
    s3.faults.add(Status(403, "AccessDenied"), target="/in/", times=None)
    with pytest.raises(Exception, match=r"/in/.*access denied"):
        driving.run_here(driving.trial("sqlite"), place, "write")
    s3.faults.clear()
    (place / "store.0").rename(place / "old")
    key = parse(s3_corpus[2]).key
    s3.put(key, s3.get(key)[::-1])
    with pytest.raises(InputError, match=f"{s3_corpus[2]}: .*replaced since it was listed"):
        driving.run_here(driving.trial("sqlite"), place, "write")


# --- Publications


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path)


def test_a_publication_that_is_killed_goes_on(results, s3):
    for i in range(60):
        (results / "trials" / "t" / f"read.{i}.parquet").write_text(f"PAR1{i}")
    s3.faults.add(Delay(0.1), method="PUT", times=None)
    process = subprocess.Popen([PROGRAM, "publish", results, f"{s3.uri}/p", "--name", "first"])
    try:
        wait_until(lambda: len(s3.faults.seen("PUT")) > 20, 60, "some files to go up")
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: s3.faults.answering == 0, 30, "the end of its requests")
    with pytest.raises(ObjectError, match="half a publication"):
        publication(parse(f"{s3.uri}/{FOLDER}"))
    there = [key for key in s3.keys("p") if not key.endswith(MANIFEST)]
    s3.faults.clear()
    publish(results, s3)
    sent = [r.target for r in s3.faults.seen("PUT") if "tagging" not in r.target]
    assert sent and there and not any(target.endswith(tuple(there)) for target in sent)
    assert len(publication(parse(f"{s3.uri}/{FOLDER}")).files) == 69


def test_a_pull_that_is_killed_goes_on(results, s3, tmp_path):
    large = results / "trials" / "t" / "large.parquet"
    large.write_bytes(os.urandom(9 << 20))
    folder = publish(results, s3)
    s3.faults.add(Stall(1 << 16, 60), method="GET", target="large.parquet", skip=1)
    process = subprocess.Popen([PROGRAM, "pull", str(folder), tmp_path / "there"])
    mine = tmp_path / "there" / "results" / "mine"
    try:
        wait_until(lambda: len(s3.faults.seen("GET", "large.parquet")) == 2, 60, "its second half")
    finally:
        process.kill()
        process.wait()
    assert not (mine / large.relative_to(results)).exists()
    s3.faults.clear()
    status, _, message = command("pull", folder, tmp_path / "there")
    assert status == 0, message
    assert (mine / large.relative_to(results)).read_bytes() == large.read_bytes()
    assert not list(mine.rglob("*.partial*"))


def test_a_file_that_cannot_be_written_to_its_end(results, s3, tmp_path):
    folder = publish(results, s3)
    done = subprocess.run(
        [PROGRAM, "pull", str(folder), tmp_path / "there"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert re.search(r"storewise: .*/\..*\.partial.*: File too large", done.stderr), done.stderr
