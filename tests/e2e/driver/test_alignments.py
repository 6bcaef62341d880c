"""The workload on real inputs: which documents are read, and inputs that changed or are bad."""

import gzip

import pytest
from support import driving
from support.client_context import place_of
from support.driving import make_inputs, total, trial, verify
from support.inputs.ssearch import ids_of_file

from storewise.documents import KINDS, Kind
from storewise.engines.registry import engine
from storewise.errors import InputError
from storewise.metrics.schema import read_part
from storewise.ssearch.inputs.shards import load_shards
from storewise.workloads.alignments.stored_files import StoredFiles
from storewise.workloads.alignments.workload import AlignmentsWorkload, ReadParams
from storewise.workloads.contract import ClientContext


@pytest.fixture
def place(tmp_path):
    make_inputs(tmp_path, 1)
    return tmp_path


class Spy:
    def __init__(self):
        self.seen = []

    def get(self, kind, document_id):
        self.seen.append((kind, document_id))
        return {"_id": document_id}


def test_reads_are_the_same_again_and_differ_between_clients(place):
    driving.run_here(trial("null"), place, "write")

    def draw(**changes):
        values = {"shard": 0, "processes": 2, "phase": "read", "seed": 5, "step": 0, **changes}
        files = {"shards": place / "shards.parquet", "written": (place / "written.0.parquet",)}
        params = ReadParams(operations=4001)
        context = ClientContext(
            engine=engine("null"), schema=None, params=params, **place_of(values | files)
        )
        spy = Spy()
        for operation in AlignmentsWorkload().operations("read", spy, context):
            operation.call()
        return spy.seen

    first = draw()
    assert draw() == first
    assert (len(first), len(draw(shard=1))) == (2001, 2000)
    for other in ({"shard": 1}, {"seed": 6}, {"step": 1}):
        assert draw(**other)[:100] != first[:100]
    files = StoredFiles.read([place / "written.0.parquet"])
    counts = files.documents[:, [Kind.TASKS.number, Kind.ALIGN.number]].T.tolist()
    columns = (files.column("digest"), *counts)
    of_files = [ids_of_file(*file) for file in zip(*columns, strict=True)]
    stored = {i: kind for ids in of_files for kind, i in ids}
    assert all(stored[document_id] == kind for kind, document_id in first)
    # Uniform over all documents: the shares of the kinds and of the files are those stored.
    groups = [{i for i in stored if stored[i] is kind} for kind in KINDS]
    groups += [{i for _, i in ids} for ids in of_files]
    for ids in groups:
        share = sum(i in ids for _, i in first) / len(first)
        true = len(ids) / len(stored)
        assert abs(share - true) < 5 * (true * (1 - true) / len(first)) ** 0.5 + 1e-9


def changed_input(place, change):
    """A shard of two files, one of which changes after the manifest, in place and size."""
    paths = []
    for number, source in enumerate(load_shards(place / "shards.parquet")["path"].to_pylist()[:2]):
        content = gzip.decompress(driving.Path(source).read_bytes())
        path = place / f"file{number}.m10"
        path.write_bytes(content)
        paths.append(path)
    driving.build_manifest([str(p) for p in paths], place / "manifest.parquet")
    driving.write_shards(place / "manifest.parquet", 1, place / "shards.parquet")
    content = paths[0].read_bytes()
    paths[0].write_bytes(change(content))
    assert paths[0].stat().st_size == len(content)
    return paths


def test_a_changed_digest_is_found(place):
    # Another letter in a description: a complete output with equal counts and size.
    def change(content):
        at = content.rindex(b"\n>>")
        at = content.index(b" ", at) + 3
        return content[:at] + (b"X" if content[at : at + 1] != b"X" else b"Y") + content[at + 1 :]

    changed_input(place, change)
    with pytest.raises(InputError, match=r"file0\.m10: the file has changed.*digest"):
        driving.run_here(trial("sqlite"), place, "write")
    assert not [*place.glob("write.0.parquet"), *place.glob("written.0.parquet")]


def test_quarantine_takes_a_bad_file_out_again(place):
    def change(content):
        at = content.rindex(b"; sw_overlap: ") + len(b"; sw_overlap: ")
        return content[:at] + b"x" + content[at + 1 :]

    bad, good = changed_input(place, change)
    with pytest.raises(InputError, match=r"file0\.m10, line \d+"):
        driving.run_here(trial("sqlite"), place, "write")
    (place / "store.0").rename(place / "old")
    small = [{"name": "write", "params": {"batch_size": 50}}]  # a part is stored already
    measured = trial("sqlite", small, on_bad_input="quarantine")
    driving.run_here(measured, place, "write")
    _, conditions = read_part(place / "write.0.parquet")
    assert [q["path"] for q in conditions["quarantined"]] == [str(bad)]
    assert conditions["quarantined"][0]["line"] > 1
    files = StoredFiles.read([place / "written.0.parquet"])
    assert files.column("path") == [str(good)]
    whole = int(files.documents.sum())
    assert total(place / "write.0.parquet", "acknowledged") > whole  # what came and went
    verify(measured, place)  # counts would show what was left of the bad file
    (place / "store.0").rename(place / "older")
    with pytest.raises(InputError, match="cannot delete"):
        driving.run_here(trial("parquet", small, on_bad_input="quarantine"), place, "write")
