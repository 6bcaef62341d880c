"""The study: one YAML file, read whole, checked, and turned into trials.

Unknown keys are errors that name the nearest known one; every message names the file, the line
and the key. ``config/README.md`` explains each key to users; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from storewise.errors import ConfigError
from storewise.study.checks import check_name, check_study
from storewise.study.inputs import check_inputs
from storewise.study.prices import PRICES, with_defaults
from storewise.study.questions import check_questions, with_own_questions
from storewise.study.references import find_reference, load_reference
from storewise.study.section import complaint
from storewise.study.study import Study
from storewise.workloads.contract import Workload
from storewise.workloads.registry import WORKLOADS, workload
from storewise.yamlfile import YamlFile, is_file, nearest, read_yaml, shortened, shown

STUDIES = Path("config/studies")
#: Study names become names of directories, of files in Snakemake rules and of folders on S3. No
#: blanks: Snakemake joins lists of files with blanks.
_NAME = re.compile(r"\w([\w.+=@-]{0,98}[\w+=@-])?")
#: Files that a study is made of, each extending the next.
MOST_BASES = 20

#: Keys that the file may have and that are used up in reading it.
_FILE_KEYS = ("extends", "scales")


def find_study(name: str | Path, root: Path = Path()) -> Path:
    """The file of a study given by name (under config/studies) or by path."""
    path = Path(name)
    if path.suffix in {".yaml", ".yml"} and (is_file(path) or len(path.parts) > 1):
        if is_file(path):
            return path
        raise ConfigError(f"{shortened(str(path))}: there is no such study file")
    for suffix in (".yaml", ".yml"):
        file = root / STUDIES / f"{path.name.removesuffix(suffix)}{suffix}"
        if len(path.parts) == 1 and is_file(file):
            return file
    known = sorted(p.stem for p in (root / STUDIES).glob("*.y*ml"))
    beside = sorted(p.name for p in Path().glob("*.y*ml"))
    raise ConfigError(
        f"no study is called {shown(str(name))}{nearest(str(name), [*known, *beside])}; "
        f"known in {root / STUDIES}: {', '.join(known) or 'none'}; or give the path of a YAML file"
    )


def _valid_name(name: str) -> str:
    """Turn a file name into a valid study name that resembles it."""
    return re.sub(r"[^\w.+=@-]+", "_", name).strip(".+=@-")[:90].rstrip(".") or "study"


def load_study(
    name: str | Path,
    *,
    scale: str | None = None,
    root: Path = Path(),
    inputs_exist: bool = False,
    many: bool = False,
) -> Study:
    """Read, resolve and check a study; raises ConfigError with file, line and key.

    `inputs_exist` also asks that each input path names something: not so for an analysis of
    stored results, whose inputs may be elsewhere. `many` lifts the limit on trials
    (`storewise.study.checks.MAX_TRIALS`).
    """
    path = find_study(name, root)
    if not _NAME.fullmatch(path.stem):
        raise ConfigError(
            f"{shortened(str(path))}: the file's name is also that of the study and its results: "
            "at most 100 letters and digits, with . _ + = @ - between them and no blanks; rename "
            f"the file, for example to {_valid_name(path.stem)}{path.suffix}"
        )
    text = _resolved(path, root, ())
    data: dict[str, Any] = dict(text.data)
    scales: dict[str, Any] = data.pop("scales", {}) or {}
    if not isinstance(scales, dict) or not all(isinstance(s or {}, dict) for s in scales.values()):
        text.fail(("scales",), "must map the name of each scale to the keys that it changes")
    chosen = scale if scale is not None else data.get("scale")
    if chosen:
        if not isinstance(chosen, str) or chosen not in scales:
            text.fail(
                ("scale",),
                f"{shown(chosen)} is not a scale of this study; known: "
                f"{', '.join(scales) or 'none'}",
            )
        data = _merged(data, scales[chosen] or {})
        data["scale"] = chosen
    if "name" in data:
        text.fail(("name",), "is not a known key: a study has the name of its file")
    name = data.get("workload", Study.model_fields["workload"].default)
    if not isinstance(name, str):
        text.fail(("workload",), f"should be text; found {shown(name)}")
    check_name(text, ("workload",), "workload", name, sorted(WORKLOADS))
    kind = workload(name)
    data.setdefault("indexes", list(kind.indexes))
    if kind.reads_inputs and data.get("inputs") is None:
        text.fail(("inputs",), "is missing; config/README.md explains it")
    if not kind.reads_inputs and data.get("inputs"):
        text.fail(("inputs",), f"workload {name} makes its data itself and reads no inputs")
    prices = data.get("prices")
    if prices is not None and not isinstance(prices, dict):
        text.fail(("prices",), "must be a mapping, such as {node_hour: 0.2, currency: EUR}")
    data["prices"] = with_defaults(prices, root)
    try:
        study = Study.model_validate({"name": path.stem, **data})
    except ValidationError as error:
        # A study has the name of its file.
        text.fail(*complaint(error, Study, more=_FILE_KEYS, hidden=("name",)))
    if study.max_cost is not None and study.prices is None:
        text.fail(("max_cost",), f"needs prices: give the study `prices`, or write {root / PRICES}")
    if kind.reads_inputs and not study.inputs.paths and study.inputs.search is None:
        text.fail(("inputs",), "give either paths (outputs of searches) or search (FASTA files)")
    study = with_own_questions(study, text)
    study = _with_resolved_phases(study, kind, text)
    check_study(study, text, many=many)
    _check_references(study, text, root)
    if inputs_exist:
        check_inputs(study.inputs, text)
        check_questions(study, text)
    return study


def _with_resolved_phases(study: Study, kind: Workload, text: YamlFile) -> Study:
    """The study with each phase's parameters as its workload resolves them (`Workload.resolve`)."""
    phases, base = [], text.path.parent
    for i, phase in enumerate(study.phases):
        if phase.name not in kind.phases:
            return study  # the check of the phases says so
        try:
            params = kind.resolve(phase.name, phase.params, base)
            steps = [kind.resolve(phase.name, step, base) for step in phase.steps]
        except ConfigError as error:
            text.fail(("phases", i, phase.name), str(error))
        phases.append(phase.model_copy(update={"params": params, "steps": steps}))
    return study.model_copy(update={"phases": phases})


def _check_references(study: Study, text: YamlFile, root: Path) -> None:
    names: list[str] = []
    for i, name in enumerate(study.references):
        try:
            names.append(load_reference(find_reference(name, root, text.path.parent)).name)
        except ConfigError as error:
            text.fail(("references", i), str(error))
        if names.count(names[-1]) > 1:
            text.fail(("references", i), f"two references are called {names[-1]!r}")


def _resolved(path: Path, root: Path, seen: tuple[Path, ...]) -> YamlFile:
    if path.resolve() in seen:
        raise ConfigError(f"{path}: extends itself, through {' -> '.join(map(str, seen))}")
    if len(seen) > MOST_BASES:
        raise ConfigError(f"{path}: extends through more than {MOST_BASES} files")
    text = read_yaml(path)
    base = base_of(text, root)
    text.data.pop("extends", None)
    if base is None:
        return text
    below = _resolved(base, root, (*seen, path.resolve()))
    return YamlFile(text.path, _merged(below.data, text.data), {**below.lines, **text.lines})


def base_of(text: YamlFile, root: Path) -> Path | None:
    """The file that a study's own file extends; None where it extends none."""
    base = text.data.get("extends")
    if base is None:
        return None
    if not isinstance(base, str):
        text.fail(("extends",), "must be the name or path of one study")
    beside = text.path.parent / base
    try:
        return beside if is_file(beside) else find_study(base, root)
    except ConfigError as error:
        text.fail(("extends",), str(error))


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`; mappings are merged, anything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = _merged(old or {}, value) if both else value
    return result
