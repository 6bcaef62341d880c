"""Documents as files."""

import io
import json

import bson
import pytest
from support.inputs.ssearch import DATA, plain, read

from storewise.errors import InputError, StorewiseError
from storewise.ssearch.convert import convert_file
from storewise.ssearch.parse.stream import content_digest

SOURCE = DATA / "ssearch36_nohits.m10"


def expected():
    digest = content_digest(SOURCE)
    _, result = read(SOURCE)
    for documents in result.values():
        for document in documents:
            for key, value in document.items():
                if isinstance(value, bytes):
                    document[key] = digest[:7] + value[7:]
    return result


def test_files_of_each_form_hold_the_documents(tmp_path):
    paths = convert_file(SOURCE, "jsonl", tmp_path).paths
    for (kind, documents), path in zip(expected().items(), paths, strict=True):
        assert path.name.endswith(f".{kind.table}.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert lines == [
            {k: v.hex() if isinstance(v, bytes) else v for k, v in document.items()}
            for document in documents
        ]
        assert all(len(line["_id"]) == 24 for line in lines)
    paths = convert_file(SOURCE, "bson", tmp_path).paths
    stream = convert_file(io.BytesIO(SOURCE.read_bytes()), "bson", tmp_path / "stream").paths
    for documents, path, streamed in zip(expected().values(), paths, stream, strict=True):
        with path.open("rb") as file:
            assert [plain(bson.encode(d)) for d in bson.decode_file_iter(file)] == documents
        assert streamed.read_bytes() == path.read_bytes()
    assert sorted((tmp_path / "stream").iterdir()) == sorted(stream)


def test_names_do_not_meet(tmp_path):
    names = set()
    for directory in ("a", "b"):
        path = tmp_path / directory / "same.m10"
        path.parent.mkdir()
        path.write_bytes(SOURCE.read_bytes())
        names |= set(convert_file(path, "jsonl", tmp_path / "out").paths)
        names |= set(convert_file(path, "jsonl", tmp_path / "out").paths)
    assert len(names) == 8 and names == set((tmp_path / "out").iterdir())


def test_nothing_stays_after_an_error(tmp_path):
    bad, out = tmp_path / "bad.m10", tmp_path / "out"
    bad.write_bytes((DATA / "ssearch36.m10").read_bytes()[:40_000])
    for source in (bad, io.BytesIO(bad.read_bytes())):
        for form in ("jsonl", "bson"):
            with pytest.raises(InputError):
                convert_file(source, form, out)
            assert list(out.iterdir()) == []
    with pytest.raises(StorewiseError, match="cannot be written"):
        convert_file(SOURCE, "jsonl", bad / "below")
    with pytest.raises(StorewiseError, match="unknown format"):
        convert_file(SOURCE, "xml", out)
