"""Any study file gets its trials or one sentence.

The limits are counts (bytes, values, levels, trials), so nothing here measures time.
"""

import copy

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.paths import ROOT

from storewise.engines.registry import ENGINES, engine
from storewise.errors import ConfigError, EngineError
from storewise.study.load import load_study
from storewise.study.study import Study
from storewise.workloads.registry import WORKLOADS, workload

STUDIES = [
    yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "config" / "studies").glob("*.yaml"))
]


def settings_of(name):
    try:
        return set(engine(name).Settings.model_fields)
    except EngineError:  # its driver is not installed here
        return set()


#: All that a study may say.
WORDS = {*Study.model_fields, *WORKLOADS, *ENGINES}.union(*map(settings_of, ENGINES))
for phase, spec in [pair for name in WORKLOADS for pair in workload(name).phases.items()]:
    parameters = spec.params.model_fields
    WORDS |= {phase, *parameters, *(f"{phase}.{name}" for name in parameters)}
WORDS |= {
    "extends", "scales", "small", "tiny", "demo", "data", "durable", "strong", "niec2014",
    "workers", "processes", "threads", "index", "consistency", "volume", "nodes", "replicas",
    "routers", "node_class", "steps", "sweep", "clients", "align.e",
}  # fmt: skip
KEYS = st.sampled_from(sorted(WORDS)) | st.text(max_size=4)
JUNK = st.recursive(
    st.sampled_from([None, True, 0, -1, 2, 70, 2**31, 2**63 - 1, 1.5, -0.0, 1e308])
    | st.sampled_from(["", "a", "null", "../x", "a\nb", "'; DROP TABLE x; --", "$(id)", "{x}"])
    | st.sampled_from(["%s", "é", "\N{PILE OF POO}", "x" * 5000, "*", "["])
    | KEYS
    | st.integers(-(2**63), 2**63 - 1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def changed(draw):
    """A study of ours with something else here and there."""
    study = copy.deepcopy(draw(st.sampled_from(STUDIES)))
    for _ in range(draw(st.integers(1, 3))):
        place = study
        while True:
            known = list(place) if isinstance(place, dict) else list(range(len(place)))
            new = KEYS if isinstance(place, dict) else st.nothing()
            key = draw(st.sampled_from(known) | new)
            below = place[key] if key in known else None
            if not below or not isinstance(below, dict | list) or draw(st.booleans()):
                break
            place = below
        place[key] = draw(JUNK)
    return study


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(study=changed())
def test_any_study_is_trials_or_one_sentence(tmp_path, study):
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(study, allow_unicode=True), encoding="utf-8")
    try:
        assert load_study(path, root=ROOT, inputs_exist=True).trials()
    except ConfigError as error:
        message = str(error)
        assert message.startswith(str(path)) or "config/" in message
        assert len(message) < 2500
