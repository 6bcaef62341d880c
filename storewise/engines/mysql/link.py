"""What a connection to MariaDB or MySQL can do, whichever driver makes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from storewise.engines.support.table import Row

DATABASE = "storewise"
#: Quoted names are identifiers, as in standard SQL, and a value that a column cannot hold is an
#: error in a statement (in LOAD DATA LOCAL it stays a warning).
MODE = "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"

#: What both drivers are told of a connection.
OPTIONS: Mapping[str, Any] = {
    "database": DATABASE,
    "charset": "utf8mb4",
    "init_command": MODE,
    "autocommit": True,
    "binary_prefix": True,
    "local_infile": True,
}


class LinkError(Exception):
    """What a driver raises: the number of the server's or driver's error, and its words."""

    @property
    def code(self) -> int:
        """The number; 0 where the driver gives none."""
        return self.args[0] if self.args and isinstance(self.args[0], int) else 0

    @property
    def words(self) -> str:
        return str(self.args[1] if len(self.args) > 1 else self)


class Link(ABC):
    """A connection that commits each statement by itself; for one thread at a time.

    Statements have ``%s`` where a value goes (and ``%%`` for a percent sign, where there are
    values). Its methods raise LinkError, and the errors of values that no text can be made of
    (UnicodeError).
    """

    within = False
    """A transaction has begun."""

    @property
    @abstractmethod
    def open(self) -> bool:
        """False as soon as it is closed, or known to be lost."""

    @abstractmethod
    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of a statement."""

    @abstractmethod
    def described(self, sql: str, values: Sequence[Any] = ()) -> tuple[list[str], list[Row]]:
        """The names of the columns too."""

    @abstractmethod
    def change(self, sql: str | bytes, values: Sequence[Any] = ()) -> int:
        """Run a statement without rows; how many rows it matched. Bytes are sent as they are."""

    @abstractmethod
    def warnings(self) -> int:
        """How many warnings the last statement gave."""

    @abstractmethod
    def close(self) -> None:
        """Close it; nothing where it is closed or lost."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """COMMIT at the end, ROLLBACK where an error leaves the block."""
        self.change("BEGIN")
        self.within = True
        try:
            yield
            self.change("COMMIT")
        except BaseException:
            if self.open:
                self.change("ROLLBACK")
            raise
        finally:
            self.within = False
