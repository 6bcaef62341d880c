"""Write the generated parts of pages: ``python docs/tables.py``.

Names, defaults, units and flags are the code's own; what it does not say of itself in a description
is in ``docs/tables.yaml``. A test holds the pages to what this prints. The columns of the analysis
are those of ``tests/data/stored/tables``, to which a test holds the analysis.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from storewise.engines.contract.engine import Engine
from storewise.engines.contract.server import ServerSettings
from storewise.engines.registry import ENGINES, engine
from storewise.engines.support.java import JavaSettings
from storewise.engines.support.server_spec import ConfigSettings
from storewise.metrics.schema import CORE, METRICS
from storewise.study.factors import PLAIN_FACTORS, SERVER_FACTORS
from storewise.study.inputs import Inputs, Search
from storewise.study.prices import Prices
from storewise.study.publication import Publish
from storewise.study.study import Study
from storewise.workloads.alignments.mixed_phase import MixedParams
from storewise.workloads.alignments.own import OwnQuestion
from storewise.workloads.alignments.queries import QUESTIONS as KNOWN
from storewise.workloads.alignments.query_phase import QueryParams
from storewise.workloads.alignments.workload import ReadParams, WriteParams
from storewise.workloads.contract import PhaseParams, SearchParams
from storewise.workloads.faults import Crash, Slow
from storewise.workloads.sensors.params import AddParams, LoadParams, RangeParams
from storewise.workloads.ycsb import params as ycsb_params

HERE = Path(__file__).resolve().parent
STORED = HERE.parent / "tests" / "data" / "stored" / "tables"
PAGE = HERE / "analysis.md"
STORES, STORE_PAGES = HERE / "engines.md", HERE / "engines"
STUDIES, RESULTS = HERE.parent / "config" / "README.md", HERE / "results.md"
SERVERS = HERE / "servers.md"
QUERIES, YCSB, SENSORS = (HERE / f"{page}.md" for page in ("queries", "ycsb", "measures"))
CONSISTENCY = HERE / "consistency.md"
BEGIN, END = "<!-- Made by docs/tables.py -->\n", "<!-- End -->\n"
Words = Mapping[str, str | None]
#: Settings of all stores whose servers Storewise starts: told once, on the page of servers.
COMMON_SETTINGS = {"home", "module", "config", "java", "heap_share", "jvm_options"}
OF_ALL_SERVERS = "see [Servers](../servers.md#settings-of-all-servers)."


def section(folder: Path) -> str:
    """The text of all tables in a folder; ValueError if descriptions and columns differ."""
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
    """Names, each with its description in brackets if it has one."""
    quoted = ((_quoted(names), text) for names, text in words.items())
    return ", ".join(f"{names} ({text})" if text else names for names, text in quoted)


def _quoted(names: str) -> str:
    return re.sub(r"[^, ]+", r"`\g<0>`", names)


def flags() -> str:
    """The features of each store, a line per flag."""
    words = yaml.safe_load((HERE / "tables.yaml").read_text(encoding="utf-8"))["flags"]
    of = {name: engine(name).flags for name in ENGINES}
    lines = []
    for flag, meaning in words.items():
        values = {name: getattr(flags, flag) for name, flags in of.items()}
        if kinds := sorted({value for value in values.values() if isinstance(value, str)}):
            by_kind = {kind: [name for name in of if values[name] == kind] for kind in kinds}
            stores = "; ".join(f"`{kind}` {', '.join(names)}" for kind, names in by_kind.items())
            lines.append(f"- `{flag}`, {meaning}: {stores}.")
            continue
        have = [name for name in of if values[name]]
        lack = [name for name in of if name not in have]
        stores = ", ".join(have) if len(have) <= len(lack) else f"all but {', '.join(lack)}"
        lines.append(f"- `{flag}`, {meaning}: {stores}.")
    return "\n".join(lines)


def levels() -> str:
    """The meaning of `strong` and `weak` in each store, its other levels, and its isolation."""
    words = yaml.safe_load((HERE / "tables.yaml").read_text(encoding="utf-8"))
    isolation: dict[str, str] = words["isolation"]
    lines = [_row("engine", "strong", "weak", "further levels", "isolation"), _row(*["---"] * 5)]
    for name in ENGINES:
        described = engine(name)
        two = [described.consistency_aliases[word] for word in ("strong", "weak")]
        others = [f"`{level}`" for level in described.consistencies if level not in two]
        link = f"[`{name}`](engines/{name}.md#levels-of-consistency)"
        lines.append(
            _row(link, *(f"`{level}`" for level in two), ", ".join(others), isolation[name])
        )
    return "\n".join(lines)


def store(described: Engine) -> str:
    """The levels of consistency and the settings of a store."""
    spec = getattr(described, "spec", None)
    aliases = {level: word for word, level in described.consistency_aliases.items()}
    lines = ["## Levels of consistency", ""]
    for number, (level, meaning) in enumerate(described.consistencies.items()):
        may_lose = level in described.lossy_levels or not described.flags.stores
        lost = "documents" if may_lose else "nothing"
        if spec is not None and spec.consistency[level].may_lose:
            lost = spec.consistency[level].may_lose
        words = ["default"] if number == 0 else []
        words += [f"`{aliases[level]}`"] if level in aliases else []
        called = f" ({', '.join(words)})" if words else ""
        lines.append(f"- `{level}`{called}: {meaning}. *May be lost:* {lost}.")
    lines += ["", "## Settings", ""]
    settings = described.Settings.model_fields
    common = [f"`{name}`" for name in settings if name in COMMON_SETTINGS]
    lines += [f"{', '.join(common)}: {OF_ALL_SERVERS}", ""] if len(common) > 1 else []
    if own := parameters(described.Settings, COMMON_SETTINGS if common[1:] else ()):
        lines.append(own)
    elif not common:
        lines.append("None.")
    return "\n".join(lines).rstrip()


def questions() -> str:
    """The parameters of phases `query` and `mixed`."""
    known = PhaseParams.model_fields
    hidden = {"own": QueryParams.model_fields["own"]}  # Storewise writes it
    asked, mixed = parameters(QueryParams, {**known, **hidden}), parameters(MixedParams, known)
    own = parameters(OwnQuestion, {})
    return (
        f"Parameters:\n\n{asked}\n\nThose of `mixed`:\n\n{mixed}\n\n"
        f"Keys of a question of your own:\n\n{own}"
    )


def ycsb() -> str:
    """YCSB's properties; ValueError if descriptions and models differ."""
    words = yaml.safe_load((HERE / "tables.yaml").read_text(encoding="utf-8"))
    lines = ["Of `load`; later phases may repeat but not contradict them:", ""]
    for title, model, known in (
        ("load", ycsb_params.LoadParams, PhaseParams.model_fields),
        ("run", ycsb_params.MixedParams, ycsb_params.LoadParams.model_fields),
    ):
        defaults = _defaults(model, known)
        told = words[f"ycsb_{title}"]
        _check(f"ycsb_{title}", defaults, told, told)
        for names, text in told.items():
            values = ", ".join(filter(None, (defaults[name] for name in names.split(", "))))
            lines.append(f"- {_quoted(names)}{f' ({values})' if values else ''}: {text}")
        lines += ["", "Of the later phases:", ""] if title == "load" else []
    return "\n".join(lines)


def sensors() -> str:
    """The parameters of the phases of workload `measures`."""
    known = PhaseParams.model_fields
    load, add = parameters(LoadParams, known), parameters(AddParams, known)
    asked = parameters(RangeParams, set(known) - {"operations"})
    parts = ["Parameters of `load`:", load, "Of `add`:", add, "Of `q2` and `q3`:", asked]
    return "\n\n".join(parts)


def common_settings() -> str:
    """The settings of all stores whose servers Storewise starts."""
    common = ServerSettings.model_fields
    of_java = parameters(JavaSettings, common)
    return "\n".join([parameters(ServerSettings), parameters(ConfigSettings, common), of_java])


def keys() -> str:
    """The keys of a study by section; ValueError if descriptions and models differ."""
    words = yaml.safe_load((HERE / "tables.yaml").read_text(encoding="utf-8"))
    lines = []
    for title, told in words["keys"].items():
        defaults = _sections()[title]
        _check(title, defaults, told["keys"], told["keys"])
        lines += [f"## {title}", ""]
        lines += [told["text"], ""] if "text" in told else []
        for name, text in told["keys"].items():
            default = defaults[name]
            if isinstance(text, list):
                default, text = text
            lines.append(
                f"- `{name}`{f' ({default})' if default else ''}{f': {text}' if text else ''}"
            )
        lines += ["", told["after"], ""] if "after" in told else [""]
    known = set(PhaseParams.model_fields)
    phases = words["phases"].format(
        write=parameters(WriteParams, known),
        read=parameters(ReadParams, known),
        any=parameters(PhaseParams),
        search=parameters(SearchParams),
        slow=parameters(Slow),
        crash=parameters(Crash),
    )
    return "\n".join([*lines, "## phases", "", phases])


def _defaults(model: type[BaseModel], left_out: Collection[str] = ()) -> dict[str, str]:
    """The names of a model's fields, each with its default as text."""
    return {
        name: "required"
        if field.is_required()
        else _default(field.get_default(call_default_factory=True))
        for name, field in model.model_fields.items()
        if name not in left_out
    }


def results() -> str:
    """The columns of a result part, and all metrics; ValueError if one lacks a description."""
    words = yaml.safe_load((HERE / "tables.yaml").read_text(encoding="utf-8"))
    _check("columns", CORE.names, words["columns"], words["columns"])
    told = [told for group in words["metrics"].values() for told in group["of"]]
    _check("metrics", METRICS, dict.fromkeys(told), told)
    lines = ["## Columns", "", f"{_told(words['columns'])}; `factor.NAME` for each factor.", ""]
    for title, group in words["metrics"].items():
        lines += [f"### {title}", "", *([group["text"], ""] if "text" in group else [])]
        for names, text in group["of"].items():
            units = list(dict.fromkeys(METRICS[name] for name in names.split(", ")))
            unit = "" if units == ["1"] else f" ({', '.join(units)})"
            lines.append(f"- {_quoted(names)}{unit}: {text}")
        lines.append("")
    return "\n".join(lines).rstrip()


def _sections() -> Mapping[str, Mapping[str, str]]:
    """The names and defaults of the keys of each section."""
    return {
        "The study": {**_defaults(Study, {"name"}), "extends": "", "scales": ""},
        "inputs": _defaults(Inputs),
        "inputs.search": _defaults(Search),
        "factors": {
            **dict.fromkeys(PLAIN_FACTORS, "`1`"),
            **{name: f"`{level}`" for name, (level,) in SERVER_FACTORS.items()},
        },
        "prices": _defaults(Prices, {"by_study"}),
        "publish": _defaults(Publish),
    }


def parameters(model: type[BaseModel], known: Collection[str] = ()) -> str:
    """The parameters of a phase, a line each with the default, without those in `known`."""
    lines = []
    for name, field in model.model_fields.items():
        if name in known:
            continue
        value, choices = field.get_default(call_default_factory=True), _choices(field.annotation)
        others = [f"`{word}`" for word in choices if word != value]
        default = "required" if field.is_required() and not others else _default(value)
        if value and isinstance(value, tuple) and set(value) in (set(choices), {*KNOWN}):
            default, others = "all", []
        brackets = " or ".join(filter(None, [default, *others]))
        told = f": {field.description}" if field.description else ""
        lines.append(f"- `{name}`{f' ({brackets})' if brackets else ''}{told}")
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(value: Any) -> str:
    if value in (None, PydanticUndefined, "", {}, (), []):
        return ""
    if isinstance(value, float):
        return f"`{value:.10g}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _choices(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(choice for part in get_args(annotation) for choice in _choices(part))


def filled(path: Path, text: str) -> str:
    """A page with this text between its marks."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n{text}\n\n{END}{rest.partition(END)[2]}"


def pages() -> dict[Path, str]:
    """The new text of all pages with generated parts."""
    made = {PAGE: section(STORED), STORES: flags(), CONSISTENCY: levels()}
    made |= {SERVERS: common_settings(), QUERIES: questions(), YCSB: ycsb(), SENSORS: sensors()}
    made |= {STUDIES: keys(), RESULTS: results()}
    made |= {STORE_PAGES / f"{name}.md": store(engine(name)) for name in ENGINES}
    return {path: filled(path, text) for path, text in made.items()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
