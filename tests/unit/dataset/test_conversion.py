"""Data sets: what is in them, in which order, and what comes of updates and bad inputs."""

import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.inputs.datasets import check_order, expected, files_of, inputs_of, stored
from support.paths import DATA, SAMPLE

from storewise.dataset import chunk, conversion, rounds, segments
from storewise.dataset import merge as merging
from storewise.dataset.conversion import Options, convert, merge
from storewise.dataset.settings import Settings, Wanted
from storewise.dataset.storage import Directory, locked, storage_of
from storewise.documents import KINDS, Kind
from storewise.errors import StorewiseError
from storewise.ssearch.parse.stream import open_input

#: The smallest of the sample, and other layouts; one query is in two of them.
BOTH = sorted(map(str, sorted(SAMPLE.glob("*.m10*"), key=lambda path: path.stat().st_size)[:6])) + [
    str(DATA / name) for name in ("ssearch36.m10", "ssearch36_nohits.m10", "tfastx36.m10")
]
#: One on every day; the others take the same steps with other keys.
ORDERS = [
    pytest.param("query"),
    pytest.param("hash", marks=pytest.mark.all_cells),
    pytest.param("library", marks=pytest.mark.all_cells),
]


@pytest.fixture
def copies(tmp_path):
    """Inputs that a test may change."""
    place = tmp_path / "inputs"
    place.mkdir()
    return [shutil.copy(path, place) for path in BOTH[:5]]


@pytest.fixture
def spilled(monkeypatch):
    """Small runs in files, several chunks, and inputs that do not fit into memory."""
    monkeypatch.setattr(rounds, "IN_MEMORY", 0)
    monkeypatch.setattr(segments, "_MAX_RUN_BYTES", 300_000)
    monkeypatch.setattr(chunk, "KEPT_BYTES", 100_000)
    monkeypatch.setattr(chunk, "ALIGNMENTS_PER_BATCH", 100)
    monkeypatch.setattr(conversion, "chunk_bytes", lambda text, processes: 40_000)


def made(tmp_path, paths, **options):
    """A data set of some inputs."""
    convert(paths, storage_of(tmp_path / "set"), Options(**options))
    return tmp_path / "set"


class Killed(BaseException):
    """Stands for a SIGKILL at a step."""


@contextmanager
def killed(owner, step, nth=1):
    """The nth call of a step is the last."""
    inner, left = getattr(owner, step), [nth]

    def call(*arguments):
        left[0] -= 1
        if not left[0]:
            raise Killed
        return inner(*arguments)

    with mock.patch.object(owner, step, call), pytest.raises(Killed):
        yield


@pytest.mark.parametrize("spills", [False, True])
@pytest.mark.parametrize(("by", "partitions"), [("hash", 5), ("query", 1), ("library", 5)])
def test_all_documents_are_there_in_order(tmp_path, by, partitions, spills, request):
    wanted = Wanted(by=by, partitions=partitions)
    if spills:
        request.getfixturevalue("spilled")
        wanted = replace(wanted, row_group=500, target_bytes=1_200)
    root = made(tmp_path, BOTH, wanted=wanted)
    assert stored(root) == expected(BOTH)
    check_order(root, by)
    assert all(len(files_of(root, kind)) <= partitions for kind in KINDS) or spills
    # A round has what fits the target.
    assert (max(row["round"] for row in inputs_of(root)) > 1) == spills
    assert [row["path"] for row in inputs_of(root)] == sorted(BOTH)
    assert not (root / ".work").exists()


@pytest.mark.parametrize(
    ("by", "sort"), [("hash", "library"), ("query", "id"), ("library", "query")]
)
def test_files_may_be_sorted_in_another_way(tmp_path, by, sort, spilled):
    wanted = Wanted(by=by, sort=sort, partitions=3, row_group=500)
    root = made(tmp_path, BOTH[:4], wanted=wanted)
    for paths in (BOTH[4:6], BOTH[6:]):
        made(tmp_path, paths, update=True)
    merge(storage_of(root))
    assert stored(root) == expected(BOTH)
    check_order(root, by, sort)
    assert all(len(files_of(root, kind)) <= 9 for kind in KINDS)


def test_documents_of_the_study_only(tmp_path):
    root = made(tmp_path, BOTH, wanted=Wanted(study_fields=True, partitions=2))
    assert stored(root) == expected(BOTH, study_fields=True)
    for names in ({"sort": "query"}, {"by": "library"}):
        with pytest.raises(StorewiseError, match=r"(query|library) needs the names of queries"):
            Settings(**names, study_fields=True)


def test_what_readers_are_told(tmp_path):
    root = made(tmp_path, BOTH, wanted=Wanted(row_group=100))
    (path,) = files_of(root, Kind.ALIGN)
    metadata = pq.ParquetFile(path).metadata
    group = metadata.row_group(0)
    assert metadata.num_row_groups > 1 and group.num_rows == 100
    assert group.sorting_columns[0].column_index == 0
    assert group.column(0).statistics.min < group.column(0).statistics.max
    assert group.column(0).compression == "ZSTD"


def test_partitions_follow_from_the_text():
    assert Wanted().new(1 << 20).partitions == 1
    assert Wanted().new(1500 << 30).partitions == 64
    assert Wanted(target_bytes=1 << 20).new(100 << 20).partitions == 3
    assert Wanted(partitions=200).new(1).partitions == 200
    with pytest.raises(StorewiseError, match="1 to 256"):
        Settings(partitions=257)


def test_an_update_adds_only_what_is_new(tmp_path):
    root = made(tmp_path, BOTH[:3])
    before = {path: path.stat().st_mtime_ns for path in files_of(root, Kind.ALIGN)}
    with pytest.raises(StorewiseError, match=r"use --update to add what is new"):
        made(tmp_path, BOTH)
    again = convert(BOTH[:3], storage_of(root), Options())
    assert (again.inputs, again.read) == (0, 0)
    more = convert(BOTH, storage_of(root), Options(update=True))
    assert more.inputs == len(BOTH) - 3 and more.documents == sum(map(len, expected(BOTH).values()))
    assert stored(root) == expected(BOTH)
    assert before.items() <= {p: p.stat().st_mtime_ns for p in files_of(root, Kind.ALIGN)}.items()
    with pytest.raises(StorewiseError, match="was made with by = hash, and query is asked for"):
        convert(BOTH, storage_of(root), Options(wanted=Wanted(by="query")))


@pytest.mark.parametrize("by", ORDERS)
def test_many_updates_leave_few_files(tmp_path, by):
    for end in range(1, len(BOTH) + 1):
        root = made(tmp_path, BOTH[:end], wanted=Wanted(by=by, row_group=400), update=True)
        assert all(len(files_of(root, kind)) < conversion.SMALL_FILES for kind in KINDS)
    assert stored(root) == expected(BOTH)
    check_order(root, by)
    merge(Directory(root))
    assert all(len(files_of(root, kind)) == 1 for kind in KINDS)
    assert len(list((root / "inputs").iterdir())) == 1
    assert stored(root) == expected(BOTH)
    check_order(root, by)


def test_equal_inputs_are_used_once_and_named(tmp_path, copies):
    root, place = tmp_path / "set", Path(copies[0]).parent
    twin, later = str(place / "zz.m10"), str(place / "later.m10")
    with open_input(copies[0]) as text:
        Path(twin).write_bytes(text.read(1 << 30))
    assert convert([*copies, twin], storage_of(root), Options()).equal == [(twin, copies[0])]
    shutil.copy(twin, later)
    more = convert([later], storage_of(root), Options(update=True))
    assert more.equal == [(later, copies[0])]
    assert stored(root) == expected(copies)
    equal = {row["path"]: row["equal_to"] for row in inputs_of(root)}
    assert equal == {**dict.fromkeys(copies), twin: copies[0], later: copies[0]}


@pytest.mark.parametrize("spills", [False, True])
def test_a_bad_input_ends_the_conversion_or_is_quarantined(tmp_path, copies, spills, request):
    if spills:
        request.getfixturevalue("spilled")
    bad = str(Path(copies[0]).with_name("bad.m10"))
    Path(bad).write_bytes((DATA / "ssearch36.m10").read_bytes()[:40_000])
    root = tmp_path / "set"
    says = rf"{bad}, line \d+ \(byte \d+\): .* 2 of {len(copies) + 2} files are bad .*--quarantine"
    shutil.copy(bad, root.with_name("worse.m10"))
    with pytest.raises(StorewiseError, match=says):
        convert([*copies, bad, str(root.with_name("worse.m10"))], storage_of(root), Options())
    assert not (root / ".work").exists()
    done = convert([*copies, bad], storage_of(root), Options(quarantine=True))
    assert len(done.bad) == 1 and done.bad[0].startswith(f"{bad}, line ")
    assert stored(root) == expected(copies)
    assert [row["bad"] for row in inputs_of(root)].count(None) == len(copies)
    # It is put right, and its row with it.
    shutil.copy(DATA / "ssearch36.m10", bad)
    convert([*copies, bad], storage_of(root), Options(update=True))
    assert stored(root) == expected([*copies, bad])
    assert [row["path"] for row in inputs_of(root)] == sorted([*copies, bad])
    assert all(row["bad"] is None for row in inputs_of(root))


def test_a_share_puts_a_bad_input_right(tmp_path, copies):
    """Until one input could be read, the settings of the data set may change."""
    storage = storage_of(tmp_path / "set")
    good = Path(copies[0]).read_bytes()
    Path(copies[0]).write_bytes(b"nonsense")
    with pytest.raises(StorewiseError, match="not an output of ssearch36"):
        convert(copies[:1], storage, Options())
    convert(copies[:1], storage, Options(Wanted(by="query"), quarantine=True))
    convert(copies, storage, Options(quarantine=True, update=True))
    with pytest.raises(StorewiseError, match="was made with by = query"):
        convert(copies, storage, Options(Wanted(by="hash"), update=True))
    Path(copies[0]).write_bytes(good)
    done = convert(copies, storage, Options(share="s0", update=True))
    assert done.documents == sum(map(len, expected(copies).values()))
    merge(storage)
    assert stored(tmp_path / "set") == expected(copies)
    assert [row["bad"] for row in inputs_of(tmp_path / "set")] == [None] * len(copies)


def test_finished_chunks_are_not_read_again_but_what_was_damaged(tmp_path, monkeypatch, spilled):
    for place in (tmp_path / "set", tmp_path / "other"):
        with killed(rounds, "_write"):
            convert(BOTH, storage_of(place), Options())
    work = tmp_path / "other" / ".work"
    next(work.rglob("align.arrow")).write_bytes(b"nonsense" * 100)
    with pytest.raises(StorewiseError, match=f"is damaged .* remove {work} and call the same"):
        convert(BOTH, storage_of(tmp_path / "other"), Options())
    shutil.rmtree(work)
    assert not convert(BOTH, storage_of(tmp_path / "other"), Options()).resumed
    monkeypatch.setattr(chunk, "_read", lambda *_: pytest.fail("was read again"))
    assert convert(BOTH, storage_of(tmp_path / "set"), Options()).resumed
    assert stored(tmp_path / "set") == stored(tmp_path / "other") == expected(BOTH)


def test_an_input_that_changed_and_two_writers(tmp_path, copies):
    root = made(tmp_path, copies)
    storage = storage_of(root)
    os.utime(copies[0], ns=(1, 1))  # its content is the same
    assert convert(copies, storage, Options()).inputs == 0
    shutil.copy(DATA / "ssearch36.m10", copies[0])
    with pytest.raises(StorewiseError, match="has changed since it was put into the data set"):
        convert(copies, storage, Options(update=True))
    for writing, others in (("", ("", "s1")), ("s1", ("",))):
        with locked(storage, writing):
            for share in others:
                with pytest.raises(StorewiseError, match="another process is writing"):
                    convert(copies[1:], storage, Options(share=share))
    with locked(storage, "s1"):
        assert convert(BOTH[5:7], storage, Options(share="s2", update=True)).inputs == 2


@pytest.mark.parametrize("by", ORDERS)
def test_shares_are_put_together(tmp_path, by, copies):
    """Of equal inputs in two shares, which know nothing of each other, one stays."""
    root = tmp_path / "set"
    twin = str(Path(copies[0]).with_name("zz.m10"))
    shutil.copy(copies[0], twin)
    storage = storage_of(root)
    # More partitions than libraries: some have no document.
    wanted = Wanted(by=by, partitions=9, row_group=200)
    convert(copies[:3], storage, Options(wanted, share="s0", update=True))
    hidden = root / "inputs" / "s0-0001.parquet"
    hidden.rename(tmp_path / "hidden")
    convert([*copies[3:], twin], storage, Options(wanted, share="s1", update=True))
    (tmp_path / "hidden").rename(hidden)
    done = merge(storage)
    assert stored(root) == expected(copies)
    assert done.documents == sum(map(len, expected(copies).values()))
    check_order(root, by)
    assert {row["path"]: row["equal_to"] for row in inputs_of(root)}[twin] == copies[0]
    assert all(len(files_of(root, kind)) <= 9 for kind in KINDS)
    # Numbers are not used again.
    convert(BOTH, storage, Options(share="s1", update=True))
    merge(storage)
    assert len(stored(root)[Kind.ALIGN]) == len(expected(BOTH)[Kind.ALIGN])


STEPS = {
    **{"read_chunk": rounds, "_write": rounds, "carry_out": rounds},
    **{"put": Directory, "put_commit": Directory, "delete": Directory},
}
#: Each step on every day, the first time or the second.
KILLS = [
    pytest.param(step, nth, marks=() if nth == 1 + place % 2 else pytest.mark.all_cells)
    for place, step in enumerate(STEPS)
    for nth in (1, 2)
]


@pytest.mark.parametrize(("step", "nth"), KILLS)
def test_a_killed_conversion_goes_on(tmp_path, spilled, step, nth):
    root = tmp_path / "set"
    wanted = Wanted(partitions=2, target_bytes=1_200, row_group=200)
    with killed(STEPS[step], step, nth):
        convert(BOTH, storage_of(root), Options(wanted))
    left_behind = stored(root)
    assert all(left_behind[kind].items() <= expected(BOTH)[kind].items() for kind in KINDS)
    convert(BOTH, storage_of(root), Options(wanted))
    assert stored(root) == expected(BOTH)
    assert [row["path"] for row in inputs_of(root)] == sorted(BOTH)
    assert not (root / ".work").exists()


def test_a_merge_without_memory_says_so_and_goes_on(tmp_path, monkeypatch):
    for end in (2, 4):
        root = made(tmp_path, BOTH[:end], wanted=Wanted(by="query"), update=True)
    with monkeypatch.context() as patched:
        patched.setattr(merging, "MEMORY", "100KB")
        with pytest.raises(StorewiseError, match=r"cannot be merged: .*; make room in .*, or give"):
            merge(Directory(root))
    assert stored(root) == expected(BOTH[:4])
    merge(Directory(root))
    assert stored(root) == expected(BOTH[:4]) and not (root / ".work").exists()


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("harm", ["fewer", "other", "missing", "damaged"])
def test_a_merge_that_would_lose_documents_is_refused(tmp_path, copies, harm, equal):
    """Whether or not documents of equal inputs go, of which each share knows."""
    root, wanted = tmp_path / "set", Wanted(by="query")
    convert(copies[:2], storage_of(root), Options(wanted, share="s0", update=True))
    hidden = (root / "inputs" / "s0-0001.parquet").rename(tmp_path / "hidden")
    twin = shutil.copy(copies[0], str(root.with_name("twin.m10")))
    convert(
        [twin, *copies[2:4]][not equal :],
        storage_of(root),
        Options(wanted, share="s1", update=True),
    )
    hidden.rename(root / "inputs" / "s0-0001.parquet")
    tasks, before = files_of(root, Kind.TASKS)[0], inputs_of(root)
    rows = pq.ParquetFile(tasks).read()
    if harm in ("fewer", "other"):
        ids = pa.array([b"\0" * 12] * len(rows), rows.schema.field("_id").type)
        other = rows.set_column(0, rows.schema.field("_id"), ids)
        pq.write_table(rows.slice(1) if harm == "fewer" else other, tasks)
    else:
        tasks.unlink() if harm == "missing" else tasks.write_bytes(b"PAR1" + b"x" * 100)
    with pytest.raises(StorewiseError, match=f"^{root}: .* make a new data set of the outputs"):
        merge(storage_of(root))
    assert inputs_of(root) == before and len(files_of(root, Kind.ALIGN)) == 2


def test_a_merge_that_was_killed(tmp_path):
    for end in (2, 4, 6):
        root = made(tmp_path, BOTH[:end], update=True)
    for step in ("put", "put_commit", "delete"):
        with killed(Directory, step):
            merge(Directory(root))
    convert(BOTH[:6], storage_of(root), Options())
    assert stored(root) == expected(BOTH[:6])


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "dataset.json").write_text('{"format": 7}')
    for source, place, says in (
        (BOTH[0], tmp_path / "file", "cannot be written: File exists"),
        ("-", tmp_path / "set", "standard input"),
        (BOTH[0], tmp_path, "has files, but is no data set"),
        (BOTH[0], tmp_path / "other", "has format 7, this version knows 1"),
    ):
        with pytest.raises(StorewiseError, match=says):
            convert([source], storage_of(place), Options())


@pytest.mark.parametrize("spills", [False, True])
def test_progress_goes_on_while_files_are_written(tmp_path, request, spills):
    if spills:
        request.getfixturevalue("spilled")
    told = []
    convert(BOTH, storage_of(tmp_path / "set"), Options(), lambda *of: told.append(of))
    total = sum(Path(path).stat().st_size for path in BOTH)
    assert {of for _, of in told} == {total}
    assert told == sorted(told) and told[-1] == (total, total)
    assert len([done for done, _ in told if total / 2 < done < total]) >= len(KINDS) - 1
