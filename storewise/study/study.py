"""The study as a value: what its file says, resolved, and the trials that it means."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from storewise.engines.contract.engine import Engine
from storewise.engines.registry import engine, is_engine
from storewise.study.factors import OF_SERVERS, SERVER_FACTORS
from storewise.study.inputs import Inputs
from storewise.study.prices import Corpus, Prices
from storewise.study.publication import Publish, as_publish
from storewise.study.section import Section, as_list
from storewise.study.sweep import expand_sweep
from storewise.study.trial import Phase, Trial, trial_id, trial_seed
from storewise.workloads.alignments.own import OwnQuestion


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
    phases = []
    for item in value:
        if isinstance(item, str):
            entry: dict[str, Any] = {"name": item}
            phases.append(entry)
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
            phases.append({"name": name, "params": params, "steps": steps})
        elif isinstance(item, dict) and "name" in item:
            phases.append(item)  # the resolved form of a stored study
        else:
            raise ValueError("each phase is a name or one `name: {parameters}`")
    return phases


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
    questions: dict[str, OwnQuestion] = Field(default_factory=dict)
    """Questions of the study's own, for phase ``query`` of workload ``alignments``."""
    indexes: list[str] = Field(default_factory=list)
    study_fields: bool = False
    on_bad_input: Literal["fail", "quarantine"] = "fail"
    if_missing: Literal["fail", "leave_out"] = "fail"
    verify: int = Field(default=200, ge=0)
    embedded: Literal["shared", "one_host"] = "shared"
    retries: int = Field(default=1, ge=0, le=100)
    live_sessions: int = Field(default=1, ge=1)
    workers_per_job: int = Field(default=1, ge=1)
    """Workers of a phase that share one job of the scheduler, each on a host of its own there."""
    keep_data: bool = False
    allow_open_ports: bool = False
    references: Annotated[list[str], BeforeValidator(as_list)] = Field(default_factory=list)
    """Published studies (``storewise.study.references``) whose figures the report shows beside
    ours."""
    weights: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    """Criterion (``storewise.study.criteria``) -> its weight in the verdict; empty: all count
    equally."""
    prices: Prices | None = None
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """A run whose estimated cost (``storewise.estimate.estimate``) is higher, in the prices'
    currency, is refused."""
    corpus: Corpus | None = None
    publish: Annotated[Publish | None, BeforeValidator(as_publish)] = None
    """The place on S3 for the results when all is measured."""
    scale: str = ""
    seed: int = 1

    def digest(self) -> str:
        """16 hex digits that change with any value of the study."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def trials(self) -> list[Trial]:
        """All trials, round by round: a round is one repeat of every setting, in a seeded random
        order in which a new setting moves no other."""

        def place(trial: Trial) -> tuple[int, bytes]:
            text = f"order:{self.seed}:{trial.id}"
            return trial.repeat, hashlib.sha256(text.encode()).digest()

        return sorted(self._combinations(), key=place)

    def leaves_out(self, phase: str, factors: Mapping[str, Any]) -> bool:
        """Whether `exclude` takes a phase out of the trials with these levels."""
        return any(
            _fits({key: value for key, value in rule.items() if key != "phase"}, factors)
            for rule in self.exclude
            if rule.get("phase") == phase
        )

    def levels_of(self, name: str) -> dict[str, list[Any]]:
        """The factors that an engine's trials have, each with its levels."""
        levels = {key: values for key, values in self.factors.items() if _has_factor(name, key)}
        return {
            "workers": [1],
            "processes": [1],
            "threads": [1],
            "consistency": [next(iter(engine(name).consistencies))],
            "index": ["none"],
            **(SERVER_FACTORS if engine(name).flags.nodes else {}),
            **levels,
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
    if setting and is_engine(owner):
        return owner == name
    return factor not in OF_SERVERS or engine(name).flags.nodes
