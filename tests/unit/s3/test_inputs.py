"""Objects as inputs: their manifest, quarantine, and tools that take them."""

import os

import pytest
from support.paths import DATA, SMALL
from support.s3.faults import Cut

from storewise.errors import InputError
from storewise.s3.client import ObjectError
from storewise.s3.uri import parse
from storewise.ssearch.convert import convert_file
from storewise.ssearch.inputs.manifest import build_manifest
from storewise.ssearch.inputs.paths import list_inputs
from storewise.ssearch.inputs.table import read_table, rows_of
from storewise.ssearch.inspect import inspect_file
from storewise.study.load import load_study
from storewise.study.template import check_outputs, write_study


def rows(path, *columns):
    table = read_table(path, "manifest")
    names = [os.path.basename(name) for name in table["path"].to_pylist()]  # noqa: PTH119
    return dict(zip(names, zip(*(table[c].to_pylist() for c in columns), strict=True), strict=True))


def test_a_manifest_of_objects_is_that_of_the_files(s3, tmp_path):
    files = SMALL[:4]
    uris = sorted(s3.put(f"in/{path.name}", path.read_bytes()) for path in files)
    remote, local = tmp_path / "remote.parquet", tmp_path / "local.parquet"
    build_manifest(uris, remote)
    build_manifest(sorted(map(str, files)), local)
    columns = ("bytes", "digest", "queries", "hits", "alignments", "documents")
    assert rows(remote, *columns) == rows(local, *columns)
    s3.faults.clear()
    assert build_manifest(uris, remote).digested == 0
    assert not s3.faults.seen("GET", "/in/")
    # Another object of the same size, in the same second.
    name = parse(uris[3]).key
    data = bytearray(s3.get(name))
    s3.put(name, bytes(data))
    again = build_manifest(uris, remote)
    s3.put(name, bytes([data[0] ^ 1]) + bytes(data[1:]))
    with pytest.raises(InputError, match=uris[3]):
        build_manifest(uris, remote)
    assert again.digested <= 1  # the same content: S3 may have given it the same second


def test_bad_objects_are_quarantined_but_faults_of_s3_are_not(s3, tmp_path, s3_corpus):
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


def test_tools_take_objects_as_they_take_files(s3, s3_corpus, tmp_path):
    path = next(path for path in SMALL if s3_corpus[0].endswith(path.name))
    made = [
        convert_file(source, "jsonl", tmp_path / name).paths
        for source, name in ((s3_corpus[0], "remote"), (path, "local"))
    ]
    assert len(made[0]) == len(made[1]) > 0
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*made, strict=True))
    assert {**inspect_file(s3_corpus[0]), "file": str(path)} == inspect_file(str(path))
    study = tmp_path / "mine.yaml"
    write_study(f"{s3.uri}/in/", study, engines=["sqlite"])
    assert load_study(str(study), inputs_exist=True).inputs.paths == [f"{s3.uri}/in/"]
    s3.put("other/x", b"no output of a search")
    with pytest.raises(
        InputError, match=r"other/: none of the first 1 files is an output of a search"
    ):
        check_outputs(f"{s3.uri}/other/")


def test_a_table_on_s3_is_found_by_its_first_bytes(s3, tmp_path):
    """Compressed, as an object; the study's format goes with it to whoever reads it."""
    for name in ("blast_blastp.fmt7.gz", "blast_own.fmt7.gz"):
        s3.put(f"tables/{name}", (DATA / "tables" / name).read_bytes())
    uris = list_inputs([f"{s3.uri}/tables/"])
    out = tmp_path / "manifest.parquet"
    assert build_manifest(uris, out).end == "visible"
    rows = list(rows_of(read_table(out, "manifest")))
    assert [(row.format, row.alignments) for row in rows] == [("blast7", 253), ("blast7", 36)]
    with pytest.raises(InputError, match="another format; expected fasta8c"):
        build_manifest(uris, tmp_path / "other.parquet", input_format="fasta8c")
