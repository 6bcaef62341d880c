"""Number of a store's files after its load, and of the metadata operations until then."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from storewise.metrics.inodes import Inodes, count_inodes
from storewise.metrics.metadata_operations import MetadataOperations
from storewise.metrics.schema import METRICS, Sample


class Census:
    """Counts the metadata operations in some directories from its construction to `take`, and the
    files at that time. Always `close` it.

    `warnings` say why operations were not counted at all.
    """

    def __init__(self, directories: Sequence[Path], log: logging.Logger) -> None:
        self._directories, self._log = directories, log
        self._operations: MetadataOperations | None = None
        self.warnings: list[str] = []
        try:
            self._operations = MetadataOperations(directories)
        except OSError as error:
            text = f"metadata operations of the load were not counted: {error.strerror}"
            self._log.warning("%s", text)
            self.warnings.append(text)

    def take(self, phase: str, elsewhere: Inodes | None = None) -> list[Sample]:
        """Rows of a result part; `elsewhere` are inodes of the store in other directories."""
        values: dict[str, int] = {}
        operations, self._operations = self._operations, None
        if operations is not None:
            seen = operations.stop()
            values = {
                "files_created": seen.created,
                "files_renamed": seen.renamed,
                "files_removed": seen.removed,
                "directories_made": seen.directories_made,
            }
            if operations.missed:
                self._log.info("more metadata operations than counted: %s", operations.missed)
        found = count_inodes(self._directories) + (elsewhere or Inodes())
        self._log.info("%d files in %d directories; %s", found.files, found.directories, values)
        values |= {"store_files": found.files, "store_inodes": found.all}
        return [Sample(phase, name, n, METRICS[name]) for name, n in values.items()]

    def close(self) -> None:
        """Stop counting; a second call does nothing."""
        operations, self._operations = self._operations, None
        if operations is not None:
            operations.close()
