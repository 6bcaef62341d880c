"""Write the tables' columns into ``docs/analysis.md``: ``python docs/tables.py``.

Tables and columns are those of ``tests/data/stored/tables``, to which a test holds the analysis;
their words are in ``docs/tables.yaml``. Another test holds the page to what this prints.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
STORED = HERE.parent / "tests" / "data" / "stored" / "tables"
PAGE = HERE / "analysis.md"
BEGIN, END = "<!-- Made by docs/tables.py -->\n", "<!-- End -->\n"
Words = Mapping[str, str | None]


def section(folder: Path) -> str:
    """The text of all tables in a folder; ValueError where words and columns differ."""
    words: dict[str, Any] = yaml.safe_load((HERE / "tables.yaml").read_text(encoding="utf-8"))
    tables: dict[str, dict[str, str | None]] = words["tables"]
    files = {path.stem: path for path in folder.glob("*.csv")}
    if other := set(tables) ^ set(files):
        raise ValueError(f"docs/tables.yaml and {folder} differ in {sorted(other)}")
    # Those between the repeat and the phases.
    factors = _rows(files["trials"])[0][2:-2]
    lines = [f"In several tables: {_told(words['common'])}.", ""]
    for name, told in tables.items():
        columns = _rows(files[name])[0]
        if set(factors) <= set(columns):
            columns = [column for column in columns if column not in factors]
        own = {names: text for names, text in told.items() if names not in ("row", "like")}
        like = tables.get(told.get("like") or "", {})
        _check(name, columns, own, [*own, *like, *words["common"]])
        lines.append(f"- **{name}**, a row per {told['row']}: {_told(own)}.")
    heading, *measures = _rows(files["measures"])
    names = {row[heading.index("measure")] for row in measures}
    _check("measures", names, {}, words["measures"])
    return "\n".join([*lines, "", f"Measures: {_told(words['measures'])}."])


def _rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.reader(lines))


def _check(table: str, columns: Collection[str], own: Words, known: Collection[str]) -> None:
    unknown = [column for column in columns if not any(_fits(column, one) for one in known)]
    gone = [names for names in own if not any(_fits(column, names) for column in columns)]
    if unknown or gone:
        raise ValueError(f"{table}: docs/tables.yaml lacks {unknown} and has {gone}, which are not")


def _fits(column: str, names: str) -> bool:
    return any(fnmatch(column, name) for name in names.split(", "))


def _told(words: Words) -> str:
    """Each name with what it says in brackets, if anything needs to be said."""
    quoted = ((re.sub(r"[^, ]+", r"`\g<0>`", names), text) for names, text in words.items())
    return ", ".join(f"{names} ({text})" if text else names for names, text in quoted)


def page(folder: Path = STORED) -> str:
    """The page with these tables between its marks."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n{section(folder)}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
