"""Conversion of SSEARCH outputs to a data set: new, resumed, or updated."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from storewise.atomic import write_aside
from storewise.dataset.commits import FOLDER, Commit, Known, State, commit_name, number_of
from storewise.dataset.merge import merge_files
from storewise.dataset.rounds import (
    Folders,
    carry_out,
    chunk_bytes,
    chunks_of,
    commit_round,
    rounds_of,
    run_round,
    text_of,
)
from storewise.dataset.settings import Settings, Wanted, dump, parse
from storewise.dataset.storage import DESCRIPTION, LOAD, WORK, DatasetStorage, clear, locked
from storewise.errors import BadInputs, StorewiseError
from storewise.ssearch.inputs.scan import status_of
from storewise.ssearch.parse.remote import Listed
from storewise.ssearch.parse.stream import STDIN, content_digest

#: So many small files of a partition are made into one after an update.
SMALL_FILES = 8
_MARK = "conversion.json"

#: Called with stored bytes of inputs: what is done, and what there is to do. What has been read
#: counts as half done.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a conversion. `update` adds inputs to those of an existing data set. `quarantine`
    leaves bad inputs out; else a bad input ends the conversion.

    `share` names this writer if several write one data set at the same time: a prefix of the names
    of its files.
    """

    wanted: Wanted = field(default_factory=Wanted)
    processes: int = 1
    update: bool = False
    quarantine: bool = False
    share: str = ""


@dataclass(slots=True)
class Summary:
    """Counts of a conversion, and of the data set after it.

    `inputs` is how many inputs were read now, `read` their stored bytes, `text` bytes of their
    content; where it was `resumed`, a killed run had read some of them. `files`, `bytes` and
    `documents` are of the whole data set. `equal` has (path, path of the equal input), `bad`
    messages, `warnings` (path, text).
    """

    where: str
    inputs: int = 0
    read: int = 0
    text: int = 0
    seconds: float = 0.0
    resumed: bool = False
    files: int = 0
    bytes: int = 0
    documents: int = 0
    equal: list[tuple[str, str]] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def count(self, state: State) -> None:
        """Add the counts of a state."""
        files = state.files()
        self.files, self.bytes = len(files), sum(file.bytes for file in files)
        rows = state.rows().select(["documents", "equal_to", "bad"])
        self.documents = sum(
            documents
            for documents, equal, bad in zip(*(c.to_pylist() for c in rows.columns), strict=True)
            if equal is None and bad is None
        )


def load_state(storage: DatasetStorage) -> State:
    """The state of a data set by its commits."""
    commits: dict[str, Commit] = {}
    for name in storage.names():
        if name.startswith(f"{FOLDER}/") and (content := storage.read_bytes(name)) is not None:
            commits[name] = Commit.parse(content, f"{storage}/{name}")
    return State.of(commits)


def load_settings(storage: DatasetStorage) -> Settings:
    """The settings of a data set; StorewiseError where there is none."""
    content = storage.read_bytes(DESCRIPTION)
    if content is None:
        raise StorewiseError(
            f"{storage}: is no data set ({DESCRIPTION} is missing); make one with `storewise "
            "convert INPUTS --to parquet -o DATASET`"
        )
    return parse(content, f"{storage}/{DESCRIPTION}")


def describe(storage: DatasetStorage, wanted: Wanted, text: int) -> Settings:
    """The settings of the data set; a new one is begun, for `text` bytes of text."""
    there = storage.read_bytes(DESCRIPTION)
    if there is None:
        if not storage.is_empty():
            raise StorewiseError(
                f"{storage}: has files, but is no data set ({DESCRIPTION} is missing); give an "
                "empty or new directory"
            )
        settings = wanted.new(text)
        storage.write_text(DESCRIPTION, dump(settings))
        return settings
    settings = parse(there, f"{storage}/{DESCRIPTION}")
    try:
        wanted.agree(settings, str(storage))
    except StorewiseError:
        if any(name.startswith(f"{FOLDER}/") for name in storage.names()):
            raise
        settings = wanted.new(text)  # nothing is in it yet
        storage.write_text(DESCRIPTION, dump(settings))
    return settings


def recover(storage: DatasetStorage, folders: Folders, share: str) -> State:
    """Finish or remove the rest of a killed run; returns the state of the data set."""
    work = folders.own.parent
    for other in [folders] if share else map(Folders, sorted(work.iterdir())):
        for journal in other.commits():
            carry_out(storage, other, journal, share or other.share)
    state = load_state(storage)
    known = {*state.commits, *(file.name for file in state.files())}
    lost = [name for name in storage.names() if name not in known]
    # A share leaves alone what others may be writing.
    storage.delete([name for name in lost if not share or (number_of(name) or ("",))[0] == share])
    return state


def convert(
    names: Sequence[str],
    storage: DatasetStorage,
    options: Options,
    progress: Progress = lambda *_: None,
) -> Summary:
    """Put the documents of `names` (from `list_inputs`) into a data set.

    Resumes a conversion that was killed. Raises StorewiseError for bad inputs, for inputs that
    differ from those of the existing data set, and if the directory cannot be written; what was
    committed before an error is kept.
    """
    begin = time.monotonic()
    try:
        # A directory of inputs may have the data set in it.
        names = [name for name in names if not storage.holds(name)]
        files = _listed(names, quarantine=options.quarantine)
        storage.root.mkdir(parents=True, exist_ok=True)
        with locked(storage, options.share) as own:
            try:
                summary = _convert(files, storage, options, Folders(own), progress)
            except StorewiseError as error:
                begun = (own / _MARK).exists()
                if not begun or (isinstance(error, BadInputs) and not load_state(storage).commits):
                    clear(storage, own, options.share)  # nothing was committed
                raise
            clear(storage, own, options.share)
    except OSError as error:
        raise _unwritable(storage, error) from error
    except pa.ArrowException as error:
        raise StorewiseError(
            f"{storage}: a file of the conversion is damaged ({error}); after a crash of the host "
            f"remove {storage.root / WORK} and call the same again"
        ) from error
    summary.seconds = time.monotonic() - begin
    return summary


def _unwritable(storage: DatasetStorage, error: OSError) -> StorewiseError:
    """The error for a data set that cannot be written, shorter than Arrow's own text."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    where = f" ({error.filename})" if error.filename else ""
    advice = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "see to the place"
    return StorewiseError(
        f"{storage}: cannot be written: {reason}{where}; {advice} and call the same again: what is "
        "finished is kept"
    )


def _convert(
    files: Sequence[Listed],
    storage: DatasetStorage,
    options: Options,
    folders: Folders,
    progress: Progress,
) -> Summary:
    if (storage.root / LOAD).exists():
        raise StorewiseError(
            f"{storage}: is the store of a load that has not ended ({LOAD}); end it, or give "
            "another directory"
        )
    settings = describe(storage, options.wanted, text_of(files))
    state = recover(storage, folders, options.share)
    _check_listed(storage, state)
    todo = _new_files(files, state.known())
    size = _begin(files, todo, storage, options, folders, state)
    summary = Summary(str(storage), resumed=folders.begun)
    total = sum(file.bytes for file in todo)
    before = len(state.commits)

    written = 0.0

    def read(size: int) -> None:
        summary.read += size
        progress(round((summary.read + written) / 2), total)

    for inputs in rounds_of(list(chunks_of(todo, size)), settings, storage.root):
        stored = sum(file.bytes for chunk in inputs for file in chunk)

        def wrote(share: float, stored: int = stored) -> None:
            nonlocal written
            written += share * stored
            read(0)

        number = state.next_number(options.share)
        commit = run_round(
            storage,
            folders,
            state,
            settings,
            inputs,
            number,
            options.share,
            processes=options.processes,
            quarantine=options.quarantine,
            read=read,
            wrote=wrote,
        )
        _note(summary, commit, {file.path for chunk in inputs for file in chunk})
        commit_round(storage, folders, commit, number, options.share)
        state = State.of({**state.commits, commit_name(options.share, number): commit})
    if before and not options.share:
        state = merge_files(
            storage, folders, state, settings, processes=options.processes, at_least=SMALL_FILES
        )
    summary.count(state)
    return summary


def _check_listed(storage: DatasetStorage, state: State) -> None:
    """Raises StorewiseError for documents of inputs that are in no list: nobody could tell which
    are there already."""
    summary = Summary(str(storage))
    summary.count(state)
    rows = sum(file.rows for file in state.files())
    if not summary.documents and rows:
        raise StorewiseError(
            f"{storage}: has {rows} documents and no list of their inputs, as engine parquet loads "
            "them; make a new data set of the outputs"
        )


def _note(summary: Summary, commit: Commit, paths: set[str]) -> None:
    """Add the counts, errors and warnings of a round's inputs to the summary."""
    columns = ("path", "equal_to", "bad", "warning", "text")
    for path, equal, bad, warning, text in zip(
        *(commit.rows[name].to_pylist() for name in columns), strict=True
    ):
        if path not in paths:
            continue  # of a commit that this one replaces
        summary.inputs += 1
        summary.text += text or 0
        if equal is not None:
            summary.equal.append((path, equal))
        if bad is not None:
            summary.bad.append(bad)
        if warning is not None:
            summary.warnings.append((path, warning))


def _listed(names: Sequence[str], *, quarantine: bool) -> list[Listed]:
    if STDIN in names:
        raise StorewiseError(
            "standard input cannot be put into a data set, which has a list of its inputs; give a "
            "file, or use --to jsonl"
        )
    files, missing = status_of(list(dict.fromkeys(names)))
    if missing and not quarantine:
        raise BadInputs([bad["error"] for bad in missing], len(names))
    # The reader reports why they cannot be read.
    return files + [Listed(bad["path"], 0, 0) for bad in missing]


def _new_files(files: Sequence[Listed], known: dict[str, Known]) -> list[Listed]:
    """The files that are not in the data set yet, in their order."""
    new = []
    for file in files:
        there = known.get(file.path)
        if there is None or (there.bad and (there.bytes, there.mtime_ns) != file[1:]):
            new.append(file)
        elif (there.bytes, there.mtime_ns) != file[1:] and (
            there.bytes != file.bytes or content_digest(file.path) != there.digest
        ):
            raise StorewiseError(
                f"{file.path}: has changed since it was put into the data set, which still has "
                "its old documents; make a new data set, or give the file another name"
            )
    return new


def _begin(
    files: Sequence[Listed],
    todo: Sequence[Listed],
    storage: DatasetStorage,
    options: Options,
    folders: Folders,
    state: State,
) -> int:
    """Marks what is under way, so that a killed conversion is told from an update; returns the
    bytes of a chunk, which are those of before."""
    mark = folders.own / _MARK
    digest = hashlib.blake2b(
        "\n".join(sorted(file.path for file in files)).encode(), digest_size=16
    ).hexdigest()
    record: dict[str, Any] = {}
    if mark.exists():
        record = json.loads(mark.read_bytes())
    elif not state.commits:
        record = {"inputs": digest}
    if todo and not options.update and record.get("inputs") != digest:
        raise StorewiseError(
            f"{storage}: is there with other inputs, and {todo[0].path} is not one of them; use "
            "--update to add what is new, or another directory"
        )
    size = chunk_bytes(text_of(todo), options.processes)
    record = {"inputs": digest, "chunk_bytes": record.get("chunk_bytes", size)}
    write_aside(mark, json.dumps(record))
    return int(record["chunk_bytes"])


def check_inputs(storage: DatasetStorage, names: Iterable[str]) -> None:
    """Raises StorewiseError where a data set has inputs other than `names`."""
    more = sorted(set(load_state(storage).known()) - set(names))
    if more:
        raise StorewiseError(
            f"{storage}: has {len(more)} inputs that are not asked for any more, such as "
            f"{more[0]}; remove the directory and run again"
        )


def merge(storage: DatasetStorage, processes: int = 1, at_least: int = 2) -> Summary:
    """Make one file of the small ones of each partition, where there are `at_least` so many."""
    try:
        with locked(storage, "") as own:
            folders = Folders(own)
            settings = load_settings(storage)
            state = recover(storage, folders, "")
            state = merge_files(
                storage, folders, state, settings, processes=processes, at_least=at_least
            )
            clear(storage, own, "")
    except OSError as error:
        raise _unwritable(storage, error) from error
    summary = Summary(str(storage))
    summary.count(state)
    return summary
