"""One store: a data set, and next to it the parts of a load that is not finished."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from storewise.atomic import clear_unfinished, write_aside
from storewise.dataset.commits import State
from storewise.dataset.conversion import load_settings, load_state, recover
from storewise.dataset.rounds import Folders
from storewise.dataset.settings import Settings
from storewise.dataset.storage import (
    DESCRIPTION,
    LOAD,
    Bucket,
    DatasetStorage,
    clear,
    locked,
    storage_of,
)
from storewise.dataset.writer import DataFile
from storewise.documents import Kind
from storewise.errors import EngineError
from storewise.metrics.host import tree_bytes
from storewise.s3.uri import is_remote

#: In a store directory: where its data set is, if it is elsewhere.
PLACE = "place.json"


def place_of(directory: Path, place: str) -> str:
    """The location of a store directory's data set below the setting `place`.

    The name is the same for each run of a trial, so that a run finds leftovers of a killed one.
    """
    path = directory.absolute()
    digest = hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9.-]+", "_", "-".join(path.parts[-3:]))
    return f"{place.rstrip('/')}/{readable}-{digest}"


class Store:
    """A store directory, whose data set may be elsewhere (`PLACE`)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.storage = self._storage()
        self.state = State({}, [])
        self.settings: Settings | None = None
        self.number = 1
        """Number of the next commit."""
        self.finished = False
        """Whether no load was under way at the last look."""
        self._files: list[DataFile] = []

    def __str__(self) -> str:
        where = str(self.storage)
        return where if where == str(self.directory) else f"{self.directory} ({where})"

    def _storage(self) -> DatasetStorage:
        link = self.directory / PLACE
        try:
            place = str(json.loads(link.read_text(encoding="utf-8"))["place"])
        except FileNotFoundError:
            return storage_of(self.directory)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EngineError(f"parquet: {link}: contains no valid path: {error}") from error
        return storage_of(place, self.directory)

    @property
    def remote(self) -> bool:
        """Whether the data set is on S3."""
        return isinstance(self.storage, Bucket)

    def make_place(self, place: str | None) -> None:
        """Create the data set below `place`; leftovers of a killed run are removed."""
        if place is None or (self.directory / PLACE).exists():
            return
        where = place_of(self.directory, place)
        if not is_remote(where):
            where = str(Path(where).absolute())
        self.storage = storage_of(where, self.directory)
        self.storage.remove()
        self.storage.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_aside(self.directory / PLACE, json.dumps({"place": where}) + "\n")

    def remove(self) -> None:
        """Remove the data set if it is outside the store directory. EngineError if its path is not
        one that this store would have made: the file that names it may be forged."""
        if not (self.directory / PLACE).exists():
            return
        # Without the digest: a job on another host may see the directory by another path.
        begin = place_of(self.directory, "").rpartition("-")[0]
        if not str(self.storage).rstrip("/").rpartition("-")[0].endswith(begin):
            raise EngineError(
                f"not removed: {self.storage}, which {PLACE} names, is not this store's"
            )
        self.storage.remove()

    def look(self) -> None:
        """Read the current state of the data set."""
        self.state = load_state(self.storage)
        there = self.state.commits or self.storage.read_bytes(DESCRIPTION) is not None
        self.settings = load_settings(self.storage) if there else None
        self.number = self.state.next_number("")
        self.finished = next(self._load.glob("*/*.parquet"), None) is None
        self._files = self.state.files()

    def repair(self) -> None:
        """Complete or undo the commit of a killed process, then `look`; a store has one writer."""
        with locked(self.storage, "", alone=True) as own:
            recover(self.storage, Folders(own), "")
            clear(self.storage, own, "")
        clear_unfinished(self.directory)
        self.look()
        if not self._load.exists():
            self.remove_parts()
        for old in set(self._load.parent.glob("*")) - {self._load}:
            shutil.rmtree(old)

    @property
    def _load(self) -> Path:
        return self.storage.root / LOAD / f"{self.number:04d}"

    def parts_of(self, kind: Kind) -> Path:
        """The directory of a kind's parts."""
        return self._load / kind.table

    def parts(self, kind: Kind) -> list[Path]:
        """The parts of a kind, oldest first."""
        return sorted(self.parts_of(kind).glob("*.parquet"))

    def remove_parts(self) -> None:
        """Remove the parts of all loads: they are in the data set."""
        shutil.rmtree(self.storage.root / LOAD, ignore_errors=True)

    def paths(self, kind: Kind, partitions: Collection[int] | None = None) -> list[str]:
        """The paths of the data files of a kind, of all partitions or of some, for Arrow's file
        systems."""
        return [
            self.storage.path(file.name)
            for file in self._files
            if file.table == kind.table and (partitions is None or file.partition in partitions)
        ]

    def file_system(self) -> Any:
        """Arrow's file system that has the data files."""
        if self.remote:
            from storewise.s3.arrow import file_system

            return file_system()
        from pyarrow import fs

        return fs.LocalFileSystem()

    def disk_bytes(self) -> int:
        """Bytes of all files, those elsewhere included."""
        remote = sum(file.bytes for file in self.state.files()) if self.remote else 0
        return tree_bytes({self.directory, self.storage.root}) + remote
