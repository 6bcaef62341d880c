"""From SSEARCH outputs to a data set: new, gone on with, or updated."""

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
from storewise.dataset.home import DESCRIPTION, LOAD, WORK, Home, clear, locked
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
    """How to convert. `update` adds inputs to those of an existing data set. `quarantine` leaves
    bad inputs out; else a bad input ends the conversion.

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
    """What a conversion did and what the data set holds after it.

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
        """Take in what a state holds."""
        files = state.files()
        self.files, self.bytes = len(files), sum(file.bytes for file in files)
        rows = state.rows().select(["documents", "equal_to", "bad"])
        self.documents = sum(
            documents
            for documents, equal, bad in zip(*(c.to_pylist() for c in rows.columns), strict=True)
            if equal is None and bad is None
        )


def load_state(home: Home) -> State:
    """What the commits of a data set say."""
    commits: dict[str, Commit] = {}
    for name in home.names():
        if name.startswith(f"{FOLDER}/") and (content := home.read_bytes(name)) is not None:
            commits[name] = Commit.parse(content, f"{home}/{name}")
    return State.of(commits)


def load_settings(home: Home) -> Settings:
    """The settings of a data set; StorewiseError where there is none."""
    content = home.read_bytes(DESCRIPTION)
    if content is None:
        raise StorewiseError(
            f"{home}: is no data set ({DESCRIPTION} is missing); make one with `storewise convert "
            "INPUTS --to parquet -o DATASET`"
        )
    return parse(content, f"{home}/{DESCRIPTION}")


def describe(home: Home, wanted: Wanted, text: int) -> Settings:
    """The settings of the data set, which is begun where there is none, for so much text."""
    there = home.read_bytes(DESCRIPTION)
    if there is None:
        if not home.is_empty():
            raise StorewiseError(
                f"{home}: has files, but is no data set ({DESCRIPTION} is missing); give an empty "
                "or new directory"
            )
        settings = wanted.new(text)
        home.write_text(DESCRIPTION, dump(settings))
        return settings
    settings = parse(there, f"{home}/{DESCRIPTION}")
    try:
        wanted.agree(settings, str(home))
    except StorewiseError:
        if any(name.startswith(f"{FOLDER}/") for name in home.names()):
            raise
        settings = wanted.new(text)  # nothing is in it yet
        home.write_text(DESCRIPTION, dump(settings))
    return settings


def recover(home: Home, folders: Folders, share: str) -> State:
    """The state of the data set, after what a killed run left was finished or removed."""
    work = folders.own.parent
    for other in [folders] if share else map(Folders, sorted(work.iterdir())):
        for journal in other.commits():
            carry_out(home, other, journal, share or other.share)
    state = load_state(home)
    known = {*state.commits, *(file.name for file in state.files())}
    lost = [name for name in home.names() if name not in known]
    # A share leaves alone what others may be writing.
    home.delete([name for name in lost if not share or (number_of(name) or ("",))[0] == share])
    return state


def convert(
    names: Sequence[str], home: Home, options: Options, progress: Progress = lambda *_: None
) -> Summary:
    """Put the documents of `names` (from `list_inputs`) into a data set.

    Resumes a conversion that was killed. Raises StorewiseError for bad inputs, for inputs that
    differ from those of the existing data set, and if the directory cannot be written; what was
    committed before an error is kept.
    """
    begin = time.monotonic()
    try:
        # A directory of inputs may have the data set in it.
        names = [name for name in names if not home.holds(name)]
        files = _listed(names, quarantine=options.quarantine)
        home.root.mkdir(parents=True, exist_ok=True)
        with locked(home, options.share) as own:
            try:
                summary = _convert(files, home, options, Folders(own), progress)
            except StorewiseError as error:
                begun = (own / _MARK).exists()
                if not begun or (isinstance(error, BadInputs) and not load_state(home).commits):
                    clear(home, own, options.share)  # nothing was committed
                raise
            clear(home, own, options.share)
    except OSError as error:
        raise _unwritable(home, error) from error
    except pa.ArrowException as error:
        raise StorewiseError(
            f"{home}: a file of the conversion is damaged ({error}); after a crash of the host "
            f"remove {home.root / WORK} and call the same again"
        ) from error
    summary.seconds = time.monotonic() - begin
    return summary


def _unwritable(home: Home, error: OSError) -> StorewiseError:
    """What is said where the system refuses to write; Arrow's own errors have long texts."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    where = f" ({error.filename})" if error.filename else ""
    advice = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "see to the place"
    return StorewiseError(
        f"{home}: cannot be written: {reason}{where}; {advice} and call the same again: what is "
        "finished is kept"
    )


def _convert(
    files: Sequence[Listed], home: Home, options: Options, folders: Folders, progress: Progress
) -> Summary:
    if (home.root / LOAD).exists():
        raise StorewiseError(
            f"{home}: is the store of a load that has not ended ({LOAD}); end it, or give another "
            "directory"
        )
    settings = describe(home, options.wanted, text_of(files))
    state = recover(home, folders, options.share)
    _check_listed(home, state)
    todo = _new_files(files, state.known())
    size = _begin(files, todo, home, options, folders, state)
    summary = Summary(str(home), resumed=folders.begun)
    total = sum(file.bytes for file in todo)
    before = len(state.commits)

    written = 0.0

    def read(size: int) -> None:
        summary.read += size
        progress(round((summary.read + written) / 2), total)

    chunks = list(chunks_of(todo, size))
    for inputs in rounds_of(chunks, settings, home.root):
        stored = sum(file.bytes for chunk in inputs for file in chunk)

        def wrote(share: float, stored: int = stored) -> None:
            nonlocal written
            written += share * stored
            read(0)

        number = state.next_number(options.share)
        commit = run_round(
            home,
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
        commit_round(home, folders, commit, number, options.share)
        state = _after(state, commit, commit_name(options.share, number))
    if before and not options.share:
        state = merge_files(
            home, folders, state, settings, processes=options.processes, at_least=SMALL_FILES
        )
    summary.count(state)
    return summary


def _check_listed(home: Home, state: State) -> None:
    """Raises StorewiseError for documents of inputs that are in no list: nobody could tell which
    are there already."""
    summary = Summary(str(home))
    summary.count(state)
    rows = sum(file.rows for file in state.files())
    if not summary.documents and rows:
        raise StorewiseError(
            f"{home}: has {rows} documents and no list of their inputs, as engine parquet loads "
            "them; make a new data set of the outputs"
        )


def _after(state: State, commit: Commit, name: str) -> State:
    return State.of({**state.commits, name: commit})


def _note(summary: Summary, commit: Commit, paths: set[str]) -> None:
    """Take in what there is to be said of a round's inputs."""
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
    """Those that the data set has not, in their order."""
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
    home: Home,
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
            f"{home}: is there with other inputs, and {todo[0].path} is not one of them; use "
            "--update to add what is new, or another directory"
        )
    size = chunk_bytes(text_of(todo), options.processes)
    record = {"inputs": digest, "chunk_bytes": record.get("chunk_bytes", size)}
    write_aside(mark, json.dumps(record))
    return int(record["chunk_bytes"])


def check_inputs(home: Home, names: Iterable[str]) -> None:
    """Raises StorewiseError where a data set has inputs other than `names`."""
    more = sorted(set(load_state(home).known()) - set(names))
    if more:
        raise StorewiseError(
            f"{home}: has {len(more)} inputs that are not asked for any more, such as {more[0]}; "
            "remove the directory and run again"
        )


def merge(home: Home, processes: int = 1, at_least: int = 2) -> Summary:
    """Make one file of the small ones of each partition, where there are `at_least` so many."""
    try:
        with locked(home, "") as own:
            folders = Folders(own)
            settings = load_settings(home)
            state = recover(home, folders, "")
            state = merge_files(
                home, folders, state, settings, processes=processes, at_least=at_least
            )
            clear(home, own, "")
    except OSError as error:
        raise _unwritable(home, error) from error
    summary = Summary(str(home))
    summary.count(state)
    return summary
