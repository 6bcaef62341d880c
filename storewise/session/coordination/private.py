"""Files that control a run must belong to its user: leases, live directories and their parents.

Runs and jobs read in them which trials to abort, which processes to kill, which directories to
remove and where the servers are. So directories made by another user are refused, and those in
which every user could replace files.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from storewise.errors import ConfigError

_ONLY_OURS = 0o700
#: File with the run's id, in each directory that a run makes outside the results.
OWNER_MARK = ".storewise-run"


def restrict_umask() -> None:
    """Set the umask so that new files of this process and its children are never world-writable."""
    os.umask(os.umask(0o077) | 0o002)


def restrict_snakemake_directory(work: Path) -> None:
    """Remove world write permission from Snakemake's own directories, which it makes before it
    reads our rules. ConfigError if another user has put files there: jobs run scripts from there.
    """
    own = work / ".snakemake"
    if own.is_dir() and own.stat().st_mode & stat.S_IWOTH:
        us = {os.geteuid(), _our_number(work)}
        for path in (own, *sorted(own.iterdir())):
            if path.lstat().st_uid not in us:
                owner = _name(path.owner, path.lstat().st_uid)
                raise ConfigError(
                    f"{path.absolute()} belongs to user {owner}, because {own.absolute()} is "
                    "world-writable: jobs would run scripts of that user. Remove it"
                )
    for path in (own, *sorted((own / "log").glob("*")), own / "log"):
        if path.exists() and path.stat().st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~stat.S_IWOTH)


def make_private(path: Path) -> None:
    """Make a directory that only this user may enter; ConfigError if another user owns it."""
    try:
        path.mkdir(mode=_ONLY_OURS)
    except FileExistsError:
        check_private(path)


def check_private(path: Path) -> None:
    """If a directory exists, check that this user owns it and remove the access of all others.

    ConfigError, with the owner's name, if another user owns it.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"{path.absolute()} is no directory: remove it")
    owner = status.st_uid
    if owner != os.geteuid() and owner != _our_number(path.parent):
        raise ConfigError(
            f"{path.absolute()} belongs to user {_name(path.owner, owner)}: a run of that user, or "
            "files that shall mislead this one; remove it, or run in a directory of your own "
            "(--directory)"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        path.chmod(_ONLY_OURS)


def _our_number(directory: Path) -> int:
    """The user id that new files of this process get in a directory: a file server may map root, or
    all users, to another one."""
    probe = directory / f".owner.{os.getpid()}"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return os.geteuid()
    try:
        return probe.lstat().st_uid
    finally:
        probe.unlink()


def make_owned(directory: Path, run: str) -> None:
    """Make a directory outside the results, known as the run's (`made_by_run`). Raises OSError,
    with no directory left."""
    directory.mkdir(parents=True, mode=_ONLY_OURS)
    try:
        (directory / OWNER_MARK).write_text(f"{run}\n", encoding="utf-8")
    except OSError:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def owner_of(directory: Path) -> str:
    """The id of the run that made a directory, from the file in it; empty without one."""
    try:
        return (directory / OWNER_MARK).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def made_by_run(directory: Path, run: str) -> bool:
    """Whether `run` has made the directory and this user owns it. After a killed run only such
    directories are removed: the paths in its files may be forged."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    ours = status.st_uid == os.geteuid() or status.st_uid == _our_number(directory.parent)
    return stat.S_ISDIR(status.st_mode) and ours and bool(run) and owner_of(directory) == run


def world_writable_parents(paths: Iterable[Path]) -> list[str]:
    """The directories on the way to `paths` in which every user may replace files."""
    way: dict[Path, None] = {}
    for path in paths:
        for start in (path.absolute(), path.resolve()):
            way |= dict.fromkeys((start, *start.parents))
    found = []
    for directory in way:
        try:
            mode = directory.stat().st_mode
        except OSError:
            continue
        # With the sticky bit only the owner of a file may rename or remove it.
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            found.append(str(directory))
    return found


def _name(name: Callable[[], str], number: int) -> str:
    try:
        return name()
    except KeyError:
        return str(number)
