"""Inputs on S3, over a real socket: specs, manifest, load, study. Reading: test_s3_reading.py."""

from __future__ import annotations

import os

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support import driving
from support.paths import SAMPLE, SMALL
from support.s3.server import PAGE, Cut, Status
from support.workspace import Workspace

from storewise.errors import ConfigError, InputError
from storewise.run.runner import renew_inputs
from storewise.s3 import stream as reading
from storewise.s3.client import ObjectError
from storewise.s3.listing import stats
from storewise.s3.uri import parse
from storewise.ssearch.convert import convert_file
from storewise.ssearch.inputs.manifest import build_manifest, load_manifest
from storewise.ssearch.inputs.paths import list_inputs, read_list, sample_paths
from storewise.ssearch.inputs.shards import load_shards, write_shards
from storewise.ssearch.inspect import inspect_file
from storewise.study.load import load_study
from storewise.study.template import write_study


def names(bucket, spec):
    """What a spec names, without the bucket."""
    return [uri.removeprefix(f"{bucket.uri}/") for uri in list_inputs([spec])]


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
    assert names(s3, f"{s3.uri}/odd//") == ["odd//a.m10"]
    s3.put("/a.m10", b"x")
    assert names(s3, f"{s3.uri}//") == ["/a.m10"]
    # A prefix may have the characters of globs in it.
    for key in ("s[1]/?.m10", "s[1]/.b.m10", "s1/a.m10"):
        s3.put(key, b"x")
    assert names(s3, f"{s3.uri}/s[1]/") == ["s[1]/?.m10"]
    assert names(s3, f"{s3.uri}/s[1]/?.m10") == ["s1/a.m10", "s[1]/?.m10"]


def test_lists_name_objects_prefixes_and_globs(s3, tmp_path, s3_corpus):
    lines = tmp_path / "mine.list"
    odd = s3.put("star/[x]*.m10", b"x")
    s3.put("star/xy.m10", b"x")
    lines.write_text(f"# mine\n{s3.uri}/in/\n{s3.uri}/st*/xy*\n{SMALL[0]}\n{s3.uri}/not/there\n")
    wanted = [*s3_corpus, f"{s3.uri}/star/xy.m10", f"{s3.uri}/not/there", str(SMALL[0])]
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
    result = list_inputs([f"{s3.uri}/many/"])
    assert len(result) == 3 * PAGE
    assert [r.method for r in s3.faults.requests] == ["GET"] * 3
    s3.faults.clear()
    sizes = stats(sorted([*result, f"{s3.uri}/other/7.m10", f"{s3.uri}/not/there"]))
    assert sorted(sizes) == sorted([*result, f"{s3.uri}/other/7.m10"])
    assert all(sizes[uri].size == len(uri) - len(s3.uri) - 1 for uri in sizes)
    assert len(s3.faults.requests) <= 6
    # Few of many: from one to the next, never through what lies between.
    s3.faults.clear()
    assert len(stats([result[0], result[40], result[74]])) == 3
    assert len(s3.faults.requests) == 3
    s3.faults.clear()
    chosen = sample_paths(result, bytes=100, seed=3)
    assert 100 <= sum(len(uri) - len(s3.uri) - 1 for uri in chosen) < 113
    assert len(s3.faults.requests) <= 4


def test_a_right_to_list_one_prefix_is_enough(s3, s3_corpus, tmp_path):
    """A policy with the condition `s3:prefix` is `in/*`, as many accounts have it."""
    other = [s3.put(f"in/sub/{path.name}", path.read_bytes()) for path in SMALL]
    s3.faults.add(
        Status(403, "AccessDenied"),
        target="list-type",
        times=None,
        when=lambda request: "prefix=in/" not in request.target,
    )
    paths = list_inputs([f"{s3.uri}/in/"])
    assert paths == sorted([*s3_corpus, *other])
    assert build_manifest(paths, tmp_path / "manifest.parquet").files == len(SMALL)


def test_a_page_that_fails_is_no_end(s3):
    for i in range(3 * PAGE):
        s3.put(f"many/{i:03}.m10", b"x")
    s3.faults.add(Status(500, "InternalError"), target="list-type", skip=1)
    assert len(list_inputs([f"{s3.uri}/many/"])) == 3 * PAGE
    s3.faults.add(Status(403, "AccessDenied"), target="list-type", skip=1, times=None)
    with pytest.raises(ObjectError, match=r"many/: access denied for ListObjectsV2"):
        list_inputs([f"{s3.uri}/many/"])


def test_a_bucket_that_is_missing_is_no_bad_input(s3, tmp_path):
    gone = ["s3://no-such-bucket-here/a.m10", "s3://no-such-bucket-here/b.m10"]
    with pytest.raises(ObjectError, match=r"a\.m10: there is no such bucket"):
        build_manifest(gone, tmp_path / "manifest.parquet", on_bad_input="quarantine")
    with pytest.raises(ObjectError, match=r"a\.m10: there is no such bucket"):
        inspect_file(gone[0])
    s3.faults.add(Status(403), method="HEAD", target=f"{s3.name}$", times=None)
    assert stats([f"{s3.uri}/a.m10"]) == {}  # who may not ask for the bucket believes S3


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


def test_bad_objects_are_quarantined_but_faults_of_s3_are_not(s3, tmp_path, s3_corpus, monkeypatch):
    monkeypatch.setattr(reading, "_WAIT", 0.001)
    s3.put("in/cut.m10.gz", s3.get(parse(s3_corpus[0]).key)[:-50])
    gone = f"{s3.uri}/in/gone.m10"
    paths = sorted([*list_inputs([f"{s3.uri}/in/"]), gone])
    out = tmp_path / "manifest.parquet"
    result = build_manifest(paths, out, on_bad_input="quarantine")
    assert [bad.path for bad in result.bad] == [f"{s3.uri}/in/cut.m10.gz", gone]
    assert "there is no such object" in result.bad[1].reason
    s3.put("in/new.m10.gz", s3.get(parse(s3_corpus[1]).key))
    s3.faults.add(Cut(10), method="GET", target=r"in/new", times=None)
    with pytest.raises(ObjectError, match=r"in/new\.m10\.gz"):
        build_manifest([*paths, f"{s3.uri}/in/new.m10.gz"], out, on_bad_input="quarantine")


# --- The workload


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


# --- Studies

_STUDY = """\
inputs: {paths: [%s]}
engines: [sqlite]
repeats: 1
phases: [write: {batch_size: 500}]
"""


def test_a_prefix_that_has_nothing_is_refused_with_file_line_and_key(s3, s3_corpus, tmp_path):
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
    assert "no such object or prefix" in refusal(f"'@{s3.uri}/none.list'")
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


def test_tools_take_objects_as_they_take_files(s3, s3_corpus, tmp_path):
    path = next(path for path in SMALL if s3_corpus[0].endswith(path.name))
    made = [
        convert_file(source, "jsonl", tmp_path / name).paths
        for source, name in ((s3_corpus[0], "remote"), (path, "local"))
    ]
    assert len(made[0]) == len(made[1]) > 0
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*made, strict=True))
    assert {**inspect_file(s3_corpus[0]), "file": str(path)} == inspect_file(str(path))
    study = write_study(f"{s3.uri}/in/", tmp_path / "mine.yaml")
    assert load_study(str(study), inputs_exist=True).inputs.paths == [f"{s3.uri}/in/"]
    s3.put("other/x", b"no output of a search")
    with pytest.raises(InputError, match=r"other/: none of the first 1 files is an SSEARCH"):
        write_study(f"{s3.uri}/other/", tmp_path / "other.yaml")


def test_new_objects_are_found_when_asked_for(s3, s3_corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(_STUDY % f"{s3.uri}/in/")
    assert f"{len(SMALL)} files, {len(SMALL)} added" in renew_inputs("s.yaml")
    assert "nothing new" in renew_inputs("s.yaml")
    s3.put("in/new.m10", b"x")
    assert "1 added, 0 removed" in renew_inputs("s.yaml")
    assert (tmp_path / "results/s/inputs/files.txt").read_text().split() == sorted(
        [*s3_corpus, f"{s3.uri}/in/new.m10"]
    )


def test_the_rules_list_digest_and_share_out_a_prefix(s3, s3_corpus, tmp_path):
    """What comes after them, with hosts of Slurm, is in test_aws.py."""
    workspace = Workspace(tmp_path)
    workspace.write_study(_STUDY % f"{s3.uri}/in/*.m10*")
    done = workspace.snakemake("results/s/inputs/shards/1.parquet")
    assert done.returncode == 0, done.stdout + done.stderr
    assert workspace.documents() > 1000
    assert (workspace.results / "inputs" / "files.txt").read_text().split() == s3_corpus
    shards = load_shards(workspace.results / "inputs" / "shards" / "1.parquet")
    assert shards["path"].to_pylist() == s3_corpus
    assert len(s3.faults.seen("GET", "/in/")) == len(s3_corpus)
