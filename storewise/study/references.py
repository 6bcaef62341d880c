"""Published studies whose figures are shown beside one's own: ``config/references/NAME.yaml``.

A reference is a CSV file with the published numbers as they were printed, and beside it a YAML file
of the same name with the citation, what the columns mean, and which rows are comparable with which
of our measures. ``config/references/README.md`` explains the keys.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from storewise.errors import ConfigError
from storewise.study.section import Section, as_list, complaint
from storewise.yamlfile import YamlFile, is_file, nearest, parse_yaml, read_text, shown

REFERENCES = Path("config/references")


def _cells(value: Any) -> Any:
    """Cells by column: those of a CSV file are text, whatever YAML made of them."""
    if not isinstance(value, dict):
        return value
    return {str(k): ["" if v is None else str(v) for v in as_list(vs)] for k, vs in value.items()}


def _phases(value: Any) -> Any:
    """A name, a list of names, or names with the levels that they must have."""
    names = value if isinstance(value, dict) else dict.fromkeys(as_list(value))
    return {name: levels or {} for name, levels in names.items()}


Rows = Annotated[dict[str, list[str]], BeforeValidator(_cells)]


class Citation(Section):
    """Citation of the publication."""

    authors: str
    title: str
    venue: str
    year: int
    link: str = ""


class Axis(Section):
    """A column of the CSV that is a factor, step parameter or derived level of ours."""

    column: str
    level: str


class Series(Section):
    """Some rows that are one of our measures."""

    id: str = Field(pattern=r"^[a-z0-9_-]+$")
    title: str
    where: Rows = Field(default_factory=dict)
    """Only rows with these cells; each value is one of a list."""
    value: str
    """Column of the values; rows in which it is empty are not of this series."""
    times: float = Field(default=1.0, gt=0)
    """Multiplied with a published value gives our unit."""
    unit: str
    phases: Annotated[dict[str, dict[str, Any]], BeforeValidator(_phases)] = Field(min_length=1)
    """Phases of ours, each with the levels that it must have."""
    measure: str
    """Our measure: documents_per_s, operations_per_s, duration, mean_service_time, ..."""
    operation: str = ""
    """The operation, for measures of one."""
    x: Axis | None = None
    """What the curve runs over; without it each system has one value."""
    same: dict[str, str] = Field(default_factory=dict)
    """Columns whose cells are equal to a level of ours within one curve: column -> level."""
    over: list[str] = Field(default_factory=list)
    """Levels of ours over which the best value counts, such as rates that were tried."""
    better: Literal["more", "less"] = "more"
    ratios: bool = True
    """False for a curve through the values of another series, whose ratios are there already."""

    def numbers(self) -> list[str]:
        """The columns that hold numbers: that of the values, and that of `x`."""
        return [self.value] if self.x is None else [self.value, self.x.column]


class NotCompared(Section):
    """Rows that are only listed, and why."""

    where: Rows
    why: str


class Reference(Section):
    """One published study."""

    name: str
    citation: Citation
    hardware: str
    versions: str = ""
    note: str = ""
    columns: dict[str, str]
    systems: dict[str, list[dict[str, Any]]] = Field(default_factory=dict)
    """Published name of a system -> engines of ours with levels; else the engine of that name."""
    system: str = "engine"
    """Column with the system's name."""
    series: list[Series] = Field(default_factory=list)
    pairs: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        default_factory=list
    )
    """Series whose values are set against each other, of one system: first over second."""
    not_compared: list[NotCompared] = Field(default_factory=list)
    rows: list[dict[str, str]]
    """The CSV's rows as text."""

    def short(self) -> str:
        """Authors and year, as a text names a study."""
        return f"{self.citation.authors.split(',')[0].split(' and ')[0]} {self.citation.year}"

    def cited(self) -> str:
        """The whole citation in one line."""
        c = self.citation
        return f"{c.authors}: {c.title}. {c.venue}, {c.year}.{' ' + c.link if c.link else ''}"


@dataclass(frozen=True, slots=True)
class Cell:
    """The value of one row in one series."""

    line: int
    series: Series
    row: Mapping[str, str]


def matches(row: Mapping[str, str], where: Mapping[str, Sequence[str]]) -> bool:
    """Whether a row has one of the wanted texts in each column."""
    return all(row[column] in wanted for column, wanted in where.items())


def cells(reference: Reference) -> list[Cell]:
    """Every row with every series that it belongs to; lines count from 2, under the heading."""
    return [
        Cell(line, series, row)
        for line, row in enumerate(reference.rows, start=2)
        for series in reference.series
        if matches(row, series.where) and all(row[column] for column in series.numbers())
    ]


def reason(reference: Reference, row: Mapping[str, str]) -> str | None:
    """The reason why a row is only listed, not compared; None if it is compared."""
    return next((n.why for n in reference.not_compared if matches(row, n.where)), None)


def find_reference(name: str, root: Path = Path(), beside: Path | None = None) -> Path:
    """The YAML file of a reference given by name (under config/references) or by path.

    A relative path counts from the working directory, else from `beside`, the study's directory.
    """
    path = Path(name)
    if path.suffix in {".yaml", ".yml"}:
        for file in (path, *([beside / path] if beside is not None else [])):
            if is_file(file):
                return file
        raise ConfigError(f"{shown(name)}: there is no such file of a reference")
    file = root / REFERENCES / f"{name}.yaml"
    if re.fullmatch(r"[A-Za-z0-9_-]+", name) and is_file(file):
        return file
    known = sorted(p.stem for p in (root / REFERENCES).glob("*.yaml"))
    raise ConfigError(
        f"no reference is called {shown(name)}{nearest(name, known)}; known in "
        f"{root / REFERENCES}: {', '.join(known) or 'none'}; or give the path of a YAML file"
    )


def reference_texts(paths: Iterable[Path]) -> dict[str, dict[str, str]]:
    """The texts of references by name, as they are kept with results: {name: {yaml:, csv:}}."""
    return {path.stem: _texts(path) for path in paths}


def _texts(path: Path) -> dict[str, str]:
    files = {"yaml": path, "csv": path.with_suffix(".csv")}
    return {key: read_text(file, "reference") for key, file in files.items()}


def load_reference(path: Path) -> Reference:
    """Read and check one reference; raises ConfigError with the file and what is wrong."""
    texts = _texts(path)
    return parse_reference(path.stem, texts["yaml"], texts["csv"], str(path))


def parse_reference(name: str, text: str, table: str, where: str = "") -> Reference:
    """A reference from the texts of its two files; ConfigError names `where`, or else `name`."""
    file = parse_yaml(text, Path(where or name), "reference")
    for key in ("name", "rows"):
        if key in file.data:
            file.fail((key,), "is not a key: it comes from the files themselves")
    rows = list(csv.DictReader(io.StringIO(table)))
    if not rows:
        file.fail((), "the CSV file beside it has no rows")
    for line, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            file.fail((), f"line {line} of its CSV file has too many or too few cells")
    try:
        reference = Reference.model_validate({"name": name, "rows": rows, **file.data})
    except ValidationError as error:
        explained = "config/references/README.md"
        file.fail(*complaint(error, Reference, hidden=("name", "rows"), explained_in=explained))
    _check(reference, file)
    return reference


def _check(reference: Reference, file: YamlFile) -> None:
    heading = set(reference.rows[0])
    used = {reference.system, *reference.columns}
    for series in reference.series:
        used |= {*series.numbers(), *series.where, *series.same}
    for left_out in reference.not_compared:
        used |= set(left_out.where)
    if missing := sorted(used - heading):
        columns = ", ".join(reference.rows[0])
        file.fail((), f"its CSV file has no column {missing[0]!r}; it has: {columns}")
    if unexplained := sorted(heading - set(reference.columns)):
        file.fail(("columns",), f"{unexplained[0]!r} is not explained")
    names = [series.id for series in reference.series]
    if len(set(names)) < len(names):
        file.fail(("series",), "an id is there twice")
    for pair in reference.pairs:
        for name in pair:
            if name not in names:
                file.fail(("pairs",), f"there is no series {name!r}")
    for published, ours in reference.systems.items():
        if any("engine" not in one for one in ours):
            file.fail(("systems", published), "each entry needs `engine`")
    placed = cells(reference)
    for cell in placed:
        for column in cell.series.numbers():
            try:
                float(cell.row[column])
            except ValueError:
                where = f"line {cell.line} of its CSV file, {column}"
                file.fail((), f"{where}: {cell.row[column]!r} is not a number")
    lines = {cell.line for cell in placed}
    for line, row in enumerate(reference.rows, start=2):
        if line not in lines and reason(reference, row) is None:
            file.fail((), f"line {line} of its CSV file is in no series and not in `not_compared`")
