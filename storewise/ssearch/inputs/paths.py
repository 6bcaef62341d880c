"""The files that a study names: directories, globs, lists and single files."""

# A million paths are strings here; a Path object for each would cost several times as much.
# ruff: noqa: PTH110, PTH112, PTH116, PTH118, PTH123

from __future__ import annotations

import difflib
import fnmatch
import glob
import hashlib
import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from storewise.atomic import write_aside
from storewise.errors import InputError
from storewise.layout import SAMPLED_OF
from storewise.s3.uri import is_remote
from storewise.ssearch.formats.registry import HEAD_BYTES, is_output
from storewise.ssearch.parse import remote
from storewise.ssearch.parse.stream import check_name, unreadable

_LIST_SUFFIXES = (".list", ".txt")
_CHUNK_BYTES = 1 << 20


def list_inputs(specs: Iterable[str | Path]) -> list[str]:
    """The files that `specs` name: normalized paths, sorted, each once.

    A spec is a directory (all regular files below it), a glob (``**`` crosses directories), a
    list (``@FILE``, or a file that ends in ``.list`` or ``.txt`` and is not itself an output of a
    search: one path per line, ``#`` starts a comment line), or a path. Relative paths count from
    the working directory, those in a list too. Directories and globs leave out names that start
    with a dot, as shells do. Links are followed, each directory once.

    On S3 a spec is ``s3://BUCKET/PREFIX/`` (all objects below it), an object, a list, or a glob;
    in a list, a prefix that ends with a slash or a glob names many objects. Keys stay as they are.

    Raises InputError for a spec that matches nothing, for a directory that cannot be read and for
    a name with control characters or bytes that are not UTF-8, ObjectError where S3 cannot be
    asked.
    """
    paths: set[str] = set()
    for spec in specs:
        matched = False
        for path in _expand(str(spec)):
            matched = True
            paths.add(path if is_remote(path) else os.path.normpath(path))
        if not matched:
            raise InputError(
                str(spec),
                f"no input file{nearest_path(str(spec))}",
                expected="a directory or prefix with files, a glob that matches, a list, or a file",
            )
    for path in paths:
        check_name(path)  # each becomes a line of a list, a row of a table, a word of a log
    return sorted(paths)


def write_listing(
    specs: Iterable[str | Path], sample: Mapping[str, Any] | None, listing: Path
) -> list[str]:
    """Write the list of a study's inputs; returns them. Of a sample (arguments of `sample_paths`),
    the number of files that it is taken from is written beside the list.

    A list with the same files stays as it is: a newer one is a reason to measure again. Raises what
    `list_inputs` does.
    """
    paths = list_inputs(specs)
    listing.parent.mkdir(parents=True, exist_ok=True)
    if sample:
        write_aside(listing.with_name(Path(SAMPLED_OF).name), f"{len(paths)}\n")
        paths = sample_paths(paths, **sample)
    lines = "".join(f"{path}\n" for path in paths)
    if not listing.is_file() or listing.read_text(encoding="utf-8") != lines:
        write_aside(listing, lines)
    return paths


def first_input(specs: Iterable[str | Path]) -> str:
    """A file that `specs` name, the first one that is found; InputError where there is none."""
    for spec in specs:
        if (path := next(_expand(str(spec)), None)) is not None:
            return path
    raise InputError(", ".join(map(str, specs)), "no input file")


def matches(spec: str) -> bool:
    """Whether `spec` names anything: a file, a directory, a list, or what a glob finds."""
    path = spec.removeprefix("@")
    if is_remote(path):
        return next(remote.expand(path), None) is not None
    if os.path.lexists(path):
        return True
    return glob.has_magic(spec) and next(_matching(spec), None) is not None


def nearest_path(spec: str) -> str:
    """` (did you mean ...?)` for a `spec` that names nothing, where a like name is beside it."""
    if is_remote(spec):
        from storewise.s3.listing import likely as likely_object

        return likely_object(spec)
    path = Path(spec)
    directory = Path(path.anchor)
    names = path.parts[1:] if path.anchor else path.parts
    for i, name in enumerate(names):
        if os.path.exists(directory / name):
            directory /= name
            continue
        try:
            known = sorted(os.listdir(directory))  # noqa: PTH208 - names, not paths
        except OSError:
            return ""  # what cannot be listed has no names to offer
        for close in difflib.get_close_matches(name, known):
            likely = str(directory.joinpath(close, *names[i + 1 :]))
            if matches(likely):
                return f" (did you mean {likely!r}?)"
        break
    return ""


def _expand(spec: str) -> Iterator[str]:
    if spec.startswith("@"):
        yield from _named_in(spec[1:])
    elif is_remote(spec):
        for uri in remote.expand(spec):
            yield from _named_in(uri) if uri == spec and _is_list(uri) else (uri,)
    elif os.path.isdir(spec):
        yield from _walk(spec)
    elif os.path.exists(spec):
        yield from _named_in(spec) if _is_list(spec) else (spec,)
    elif glob.has_magic(spec):
        yield from (path for path in _matching(spec) if not os.path.isdir(path or "."))


def _entries(directory: str, *, hidden: bool = False) -> list[os.DirEntry[str]]:
    """The content of `directory`: names that start with a dot, or those that do not."""
    try:
        with os.scandir(directory or ".") as entries:
            return [entry for entry in entries if entry.name.startswith(".") == hidden]
    except OSError as error:
        reason = f"the directory cannot be read: {error.strerror or error}"
        raise InputError(directory or ".", reason) from error


def _directories(top: str) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """`top` and all directories below it with their entries, each once, links followed, without
    keeping the tree in memory."""
    seen: set[tuple[int, int]] = set()
    waiting = [top]
    while waiting:
        directory = waiting.pop()
        entries = _entries(directory)
        status = os.stat(directory or ".")
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        yield directory, entries
        waiting += [entry.path for entry in entries if entry.is_dir()]


def _walk(top: str) -> Iterator[str]:
    """Regular files below `top`."""
    for _, entries in _directories(top):
        # A dangling link is reported when the file is read.
        yield from (e.path for e in entries if not e.is_dir() and (e.is_file() or e.is_symlink()))


def _matching(pattern: str, *, directories: bool = False) -> Iterator[str]:
    """The paths of a glob (of a last ``**`` the `directories` alone): as `glob.iglob`, which
    however leaves out what it may not read, and goes round in loops of links."""
    head, _, name = pattern.rpartition("/")
    head = head or ("/" if pattern.startswith("/") else "")
    if not glob.has_magic(head):
        parents: Iterable[str] = [head] if os.path.isdir(head or ".") else []
    else:
        above = _matching(head, directories=True)
        parents = (path for path in above if os.path.isdir(path or "."))
    for parent in parents:
        if name == "**":
            for directory, entries in _directories(parent):
                yield directory
                if not directories:
                    yield from (entry.path for entry in entries if not entry.is_dir())
        elif not glob.has_magic(name):
            if os.path.lexists(path := os.path.join(parent, name)):
                yield path
        else:
            matches_name = re.compile(fnmatch.translate(name)).match
            for entry in _entries(parent, hidden=name.startswith(".")):
                if matches_name(entry.name):
                    yield os.path.join(parent, entry.name)


def _is_list(path: str) -> bool:
    if not path.endswith(_LIST_SUFFIXES):
        return False
    try:
        with _opened(path) as stream:
            head = stream.read(HEAD_BYTES)
    except OSError as error:
        raise unreadable(path, error) from error
    # A path has no tab.
    return b"\t" not in head.partition(b"\n")[0] and not is_output(head)


def _named_in(path: str) -> Iterator[str]:
    """The files that a list names."""
    for name in read_list(path):
        if is_remote(name) and (name.endswith("/") or glob.has_magic(name)):
            matched = False
            for uri in remote.expand(name):
                matched = True
                yield uri
            if not matched:
                raise InputError(path, f"{name!r} in it names no input file{nearest_path(name)}")
        else:
            yield name


def read_list(path: str) -> Iterator[str]:
    """The lines of a list as they are: comments and empty lines left out, nothing looked for."""
    try:
        with (
            _opened(path) as raw,
            io.TextIOWrapper(raw, encoding="utf-8", errors="surrogateescape") as lines,
        ):
            for number, line in enumerate(lines, start=1):
                name = line.rstrip("\r\n")
                if "\0" in name:
                    raise InputError(
                        path, "a NUL byte", line=number, expected="a list: one path per line"
                    )
                if name.strip() and not name.startswith("#"):
                    yield name
    except OSError as error:
        raise unreadable(path, error) from error


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if is_remote(path):
        with remote.open_remote(path) as stream:
            yield io.BufferedReader(stream, _CHUNK_BYTES)
        return
    with open(path, "rb", buffering=_CHUNK_BYTES) as file:
        yield file


def slice_paths(paths: Iterable[str], part: int, parts: int) -> list[str]:
    """The share of `paths` that job `part` (from 0) of `parts` takes.

    It depends on each path alone, so a file stays with its job (and its cache) when others come.
    """
    if not 0 <= part < parts:
        raise ValueError(f"part {part} is not one of 0..{parts - 1}")
    return [path for path in paths if zlib.crc32(path.encode()) % parts == part]


def sample_paths(
    paths: Sequence[str],
    *,
    files: int | None = None,
    bytes: int | None = None,
    share: float | None = None,
    seed: int = 1,
) -> list[str]:
    """A seeded sample of `paths`, in their order, so that only it has to be digested.

    Exactly one of `files` (a number), `bytes` (files are taken until their stored sizes reach it)
    and `share` (0..1 of the files, rounded up) says how much; at least one file is taken.
    """
    objects = remote.stats(paths) if bytes is not None else {}

    def size(index: int) -> int:
        path = paths[index]
        return objects[path].size if path in objects else _size(path)

    chosen = sample_indexes(paths, size, files=files, bytes=bytes, share=share, seed=seed)
    return [paths[index] for index in chosen]


def _size(path: str) -> int:
    if is_remote(path):
        raise InputError(path, "there is no such object")
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise unreadable(path, error) from error


def sample_indexes(
    paths: Sequence[str],
    size: Callable[[int], int],
    *,
    files: int | None = None,
    bytes: int | None = None,
    share: float | None = None,
    seed: int = 1,
) -> list[int]:
    """Indexes, ascending, of the sample that `sample_paths` describes; `size` gives one's bytes."""
    if (files is not None) + (bytes is not None) + (share is not None) != 1:
        raise ValueError("give exactly one of files, bytes and share")
    # In a random order in which each path has a place of its own: files that are added or removed
    # do not move the others against each other, and a larger sample holds the smaller one.
    key = seed.to_bytes(8, "big", signed=True)
    ranks = [hashlib.blake2b(path.encode(), digest_size=16, key=key).digest() for path in paths]
    order = sorted(range(len(paths)), key=ranks.__getitem__)
    if share is not None:
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {share}")
        # Rounded first: 0.1 * 30 is 3.0000000000000004 and must stay 3.
        files = -int(-round(share * len(order), 9) // 1)
    if files is not None:
        return sorted(order[: max(files, 1)])
    assert bytes is not None
    taken: list[int] = []
    total = 0
    for index in order:
        if taken and total >= bytes:
            break
        taken.append(index)
        total += size(index)
    return sorted(taken)
