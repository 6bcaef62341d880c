"""Any study file gets its trials or one sentence: sizes by number, values drawn from the schema.

The limits are counts (bytes, values, levels, trials), so nothing here measures time.
"""

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.inputs.small_studies import BOMB, GOOD
from support.paths import ROOT

from storewise.engines.registry import ENGINES, engine
from storewise.errors import ConfigError, EngineError
from storewise.study.limits import MOST_JOBS, MOST_RULES, MOST_TRIALS, MOST_VARIANTS
from storewise.study.load import load_study
from storewise.study.study import Study
from storewise.workloads.registry import WORKLOADS, workload
from storewise.yamlfile import LONGEST, MOST_BYTES, MOST_LEVELS, MOST_VALUES

MANY = "storewise run --many"


def numbers(count):
    return f"[{', '.join(map(str, range(1, count + 1)))}]"


#: What is added to the good study, the line that the message names, and what it says.
REFUSED = {
    "a truth value as a level": ("factors: {consistency: [on]}", 6, ["words", "True"]),
    "nothing as a level": ("factors: {consistency: [null]}", 6, ["words", "None"]),
    "a day as a level": ("factors: {consistency: 2026-01-01}", 6, ["no level '2026-01-01'"]),
    "bytes": ("factors: {consistency: [!!binary aGk=]}", 6, ["!!binary", "text in quotes"]),
    "a Python object": ("title: !!python/name:os.system", 6, ["tag", "python/name:os.system"]),
    "a list as a level": ("factors: {index: [[a]]}", 6, ["none, before, after", "['a']"]),
    "a list as a key": ("? [a]\n: 1", 6, ["a key is text"]),
    "a list as the scale": ("scale: [a]", 6, ["scale", "['a']"]),
    "a list as a scale's keys": ("scale: a\nscales: {a: [1]}", 7, ["scales", "map"]),
    "a list as the workload": ("workload: [a]", 6, ["workload"]),
    "a file name longer than any": ("extends: " + "e" * 5000, 6, ["extends", "5002 characters"]),
    "no number": ("factors: {volume: .nan}", 6, ["'.nan'", "finite"]),
    "an endless number": ("factors: {volume: 1.0e+999}", 6, ["finite"]),
    "a number of 4,000 digits": ("seed: " + "9" * 4000, 6, ["seed", "4002 characters", "digits"]),
    "a number of base 60": ("seed: 1" + ":1" * 100, 6, ["seed", "digits"]),
    "a number beyond 64 bits": ("seed: 9223372036854775808", 6, ["64 bits"]),
    "half a character": ('title: "\\ud800"', 6, ["not valid YAML"]),
    "a NUL by its escape": ('title: "a\\0b"', 6, ["control", "0x00"]),
    "an escape sequence": ('title: "a\\eb"', 6, ["control", "0x1b"]),
    "a long text": ("title: " + "x" * 100_000, 6, ["100,000 characters", f"{LONGEST:,}"]),
    "a long wrong value": ("on_bad_input: " + "v" * 9000, 6, ["on_bad_input", "9002 characters"]),
    "a long wrong key": ("k" * 1000 + ": 1", 6, ["1000 characters", "not a known key"]),
    "aliases of aliases": (BOMB, 10, [f"{MOST_VALUES:,} values", "alias"]),
    "3,000 nested maps": ("title: " + "{a: " * 3000 + "}" * 3000, 6, [f"{MOST_LEVELS} others"]),
    "a million brackets": ("title: " + "[" * 900_000, 6, [f"{MOST_LEVELS} others"]),
    "100,000 levels": (f"factors: {{write.batch_size: {numbers(100_000)}}}", 6, ["50,000"]),
    "20,001 levels": (f"factors: {{workers: {numbers(201)}}}\nrepeats: 100", 6, ["20,100 trials"]),
    "a product": (
        f"factors: {{workers: {numbers(100)}, processes: {numbers(100)}}}\nrepeats: 1000",
        6,
        ["10,000,000 trials", f"{MOST_TRIALS:,}", MANY],
    ),
    "many workers": (
        f"factors: {{workers: [10000], processes: {numbers(100)}}}",
        6,
        ["3,000,000 jobs", f"{MOST_JOBS:,}", MANY],
    ),
    "too many workers": ("factors: {workers: 1000000000}", 6, ["1 to 10,000", "1000000000"]),
    "rules": ("exclude:\n" + "- {workers: 9}\n" * 201, 6, ["201 rules", str(MOST_RULES), MANY]),
    "variants": (
        f"factors: {{read.operations: {numbers(200)}}}\n"
        f"phases:\n  - write\n  - read: {{sweep: {{clients: {numbers(500)}}}}}",
        7,
        ["100,501 variants", f"{MOST_VARIANTS:,}", MANY],
    ),
}  # fmt: skip


def refusal(tmp_path, content):
    path = tmp_path / "s.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        load_study(path, root=ROOT)
    message = str(error.value)
    assert message.count("\n") == 0
    assert len(message) < 1000
    return message.removeprefix(f"{tmp_path}/")


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_is_one_sentence(tmp_path, kind):
    added, line, says = REFUSED[kind]
    good = GOOD[: GOOD.index("phases")] + "\n" * 3 if "phases:" in added else GOOD
    message = refusal(tmp_path, f"{good}{added}\n".encode())
    assert message.startswith(f"s.yaml, line {line}: ")
    for words in says:
        assert words in message


def test_servers_are_counted_before_they_are_named(tmp_path):
    text = GOOD.replace("sqlite", "mongodb")
    message = refusal(tmp_path, f"{text}factors: {{nodes: 1000000000}}\n".encode())
    assert "1 to 10,000; found 1000000000" in message
    nodes = f"factors: {{nodes: [9999, 10000], replicas: {numbers(7)}}}\n"
    assert "jobs of nodes and workers" in refusal(tmp_path, (text + nodes).encode())


def test_a_file_above_its_size_is_refused_by_it(tmp_path):
    content = GOOD.encode() + b"#" * (MOST_BYTES - len(GOOD))
    (tmp_path / "s.yaml").write_bytes(content)
    assert len(load_study(tmp_path / "s.yaml", root=ROOT).trials()) == 1
    assert f"at most {MOST_BYTES:,} bytes" in refusal(tmp_path, content + b"#")


def test_a_mark_of_its_byte_order_is_no_key(tmp_path):
    (tmp_path / "s.yaml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_study(tmp_path / "s.yaml", root=ROOT).name == "s"


def test_many_lifts_the_limits(tmp_path, monkeypatch):
    monkeypatch.setattr("storewise.study.limits.MOST_TRIALS", 10)
    (tmp_path / "s.yaml").write_text(f"{GOOD}factors: {{workers: {numbers(11)}}}\n")
    with pytest.raises(ConfigError, match="11 trials"):
        load_study(tmp_path / "s.yaml", root=ROOT)
    assert len(load_study(tmp_path / "s.yaml", root=ROOT, many=True).trials()) == 11


# A study as the models describe it, with something else here and there.

JUNK = st.recursive(
    st.sampled_from([None, True, 0, -1, 2**31, 2**63 - 1, 1.5, -0.0, 1e308])
    | st.sampled_from(["", "a", "null", "../x", "a\nb", "'; DROP TABLE x; --", "$(id)", "{x}"])
    | st.sampled_from(["%s", "é", "\N{PILE OF POO}", "x" * 5000, "*", "["])
    | st.text(max_size=5)
    | st.integers(-(2**63), 2**63 - 1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def from_schema(schema, whole):
    """Values that a model's JSON schema describes, roughly: what it forbids may come too."""
    if "$ref" in schema:
        return from_schema(whole["$defs"][schema["$ref"].rsplit("/", 1)[1]], whole)
    if "anyOf" in schema:
        return st.one_of([from_schema(one, whole) for one in schema["anyOf"]])
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "object":
        keys = {
            name: from_schema(one, whole) | (JUNK if "default" in one else st.nothing())
            for name, one in schema.get("properties", {}).items()
        }
        required = {name: one for name, one in keys.items() if name in schema.get("required", ())}
        if keys:
            return st.fixed_dictionaries(
                required, optional={k: v for k, v in keys.items() if k not in required}
            )
        rest = schema.get("additionalProperties")
        values = from_schema(rest, whole) if isinstance(rest, dict) else JUNK
        return st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), values, max_size=3)
    if kind == "array":
        return st.lists(from_schema(schema.get("items", {}), whole), max_size=3)
    low, high = schema.get("minimum"), schema.get("maximum")
    if kind == "integer":
        return st.integers(-2 if low is None else low - 1, 70 if high is None else high + 1)
    if kind == "number":
        return st.floats(low, high, allow_nan=False, allow_infinity=False) | st.integers(0, 9)
    return {
        "boolean": st.booleans(),
        "null": st.none(),
        "string": st.sampled_from(WORDS) | st.text(max_size=6),
    }.get(str(kind), JUNK)


def model(result):
    schema = result.model_json_schema()
    return from_schema(schema, schema)


STUDIES = [
    yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "config" / "studies").glob("*.yaml"))
]
PHASES = {
    (name, phase): spec.params
    for name in WORKLOADS
    for phase, spec in workload(name).phases.items()
}
WORDS = sorted(
    {
        *ENGINES,
        *WORKLOADS,
        *Study.model_fields,
        "extends",
        "scales",
        "durable",
        "strong",
        "niec2014",
    }
    | {phase for _, phase in PHASES}
    | {f"{phase}.{name}" for (_, phase), found in PHASES.items() for name in found.model_fields}
    | {"workers", "processes", "threads", "consistency", "index", "volume", "nodes", "replicas"}
    | {"routers", "node_class", "steps", "sweep", "clients", "data", "demo", "small", "align.e"}
)


def settings_of(name):
    try:
        return model(engine(name).Settings)
    except EngineError:  # its driver is not installed here
        return JUNK


ENGINE = st.sampled_from(sorted(ENGINES)).flatmap(
    lambda name: settings_of(name).map(lambda chosen: {name: chosen})
)
PHASE = st.sampled_from(sorted(PHASES)).flatmap(
    lambda key: model(PHASES[key]).map(lambda params: {key[1]: params})
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        **{
            name: from_schema(one, Study.model_json_schema()) | JUNK
            for name, one in Study.model_json_schema()["properties"].items()
            if name not in {"name", "engines", "phases", "publish"}
        },
        "engines": ENGINE | st.lists(st.sampled_from(sorted(ENGINES)), max_size=3) | JUNK,
        "phases": st.lists(PHASE | st.sampled_from(WORDS), max_size=3) | JUNK,
        "publish": model(Study.model_fields["publish"].annotation.__args__[0]) | JUNK,
        "scales": st.dictionaries(st.sampled_from(["small", "a"]), JUNK, max_size=2),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(base=st.sampled_from(STUDIES), changes=CHANGES, keep=st.integers(1, 3))
def test_any_study_is_trials_or_one_sentence(tmp_path, base, changes, keep):
    few = dict(list(changes.items())[:keep])
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({**base, **few}, allow_unicode=True), encoding="utf-8")
    try:
        assert load_study(path, root=ROOT, inputs_exist=True).trials()
    except ConfigError as error:
        message = str(error)
        assert message.startswith(str(path)) or "config/" in message
        assert len(message) < 2500
