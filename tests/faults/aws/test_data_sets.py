"""Data sets on S3, over a real socket: made, interrupted, updated, merged."""

import pytest
from support.inputs.datasets import expected, inputs_of, stored
from support.paths import SMALL

from storewise.dataset.conversion import Options, convert, merge
from storewise.dataset.settings import Wanted
from storewise.dataset.storage import Bucket, locked, storage_of
from storewise.errors import StorewiseError

FILES = [str(path) for path in SMALL]


def fetched(s3, place):
    """The data set as a directory."""
    for key in s3.keys("made/set/"):
        path = place / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(s3.get(key))
    return place / "made/set"


@pytest.fixture
def documents():
    return expected(FILES)


def test_from_objects_to_objects(s3, s3_corpus, tmp_path, documents):
    scratch = tmp_path / "scratch"
    storage = storage_of(f"{s3.uri}/made/set", scratch)
    wanted = Wanted(by="query", partitions=2)
    convert(s3_corpus[:2], storage, Options(wanted))
    assert not scratch.exists()
    done = convert(s3_corpus, storage, Options(update=True))
    assert done.inputs == len(s3_corpus) - 2
    assert convert(s3_corpus, storage, Options()).inputs == 0
    assert stored(fetched(s3, tmp_path / "one")) == documents
    merge(storage)
    root = fetched(s3, tmp_path / "two")
    assert stored(root) == documents
    assert [row["path"] for row in inputs_of(root)] == s3_corpus
    assert len(s3.keys("made/set/align/")) <= 2
    assert not scratch.exists()


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("step", ["put", "put_commit"])
def test_interrupted_on_the_way(s3, tmp_path, monkeypatch, documents, step, lost):
    """Also where another host goes on, which has nothing of the first one's work."""
    where = f"{s3.uri}/made/set"
    with monkeypatch.context() as patched:
        inner = getattr(Bucket, step)

        def interrupted(self, file, name):
            inner(self, file, name)
            raise KeyboardInterrupt

        patched.setattr(Bucket, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            convert(FILES, storage_of(where, tmp_path / "scratch"), Options())
    again = storage_of(where, tmp_path / ("other" if lost else "scratch"))
    convert(FILES, again, Options())
    root = fetched(s3, tmp_path / "copy")
    assert stored(root) == documents
    assert [row["path"] for row in inputs_of(root)] == sorted(FILES)


def test_a_writer_on_another_host(s3, tmp_path, monkeypatch, documents):
    """Also one that was killed: its host goes on, others wait for a word of the user."""
    where = f"{s3.uri}/made/set"
    here, there = storage_of(where, tmp_path / "here"), storage_of(where, tmp_path / "there")
    with locked(here, ""), pytest.raises(StorewiseError, match=r"process \d+ of .* is writing"):
        convert(FILES, there, Options())
    convert(FILES[:2], there, Options())
    with monkeypatch.context() as patched:
        patched.setattr(Bucket, "release", lambda storage: None)
        patched.setattr(Bucket, "put_commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            convert(FILES, here, Options(update=True))
    with pytest.raises(StorewiseError, match=rf"or remove {where}/lock.txt"):
        convert(FILES, there, Options(update=True))
    convert(FILES, here, Options(update=True))
    assert stored(fetched(s3, tmp_path / "copy")) == documents
    assert s3.keys("made/set/lock") == []
