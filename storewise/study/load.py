"""The study: one YAML file, read whole, checked, and turned into trials.

Unknown keys are errors that name the nearest known one; every message names the file, the line
and the key. ``config/README.md`` explains each key to users; a test compares the two.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
)

from storewise.engines.contract.engine import Engine
from storewise.engines.registry import ENGINES, engine
from storewise.errors import ConfigError
from storewise.study.checks import OF_SERVERS, SERVER_FACTORS, check_study
from storewise.study.inputs import Inputs, SampleOf, Search, Section, as_list, check_inputs
from storewise.study.messages import explain
from storewise.study.prices import PRICES, Corpus, InstancePrice, Prices, with_defaults
from storewise.study.publication import Publish, as_publish
from storewise.study.references import find_reference, load_reference
from storewise.study.sweep import expand_sweep
from storewise.study.trial import Phase, Trial, trial_id, trial_seed
from storewise.workloads.registry import WORKLOADS, workload
from storewise.yamlfile import StudyText, is_file, nearest, read_yaml, shortened, shown

STUDIES = Path("config/studies")
#: Names of studies: of directories, of files in rules of Snakemake, of folders on S3.
_NAME = re.compile(r"\w([\w.+=@ -]{0,98}[\w+=@-])?")
#: Files that a study is made of, each extending the next.
MOST_BASES = 20


def _engines(value: Any) -> Any:
    """A list of names, or a mapping of names to settings; YAML's null is the engine `null`."""
    if isinstance(value, list):
        if any(isinstance(item, dict | list) for item in value):
            raise ValueError("give names, or a mapping of names to settings")
        value = {item: {} for item in value}
    if isinstance(value, dict):
        return {"null" if k is None else k: v or {} for k, v in value.items()}
    raise ValueError("give a list of engine names, or a mapping of names to settings")


def _rules(value: Any) -> Any:
    """Rules of `exclude`; YAML's null is the engine `null` here too."""
    if not isinstance(value, list):
        return value
    return [
        {**rule, "engine": "null"}
        if isinstance(rule, dict) and rule.get("engine", "") is None
        else rule
        for rule in value
    ]


def _phases(value: Any) -> Any:
    """A list of phase names or of one-key mappings `name: parameters`."""
    if not isinstance(value, list):
        raise ValueError("give a list of phases, such as `- write: {batch_size: 1000}`")
    found = []
    for item in value:
        if isinstance(item, str):
            entry: dict[str, Any] = {"name": item}
            found.append(entry)
        elif isinstance(item, dict) and len(item) == 1:
            ((name, params),) = item.items()
            if params is not None and not isinstance(params, dict):
                raise ValueError(f"parameters of phase {name!r} must be a mapping")
            params = dict(params or {})
            steps = params.pop("steps", [])
            if "sweep" in params:
                if steps:
                    raise ValueError(f"phase {name!r} has either steps or a sweep")
                try:
                    steps = expand_sweep(params.pop("sweep"))
                except ValueError as error:
                    raise ValueError(f"phase {name!r}: {error}") from error
            found.append({"name": name, "params": params, "steps": steps})
        elif isinstance(item, dict) and "name" in item:
            found.append(item)  # the resolved form of a stored study
        else:
            raise ValueError("each phase is a name or one `name: {parameters}`")
    return found


class Study(Section):
    """One study, resolved: `extends` followed, the scale applied, every value checked."""

    name: str
    title: str = ""
    workload: str = "alignments"
    inputs: Inputs = Field(default_factory=Inputs)
    """Empty for a workload that makes its data itself."""
    engines: Annotated[dict[str, dict[str, Any]], BeforeValidator(_engines)] = Field(min_length=1)
    factors: dict[str, Annotated[list[Any], BeforeValidator(as_list)]] = Field(default_factory=dict)
    exclude: Annotated[list[dict[str, Any]], BeforeValidator(_rules)] = Field(default_factory=list)
    repeats: int = Field(default=1, ge=1, le=1000)
    phases: Annotated[list[Phase], BeforeValidator(_phases)] = Field(min_length=1)
    indexes: list[str] = Field(default_factory=list)
    study_fields: bool = False
    on_bad_input: Literal["fail", "quarantine"] = "fail"
    if_missing: Literal["fail", "leave_out"] = "fail"
    verify: int = Field(default=200, ge=0)
    embedded: Literal["shared", "one_host"] = "shared"
    retries: int = Field(default=1, ge=0, le=100)
    live_sessions: int = Field(default=1, ge=1)
    keep_data: bool = False
    allow_open_ports: bool = False
    references: Annotated[list[str], BeforeValidator(as_list)] = Field(default_factory=list)
    """Published studies (``storewise.study.references``) whose figures the report shows beside
    ours."""
    weights: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    """By criterion (``storewise.study.criteria``), how much it counts in the verdict; empty:
    equally."""
    prices: Prices | None = None
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """In the prices' currency: a run whose estimate (``storewise.estimate.estimate``) is above it
    is refused."""
    corpus: Corpus = Field(default_factory=Corpus)
    publish: Annotated[Publish | None, BeforeValidator(as_publish)] = None
    """Where the results go on S3 when all is measured."""
    scale: str = ""
    seed: int = 1

    def digest(self) -> str:
        """16 hex digits that change with any value of the study."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def trials(self) -> list[Trial]:
        """All trials, in a seeded random order in which a new trial moves no other."""
        return sorted(
            self._combinations(),
            key=lambda t: hashlib.sha256(f"order:{self.seed}:{t.id}".encode()).digest(),
        )

    def leaves_out(self, phase: str, factors: Mapping[str, Any]) -> bool:
        """Whether `exclude` takes a phase out of the trials with these levels."""
        return any(
            _fits({key: value for key, value in rule.items() if key != "phase"}, factors)
            for rule in self.exclude
            if rule.get("phase") == phase
        )

    def levels_of(self, name: str) -> dict[str, list[Any]]:
        """The factors that an engine's trials have, each with its levels."""
        own = {key: levels for key, levels in self.factors.items() if _has_factor(name, key)}
        return {
            "workers": [1],
            "processes": [1],
            "threads": [1],
            "consistency": [next(iter(engine(name).consistencies))],
            "index": ["none"],
            **(SERVER_FACTORS if engine(name).flags.nodes else {}),
            **own,
        }

    def _combinations(self) -> Iterator[Trial]:
        for name in self.engines:
            store, levels = engine(name), {"engine": [name], **self.levels_of(name)}
            # Of thousands of trials each is held only against rules that any of them fits.
            rules = [
                rule
                for rule in self.exclude
                if "phase" not in rule
                and all(value in levels.get(key, [None]) for key, value in rule.items())
            ]
            for combination in itertools.product(*levels.values()):
                factors = dict(zip(levels, combination, strict=True))
                if any(_fits(rule, factors) for rule in rules):
                    continue
                for repeat in range(1, self.repeats + 1):
                    yield self._trial(store, factors, repeat)

    def _trial(self, store: Engine, factors: dict[str, Any], repeat: int) -> Trial:
        name = store.name
        settings = dict(self.engines[name])
        overrides: dict[str, dict[str, Any]] = {}
        for key, value in factors.items():
            owner, _, param = key.partition(".")
            if param and owner == name:
                settings[param] = value
            elif param:
                overrides.setdefault(owner, {})[param] = value
        phases = [
            phase.model_copy(update={"params": {**phase.params, **overrides[phase.name]}})
            if phase.name in overrides
            else phase
            for phase in self.phases
            if not self.leaves_out(phase.name, factors)
        ]
        identifier = trial_id(factors, repeat)
        return Trial(
            study=self.name,
            id=identifier,
            engine=name,
            workload=self.workload,
            repeat=repeat,
            seed=trial_seed(self.seed, identifier),
            factors=factors,
            workers=factors["workers"],
            processes=factors["processes"],
            threads=factors["threads"],
            # The factor keeps the study's word, the trial has the level that it means.
            consistency=store.level(factors["consistency"]),
            index_time=factors["index"],
            indexes=[(i.split(".")[0], i.split(".")[1]) for i in self.indexes],
            settings=settings,
            phases=phases,
            **{key: factors[key] for key in (*SERVER_FACTORS, "volume") if key in factors},
            allow_open_ports=self.allow_open_ports,
            keep_data=self.keep_data,
            study_fields=self.study_fields,
            on_bad_input=self.on_bad_input,
            verify=self.verify,
        )


def _fits(rule: Mapping[str, Any], factors: Mapping[str, Any]) -> bool:
    return all(factors.get(key) == value for key, value in rule.items())


def _has_factor(name: str, factor: str) -> bool:
    """Whether a factor of the study is one of this engine's trials too."""
    owner, _, setting = factor.partition(".")
    if setting and owner in ENGINES:
        return owner == name
    return factor not in OF_SERVERS or engine(name).flags.nodes


#: What keys of the study hold that have keys of their own.
_SECTIONS: tuple[type[BaseModel], ...] = (
    *(Inputs, Search, SampleOf, Prices, InstancePrice, Corpus, Publish, Phase),
)
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
        found = root / STUDIES / f"{path.name.removesuffix(suffix)}{suffix}"
        if len(path.parts) == 1 and is_file(found):
            return found
    known = sorted(p.stem for p in (root / STUDIES).glob("*.y*ml"))
    beside = sorted(p.name for p in Path().glob("*.y*ml"))
    raise ConfigError(
        f"no study is called {shown(str(name))}{nearest(str(name), [*known, *beside])}; "
        f"known in {root / STUDIES}: {', '.join(known) or 'none'}; or give the path of a YAML file"
    )


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
    stored results, whose inputs may be elsewhere. `many` lifts the limits on trials and jobs
    (`storewise.study.limits`).
    """
    path = find_study(name, root)
    if not _NAME.fullmatch(path.stem):
        raise ConfigError(
            f"{shortened(str(path))}: a study is called what its file is, and its results are so "
            "too: letters, digits, and . _ + = @ - between them; rename the file"
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
        text.fail(("name",), "is not a known key: a study is called what its file is")
    _fill(data, text)
    given = data.get("prices")
    if given is not None and not isinstance(given, dict):
        text.fail(("prices",), "must be a mapping, such as {node_hour: 0.2, currency: EUR}")
    prices = with_defaults(given, root)
    if prices is not None:
        data["prices"] = prices
    try:
        study = Study.model_validate({"name": path.stem, **data})
    except ValidationError as error:
        explain(error, text, Study, _SECTIONS, phase=Phase, more=_FILE_KEYS)
    if study.max_cost is not None and study.prices is None:
        text.fail(("max_cost",), f"needs prices: give the study `prices`, or write {root / PRICES}")
    reads = study.workload in WORKLOADS and workload(study.workload).reads_inputs
    if reads and not study.inputs.paths and study.inputs.search is None:
        text.fail(("inputs",), "give either paths (SSEARCH outputs) or search (FASTA files)")
    study = _with_own_names(study, text)
    check_study(study, text, many=many)
    _check_references(study, text, root)
    if inputs_exist:
        check_inputs(study.inputs, text)
    return study


def _with_own_names(study: Study, text: StudyText) -> Study:
    """The study with each phase's parameters as its workload resolves them (`Workload.resolve`)."""
    if study.workload not in WORKLOADS:
        return study  # the check of the whole says so
    found = workload(study.workload)
    phases = []
    for i, phase in enumerate(study.phases):
        if phase.name not in found.phases:
            return study
        place = ("phases", i, phase.name)
        base = text.path.parent
        try:
            params = found.resolve(phase.name, phase.params, base)
            steps = [found.resolve(phase.name, step, base) for step in phase.steps]
        except ConfigError as error:
            text.fail(place, str(error))
        phases.append(phase.model_copy(update={"params": params, "steps": steps}))
    return study.model_copy(update={"phases": phases})


def _fill(data: dict[str, Any], text: StudyText) -> None:
    """What depends on the workload: its indexes, and whether there must be inputs."""
    name = data.get("workload", "alignments")
    if not isinstance(name, str) or name not in WORKLOADS:
        return  # the check of the whole says so
    found = workload(name)
    data.setdefault("indexes", list(found.indexes))
    if found.reads_inputs and data.get("inputs") is None:
        text.fail(("inputs",), "is missing; config/README.md explains it")
    if not found.reads_inputs and data.get("inputs"):
        text.fail(("inputs",), f"workload {name} makes its data itself and reads no inputs")


def _check_references(study: Study, text: StudyText, root: Path) -> None:
    names: list[str] = []
    for i, name in enumerate(study.references):
        try:
            names.append(load_reference(find_reference(name, root, text.path.parent)).name)
        except ConfigError as error:
            text.fail(("references", i), str(error))
        if names.count(names[-1]) > 1:
            text.fail(("references", i), f"two references are called {names[-1]!r}")


def _resolved(path: Path, root: Path, seen: tuple[Path, ...]) -> StudyText:
    if path.resolve() in seen:
        raise ConfigError(f"{path}: extends itself, through {' -> '.join(map(str, seen))}")
    if len(seen) > MOST_BASES:
        raise ConfigError(f"{path}: extends through more than {MOST_BASES} files")
    text = read_yaml(path)
    found = base_of(text, root)
    text.data.pop("extends", None)
    if found is None:
        return text
    below = _resolved(found, root, (*seen, path.resolve()))
    return StudyText(text.path, _merged(below.data, text.data), {**below.lines, **text.lines})


def base_of(text: StudyText, root: Path) -> Path | None:
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
