"""Install a store: fetch, verify and unpack it, or change nothing."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import file_digest
from pathlib import Path

import orjson
import psutil

from storewise.atomic import read_as
from storewise.errors import StorewiseError
from storewise.run.install.clients import Tick, check_clients, fetch, jar_name
from storewise.run.install.recipes import Artefact, Recipe

#: The file in the directory of an installed store that says what it was made of (`Record`).
RECORD = "installed.json"
_CHECK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Record:
    """Record of an installed store."""

    store: str
    title: str
    version: str
    licence: str
    artefacts: tuple[Artefact, ...]


def record_of(recipe: Recipe) -> Record:
    """The record of a store that was installed by this recipe."""
    return Record(recipe.store, recipe.title, recipe.version, recipe.licence, recipe.artefacts)


def installed(place: Path) -> Record | None:
    """The record in a directory; None where `storewise install` did not make it."""
    try:
        return read_as(Record, place / RECORD)
    except (OSError, ValueError):
        return None


def check_host(recipe: Recipe) -> None:
    """StorewiseError where programs of the recipe cannot run on a host of this kind, or where
    the registry's client is missing."""
    check_clients(recipe.artefacts)
    if recipe.glibc is None:
        return
    here = f"{platform.system()} {platform.machine()}"
    library, version = platform.libc_ver()
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise StorewiseError(
            f"{recipe.store}: the programs are for Linux on x86-64, and this is {here}; `storewise "
            f"doctor {recipe.store}` says what else there is"
        )
    wanted = ".".join(map(str, recipe.glibc))
    if library != "glibc":
        raise StorewiseError(
            f"{recipe.store}: the programs need glibc {wanted}, and the C library of this host is "
            "another one"
        )
    if [*map(int, version.split(".")[:2])] < [*recipe.glibc]:
        raise StorewiseError(
            f"{recipe.store}: the programs need glibc {wanted}, and this host has {version}"
        )


def state_of(recipe: Recipe, prefix: Path) -> str:
    """A sentence on what is in a store's directory; empty where there is none."""
    place = prefix / recipe.store
    there = installed(place)
    if there == record_of(recipe):
        return f"installed in {place}"
    if there is not None:
        return f"{place} has {there.title} {there.version}"
    return f"{place} was not made by `storewise install`" if os.path.lexists(place) else ""


def install(recipe: Recipe, prefix: Path, *, force: bool, tick: Tick) -> bool:
    """Install a store into its directory below `prefix`; False where it is there already.

    It is made and checked in a directory beside its place, which is renamed at the end. Another
    content of the place is replaced with `force` only. StorewiseError says why nothing was changed.
    """
    place = prefix / recipe.store
    state = state_of(recipe, prefix)
    if state and not force:
        if installed(place) == record_of(recipe):
            _check_version(recipe, place, "; --force installs it again")
            return False
        raise StorewiseError(f"{recipe.store}: {state}; --force replaces it")
    check_host(recipe)
    try:
        prefix.mkdir(parents=True, exist_ok=True)
        _check_space(recipe, prefix)
        with _work_directory(place) as work:
            fetched, made = work / "fetched", work / "made"
            fetched.mkdir()
            made.mkdir()
            _build(recipe, fetched, made, tick)
            if os.path.lexists(place):
                place.rename(work / "old")
            made.rename(place)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise StorewiseError(
            f"{recipe.store}: {where}{error.strerror or error}; nothing was changed (--prefix DIR "
            "names another place)"
        ) from error
    return True


def _build(recipe: Recipe, fetched: Path, made: Path, tick: Tick) -> None:
    try:
        fetch(recipe.artefacts, fetched, tick)
    except StorewiseError as error:
        raise StorewiseError(f"{recipe.store}: {error}") from error
    tick("verifying checksums")
    files = _verified(recipe, fetched / "files")
    tick("unpacking")
    if recipe.unpack:
        for file in files.values():
            _unpack(recipe, file, made)
    else:
        (made / "lib").mkdir()
        for artefact, file in files.items():
            file.rename(made / "lib" / jar_name(artefact))
    for name, target in recipe.links.items():
        (made / name).symlink_to(target)
    tick("trying it")
    _check_version(recipe, made)
    (made / RECORD).write_bytes(orjson.dumps(asdict(record_of(recipe)), option=orjson.OPT_INDENT_2))


def _check_space(recipe: Recipe, prefix: Path) -> None:
    free, needed = shutil.disk_usage(prefix).free, recipe.size + recipe.disk
    if free < needed:
        raise StorewiseError(
            f"{recipe.store}: {prefix} has {free / 1e6:,.0f} MB free, and {needed / 1e6:,.0f} MB "
            "are needed; make room there, or name another place with --prefix"
        )


@contextmanager
def _work_directory(place: Path) -> Iterator[Path]:
    """A temporary directory beside `place`; those that killed processes left are removed, too."""
    host = socket.gethostname()
    for left in place.parent.glob(f".{place.name}.{host}.*.part"):
        owner = left.name.split(".")[-2]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    work = place.with_name(f".{place.name}.{host}.{os.getpid()}.part")
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _verified(recipe: Recipe, files: Path) -> dict[Artefact, Path]:
    """The file of each artefact, found by its checksum; StorewiseError where one did not come."""
    by_digest = {}
    for file in sorted(files.iterdir()):
        with file.open("rb") as content:
            by_digest[file_digest(content, "sha256").hexdigest()] = file
    wrong = [artefact.name for artefact in recipe.artefacts if artefact.sha256 not in by_digest]
    if wrong:
        others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise StorewiseError(
            f"{recipe.store}: the checksum of {wrong[0]}{others} is not the expected one. What "
            "came was not used: is there a mirror that has other files?"
        )
    return {artefact: by_digest[artefact.sha256] for artefact in recipe.artefacts}


def _unpack(recipe: Recipe, archive: Path, made: Path) -> None:
    with zipfile.ZipFile(archive) as content:
        for entry in content.infolist():
            begin = next((name for name in recipe.unpack if entry.filename.startswith(name)), None)
            if begin is None or entry.is_dir():
                continue
            file = made / recipe.unpack[begin] / entry.filename.removeprefix(begin)
            file.parent.mkdir(parents=True, exist_ok=True)
            with content.open(entry) as source, file.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            # Not every archive marks its programs as such.
            program = file.parent.name == "bin" or entry.external_attr >> 16 & stat.S_IXUSR
            file.chmod(0o755 if program else 0o644)


def _check_version(recipe: Recipe, place: Path, more: str = "") -> None:
    """Run a store's program for its version; StorewiseError where it does not run on this host."""
    if not recipe.check:
        return
    command = [str(place / recipe.check[0]), *recipe.check[1:]]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_CHECK_SECONDS, check=False
        )
        output = (done.stderr or done.stdout).strip()
        if done.returncode == 0 and recipe.version in done.stdout:
            return
        why = f"ended with status {done.returncode}: {output or 'nothing'}"
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    raise StorewiseError(
        f"{recipe.store}: {recipe.title} {recipe.version} does not run on this host: {why}. It "
        f"needs {recipe.needs}{more}"
    )
