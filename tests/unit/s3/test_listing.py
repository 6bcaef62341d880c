"""What specs, lists and prefixes name on S3, and with how many requests."""

import pytest
from support.paths import SMALL
from support.s3.faults import Status
from support.s3.memory import PAGE

from storewise.errors import ConfigError, InputError
from storewise.s3.client import NotThere, ObjectError
from storewise.s3.listing import below, expand, likely, stat, stats
from storewise.s3.uri import parse
from storewise.ssearch.inputs.manifest import build_manifest
from storewise.ssearch.inputs.paths import list_inputs, read_list, sample_paths
from storewise.study.load import load_study


def names(bucket, spec):
    """What a spec names, without the bucket."""
    return [uri.removeprefix(f"{bucket.uri}/") for uri in list_inputs([spec])]


def test_specs_name_what_they_name_on_disk(s3, tmp_path, monkeypatch):
    """The same keys as files, the same specs, the same answer."""
    keys = ["a.m10", "a.m10.gz", "d/b.m10", "d/e/c.m10.gz", "d/e/f/g.txt.m10", "d/.hidden.m10"]
    keys += [".dot/x.m10", "d/.deep/y.m10", "dd/b.m10", "x y+ü&#%/n=m?.m10"]
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


def test_keys_that_no_file_could_have(s3):
    for key in ("odd//a.m10", "odd/a.m10", "/a.m10", "s[1]/?.m10", "s[1]/.b.m10", "s1/a.m10"):
        s3.put(key, b"x")
    # Two keys on S3, one path on disk.
    assert names(s3, f"{s3.uri}/odd/") == ["odd//a.m10", "odd/a.m10"]
    assert names(s3, f"{s3.uri}/odd//") == ["odd//a.m10"]
    assert names(s3, f"{s3.uri}//") == ["/a.m10"]
    # A prefix may have the characters of globs in it, and an object's name, too.
    assert names(s3, f"{s3.uri}/s[1]/") == ["s[1]/?.m10"]
    assert names(s3, f"{s3.uri}/s[1]/?.m10") == ["s1/a.m10", "s[1]/?.m10"]
    # An object goes before a "directory" of its name; what only begins with it is not meant.
    for key in ("two", "two/x", "two.m10"):
        s3.put(key, b"x")
    assert names(s3, f"{s3.uri}/two") == ["two"]
    assert names(s3, f"{s3.uri}/two/") == ["two/x"]
    assert list(expand(f"{s3.uri}/tw")) == []


def test_lists_name_objects_prefixes_and_globs(s3, tmp_path):
    corpus = [s3.put(f"in/{i}.m10", b"x") for i in range(2)]
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
    for i, key in enumerate(keys):
        s3.put(key, b"x" * i)
    s3.faults.clear()
    result = list_inputs([f"{s3.uri}/many/"])
    assert len(result) == 3 * PAGE
    assert [r.method for r in s3.faults.requests] == ["GET"] * 3
    assert [stat.size for _, stat in below(parse(f"{s3.uri}/many/"))] == list(range(3 * PAGE))

    def asked(uris):
        s3.faults.clear()
        found = stats(sorted(uris))
        sizes = {uri: found[uri].size for uri in found}
        here = {f"{s3.uri}/{key}": i for i, key in enumerate(keys)}
        assert sizes == {uri: here[uri] for uri in uris if uri in here}
        return len(s3.faults.requests)

    assert asked([*result, f"{s3.uri}/other/3.m10", f"{s3.uri}/not/there"]) <= 6
    # Few of many: from one to the next, never through what lies between.
    assert asked([result[0], result[PAGE + 2], result[-1]]) == 3
    assert asked([f"{s3.uri}/a", f"{s3.uri}/b", f"{s3.uri}/c"]) == 1
    assert asked(result[:2]) == 2 and s3.faults.requests[0].method == "HEAD"
    assert asked([f"{s3.uri}/a", result[0]]) == 3  # of a missing one: is the bucket there?
    s3.client.create_bucket(Bucket="another")
    s3.client.put_object(Bucket="another", Key="many/001.m10", Body=b"12")
    both = stats(sorted(["s3://another/many/001.m10", *result[:3]]))
    assert [both[uri].size for uri in sorted(both)] == [2, 0, 1, 2]
    s3.faults.clear()
    chosen = sample_paths(result, bytes=20, seed=3)
    assert 20 <= sum(result.index(uri) for uri in chosen) < 20 + 3 * PAGE
    assert len(s3.faults.requests) <= 4


def test_an_object_is_the_same_listed_or_asked_for(s3):
    uri = s3.put("a/b", b"123")
    known = stat(parse(uri))
    assert dict(below(parse(f"{s3.uri}/a/"))) == {"a/b": known}
    assert known.size == 3 and known.mtime_ns > 1.7e18
    s3.put("a/b", b"124")
    assert stat(parse(uri)).mtime_ns % 10**9 != known.mtime_ns % 10**9
    with pytest.raises(NotThere, match=r"bucket/: this is a bucket; expected s3://BUCKET/KEY"):
        stat(parse(s3.uri))
    with pytest.raises(NotThere, match="a/c: there is no such object"):
        stat(parse(f"{s3.uri}/a/c"))
    with pytest.raises(ObjectError, match="a: there is no such bucket") as error:
        stat(parse("s3://no-such-bucket-here/a"))
    assert not isinstance(error.value, NotThere)


def test_a_right_to_list_one_prefix_is_enough(s3, tmp_path):
    """A policy with the condition `s3:prefix` is `in/*`, as many accounts have it."""
    corpus = [s3.put(f"in/{path.name}", path.read_bytes()) for path in SMALL[:2]]
    other = [s3.put(f"in/sub/{path.name}", path.read_bytes()) for path in SMALL[2:4]]
    s3.faults.add(
        Status(403, "AccessDenied"),
        target="list-type",
        times=None,
        when=lambda request: "prefix=in/" not in request.target,
    )
    paths = list_inputs([f"{s3.uri}/in/"])
    assert paths == sorted([*corpus, *other])
    assert build_manifest(paths, tmp_path / "manifest.parquet").files == 4


def test_a_page_that_fails_is_no_end(s3):
    for i in range(3 * PAGE):
        s3.put(f"many/{i:03}.m10", b"x")
    s3.faults.add(Status(500, "InternalError"), target="list-type", skip=1)
    assert len(list_inputs([f"{s3.uri}/many/"])) == 3 * PAGE
    s3.faults.add(Status(403, "AccessDenied"), target="list-type", skip=1, times=None)
    with pytest.raises(ObjectError, match=r"many/: access denied for ListObjectsV2"):
        list_inputs([f"{s3.uri}/many/"])
    with pytest.raises(ObjectError, match=r"bucket/many/: access denied for ListObjectsV2"):
        stats([f"{s3.uri}/many/{i:03}.m10" for i in (0, PAGE + 2, 2 * PAGE + 2)])


def test_a_bucket_that_is_missing_is_no_bad_input(s3, tmp_path):
    gone = ["s3://no-such-bucket-here/a.m10", "s3://no-such-bucket-here/b.m10"]
    with pytest.raises(ObjectError, match=r"a\.m10: there is no such bucket"):
        build_manifest(gone, tmp_path / "manifest.parquet", on_bad_input="quarantine")
    s3.faults.add(Status(403), method="HEAD", target=f"{s3.name}$", times=None)
    assert stats([f"{s3.uri}/a.m10"]) == {}  # who may not ask for the bucket believes S3


def test_the_nearest_name_is_offered(s3):
    for key in ("runs/first/a.m10", "runs/first.m10", "runs/.hid/x.m10", "empty/"):
        s3.put(key, b"x")
    for spec, offered in (
        ("run/first/", "runs/first/"),
        ("runs/firts/", "runs/first/"),
        ("runs/first/b.m10", "runs/first/a.m10"),
        ("rusn/first", "runs/first"),
        ("runs/first.m1", "runs/first.m10"),
    ):
        assert likely(f"{s3.uri}/{spec}") == f" (did you mean '{s3.uri}/{offered}'?)", spec
    # Nothing like it; what is like it has nothing in it; what is there needs no other name.
    for spec in ("other/", "empt/", "runs/first/a.m10", "run/second/"):
        assert likely(f"{s3.uri}/{spec}") == "", spec
    s3.faults.add(Status(403, "AccessDenied"), target="list-type", times=None)
    assert likely(f"{s3.uri}/run/first/") == ""


STUDY = """\
inputs: {paths: [%s]}
engines: [sqlite]
repeats: 1
phases: [write: {batch_size: 500}]
"""


def test_a_prefix_that_has_nothing_is_refused_with_file_line_and_key(s3, tmp_path):
    s3.put("in/a.m10", b"x")
    path = tmp_path / "s.yaml"

    def refusal(spec):
        path.write_text(STUDY % f"{s3.uri}/in/, {spec}")
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
    path.write_text(
        f"inputs:\n  search:\n    queries: {s3.uri}/q.fa\n    libraries: l.fa\n"
        "engines: [sqlite]\nphases: [write]\n"
    )
    with pytest.raises(ConfigError, match=r"line 3: inputs\.search\.queries.*is on S3"):
        load_study(str(path))
