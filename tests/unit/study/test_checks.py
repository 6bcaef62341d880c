"""What a study file cannot say: each refusal names file, line and key, and what would do."""

import re
from dataclasses import dataclass

import pytest
from support.inputs.small_studies import BOMB, GOOD, OF_SERVERS
from support.paths import ROOT

from storewise.errors import ConfigError
from storewise.study.checks import too_few_repeats
from storewise.study.load import MOST_BASES, load_study
from storewise.study.study import Study
from storewise.yamlfile import LONGEST, MOST_BYTES, MOST_LEVELS, MOST_VALUES

YCSB = """\
workload: ycsb
engines: [sqlite]
phases:
  - load: {recordcount: 10, dataintegrity: true}
  - c: {operations: 5}
"""
SERVERS = OF_SERVERS.replace("factors: {nodes: [1, 2]}\n", "").replace(", mongodb", "")
PRICES = "node_hour: 1, client_hour: 1, gb_month: 1"
MONGODB = GOOD.replace("sqlite", "mongodb")
SEARCH = "{limit_ms: 1, low: 5, high: 9}"


@dataclass(frozen=True)
class Bad:
    """A study, the line and the key that its refusal names, and words that are in it."""

    text: str | bytes
    line: int | None
    key: str
    says: tuple[str, ...]


def more(key, text, *says, base=GOOD):
    """The base with one more line."""
    return Bad(f"{base}{text}\n", base.count("\n") + 1, key, says)


def factor(name, levels, *says, base=GOOD):
    """The base with one factor."""
    return more(f"factors.{name}", f"factors: {{{name}: {levels}}}", *says, base=base)


def other(line, key, old, new, *says, base=GOOD):
    """The base with other words."""
    assert base.count(old) == 1, old
    return Bad(base.replace(old, new), line, key, says)


def load(key, says, at=""):
    """YCSB's load with another parameter."""
    return other(4, f"phases.0.load{at}", "recordcount: 10", f"recordcount: 10, {key}", says,
                 base=YCSB)  # fmt: skip


def run(new, *says, at="phases.1.c"):
    """YCSB's phase after the load with other parameters."""
    return other(5, at, "{operations: 5}", new, *says, base=YCSB)


def fault(new, *says, store="[postgres]", at=""):
    """A fault in YCSB's phase after the load; with servers a trial has two nodes."""
    text = YCSB.replace("[sqlite]", store).replace("operations: 5", f"seconds: 1, {new}")
    nodes = "factors: {nodes: 2}\n" if "postgres" in store else ""
    return Bad(text + nodes, 5, f"phases.1.c{at}", says)


def parquet(setting, at, *says, more=""):
    """A layout of Parquet files."""
    text = GOOD.replace("[sqlite]", f"{{parquet: {{{setting}}}}}")
    return Bad(text + more, 2, f"engines.parquet{at}", says)


BAD = {
    # What is no mapping of keys to values.
    "empty": Bad("", None, "the study is empty", ("storewise init",)),
    "text": Bad("see the other file\n", 1, "", ("mapping",)),
    "not UTF-8": Bad(b"\xff\xfeinputs\n", None, "", ("not UTF-8", "byte 0")),
    "a NUL byte": Bad(GOOD.encode() + b"title: \0\n", 6, "", ("not valid YAML",)),
    "an open bracket": Bad("inputs: {paths: data\nengines: [a]\n", 2, "", ("not valid YAML",)),
    "a tab": Bad("inputs:\n\tpaths: data\n", 2, "", ("not valid YAML", r"\t")),
    "an alias of itself": more("", "title: &t [*t]", "alias"),
    # Keys and their values.
    "a key twice": more("engines", "engines: [duckdb]", "given twice", "line 2"),
    "an unknown key": more("engine", "engine: [duckdb]", "did you mean 'engines'"),
    "a name": more("name", "name: ../elsewhere", "has the name of its file"),
    "no keys": Bad("{}\n", None, "inputs", ("is missing",)),
    "negative repeats": more("repeats", "repeats: -1", "greater than or equal to 1", "-1"),
    "many repeats": more("repeats", "repeats: 1001", "less than or equal to 1000"),
    "a boolean for a number": more("repeats", "repeats: true", "whole number", "True"),
    "many retries": more("retries", "retries: 101", "100"),
    "no verification": more("verify", "verify: -1", "-1"),
    "no live session": more("live_sessions", "live_sessions: 0", "1; found 0"),
    "no worker a job": more("workers_per_job", "workers_per_job: 0", "1; found 0"),
    "an unknown scale": more("scale", "scale: small", "'small' is not a scale", "known: none"),
    "an unknown base": more("extends", "extends: nowhere.yaml", "'nowhere.yaml'"),
    "an unknown workload": more("workload", "workload: ycbs", "no workload is called 'ycbs' (did"),
    "an unknown reference": more("references.0", "references: niec", "did you mean"),
    "a reference twice": more("references.1", "references: [niec2014, niec2014]", "are called"),
    "no inputs for ycsb": more("inputs", "inputs: {paths: data}", "reads no inputs", base=YCSB),
    "a limit without prices": more("max_cost", "max_cost: 5", "needs prices"),
    "a weight of nothing": more("weights.reed", "weights: {reed: 1}", "'read'"),
    "no weight": more("weights", "weights: {read: 0, load: 0}", "at least one must be above 0"),
    "an endless weight": more("weights.read", "weights: {read: .inf}", "finite"),
    "no corpus": more("corpus.files", "corpus: {files: 0, bytes: 5}", "1; found 0"),
    # Inputs.
    "no input": other(1, "inputs", "data", "[]", "either paths (outputs of searches)"),
    "paths and a search": other(1, "inputs", "data", "x, search: {queries: a, libraries: b}",
                                "give either"),
    "a sample by two": other(1, "inputs.sample", "data", "x, sample: {files: 1, share: 0.5}",
                             "exactly one of files"),
    "a search on S3": other(1, "inputs.search.queries", "paths: data",
                            "search: {queries: 's3://b/x', libraries: b}", "is on S3"),
    # Engines and factors.
    "an unknown engine": other(2, "engines.sqlit", "sqlite", "sqlit", "no engine is called"),
    "no engine": other(2, "engines", "[sqlite]", "[]", "is empty"),
    "an unknown setting": other(2, "engines.sqlite.sise", "[sqlite]", "{sqlite: {sise: 1}}",
                                "not a known setting of sqlite"),
    "an engine without inputs": other(2, "engines.files", "sqlite", "files", "workload ycsb",
                                      base=YCSB),
    "an unknown factor": factor("wrks", "2", "'workers'", "engine.sett"),
    "a list for a mapping": more("factors", "factors: [workers, 2]", "mapping"),
    "no level": factor("workers", "[]", "has no levels"),
    "a level twice": factor("workers", "[2, 2]", "has a level twice"),
    "no worker": factor("workers", "[1, 0]", "from 1 to 10,000; found 0"),
    "workers in words": factor("workers", "two", "'two'"),
    "many threads": factor("threads", "8193", "8,192; found 8193"),
    "no volume": factor("volume", "[1, 0]", "above 0 and at most 1"),
    "a volume of more": factor("volume", "1.1", "found 1.1"),
    "a volume of nothing": factor("volume", "0.5", "reads none", base=YCSB),
    "an owner that is none": factor("writ.batch_size", "5", "neither a phase nor an engine"),
    "a parameter that is none": factor("write.batchsize", "5", "parameter of phase write"),
    "a level of a parameter": factor("read.operations", "[5, 0]", "found 0"),
    "a level of consistency": factor("consistency", "durabel", "did you mean 'durable'"),
    "an index where there is none": other(
        3, "factors.index", "[sqlite]", "[parquet]\nfactors: {index: [none, after]}",
        "no secondary indexes", "exclude: [{engine: parquet, index: after}]"),
    "an index on nothing": more("indexes.1", "indexes: [align.q, align.nothing]", "not a field"),
    "an index on no table": more("indexes.0", "indexes: [q]", "write `table.field`"),
    "an index on what is left out": more("indexes.0", "indexes: [align.gene]\nstudy_fields: true",
                                         "left out by study_fields: true"),
    # Rules.
    "a rule on no factor": more("exclude.0.engin", "exclude: [{engin: null}]", "'engine'"),
    "a rule on a load": more("exclude.0.phase", "exclude: [{phase: write}]", "no phase after the"),
    "a rule on no phase": more("exclude.1.phase", "exclude: [{phase: read}, {phase: raed}]",
                               "did you mean 'read'"),
    "nothing left": more("exclude", "exclude: [{workers: 1}]", "leaves no trial at all"),
    # Phases.
    "no phases": other(3, "phases", GOOD[GOOD.index("  - w"):], "  []\n", "is empty"),
    "a phase's number": other(3, "phases", "{operations: 100}", "5", "'read' must be a mapping"),
    "two names": other(3, "phases", "read: {operations: 100}", "{mixed: , read: }", "each phase"),
    "an unknown phase": other(5, "phases.1.reed", "read", "reed", "did you mean 'read'"),
    "an unknown parameter": other(5, "phases.1.read.operatoins", "operations", "operatoins",
                                  "'operations'"),
    "no operation": other(5, "phases.1.read.operations", "100", "0", "found 0"),
    "operations in words": other(5, "phases.1.read.operations", "100", "many", "'many'"),
    "a load that is none": other(4, "phases.0.read", "  - write: {batch_size: 10}\n", "",
                                 "the loading phase comes first, and once"),
    "a load in the end": other(4, "phases.0.read", GOOD[GOOD.index("  - w"):],
                               "  - read\n  - write\n", "comes first, and once"),
    "a phase twice": other(3, "phases", "  - read", "  - read\n  - read", "names a phase twice"),
    "what a store cannot do": Bad(
        YCSB.replace("sqlite", "cassandra").replace("- c", "- e"), 5, "phases.1.e",
        ("engine cassandra", "it has no scans", "exclude: [{engine: cassandra, phase: e}]")),
    "what its load did not do": run("{operations: 5, dataintegrity: false}", "dataintegrity is F"),
    # Of a load.
    "two steps of a load": load("steps: [{threads: 1}, {threads: 2}]", "has one step", ".steps"),
    "a restart of a load": load("restart: true", "has no `rate`, no `restart` and no `search`"),
    "a rate of a load": load("rate: 5", "no `rate`"),
    "a search of a load": load(f"search: {SEARCH}", "no `search`"),
    "clients of a load": load("clients: 2", "has `threads`, not `clients`"),
    "a crash of a load": load("crash: {after: 0.1}", "a loading phase has no `crash`", ".crash"),
    # Steps, sweeps and searches.
    "no client": run("{operations: 5, sweep: {clients: [0]}}", "clients is 0"),
    "a sweep of nothing": run("{operations: 5, sweep: {speed: [1]}}", "speed",
                              at="phases.1.c.speed"),
    "steps and a sweep": other(3, "phases", "operations: 5",
                               "sweep: {rate: [1]}, steps: [{rate: 2}]",
                               "phase 'c' has either steps or a sweep", base=YCSB),
    "a search of one rate": run("{search: {limit_ms: 1, low: 5, high: 5}}", "must be above"),
    "a search without an end": run("{search: {limit_ms: 1, low: 5}}", "is missing",
                                   at="phases.1.c.high"),
    "operations of a search": run(f"{{operations: 9, search: {SEARCH}}}", "`operations` itself"),
    "a rate of a search": run(f"{{rate: 7, search: {SEARCH}}}", "sets `rate` itself"),
    "unknown arrivals": run("{operations: 5, rate: 1, arrivals: bursts}", "'bursts'",
                            at="phases.1.c.arrivals"),
    # Nodes.
    "no node": factor("nodes", "[0]", "from 1", "0", base=SERVERS),
    "many replicas": factor("replicas", "101", "100", base=SERVERS),
    "less than no router": factor("routers", "-1", "from 0", base=SERVERS),
    "little memory": factor("node_memory_mb", "63", "from 64", base=SERVERS),
    "a class that is a number": factor("node_class", "1", "names of classes of", base=SERVERS),
    "nodes of embedded stores": factor("nodes", "2", "is a factor of servers"),
    "replicas of a store without": factor("replicas", "3", "leave the engine out,", base=SERVERS),
    "open ports in words": more("allow_open_ports", "allow_open_ports: maybe", "true or false",
                                base=SERVERS),
    "a slow node of no server": fault("slow: {how: cpu}", "engine has no nodes", store="[sqlite]"),
    "a crash of no server": fault("crash: {after: 1}", "no nodes that could be", store="[sqlite]"),
    "three slow nodes of two": fault("slow: {how: cpu, nodes: 3}", "the trial has 2: data0, data1"),
    "a crash of no node": fault("crash: {node: data5, after: 1}", "no node 'data5'"),
    "a disk of a processor": fault("slow: {how: cpu, file_mb: 3}", "belongs to `how:", at=".slow"),
    "a crash of a step": fault("steps: [{clients: 1}, {crash: {node: data5, after: 1}}]", "data5"),
    "a restart of another's": fault("restart: true", "does not start the database of sql",
                                    "`exclude: [{engine: sql, phase: c}]`",
                                    store="{sql: {url: 'sqlite:///x'}}"),
    # Layouts of a data set.
    "a partition by gene": parquet("partition: gene", ".partition", "gene"),
    "DuckDB on S3": parquet("reader: duckdb, place: 's3://b/x'", "", "use `reader: pyarrow`"),
    "queries that are left out": parquet("partition: query", "", "needs the queries",
                                         more="study_fields: true\nindexes: []\n"),
    "a partition as a level": factor("parquet.partition", "[hash, gene]", "gene",
                                   base=GOOD.replace("sqlite", "parquet")),
    # What would be too large, too deep or no text.
    "a truth value as a level": more("", "factors: {consistency: [on]}", "words", "True"),
    "a day as a level": more("", "factors: {consistency: 2026-01-01}", "no level '2026-01-01'"),
    "bytes": more("", "factors: {consistency: [!!binary aGk=]}", "!!binary", "text in quotes"),
    "a list as a level": more("", "factors: {index: [[a]]}", "none, before, after", "['a']"),
    "a list as a key": more("", "? [a]\n: 1", "a key is text"),
    "a file name longer than any": more("extends", "extends: " + "e" * 5000, "5002 characters"),
    "an endless number": more("", "factors: {volume: 1.0e+999}", "finite"),
    "a number of 4,000 digits": more("", "seed: " + "9" * 4000, "4002 characters", "digits"),
    "a number of base 60": more("seed", "seed: 1" + ":1" * 100, "digits"),
    "a number beyond 64 bits": more("seed", "seed: 9223372036854775808", "64 bits"),
    "a NUL by its escape": more("", 'title: "a\\0b"', "control", "0x00"),
    "a long text": more("", "title: " + "x" * 100_000, "100,000 characters", f"{LONGEST:,}"),
    "a long wrong key": more("", "k" * 1000 + ": 1", "1000 characters", "not a known key"),
    "aliases of aliases": Bad(GOOD + BOMB, 10, "", (f"{MOST_VALUES:,} values", "alias")),
    "3,000 nested maps": more("", "title: " + "{a: " * 3000 + "}" * 3000, f"{MOST_LEVELS} others"),
    "a million brackets": more("", "title: " + "[" * 900_000, f"{MOST_LEVELS} others"),
    "100,000 levels": more("", f"factors: {{workers: {list(range(100_000))}}}", "50,000"),
    "too many nodes": more("", "factors: {nodes: 1000000000}", "1 to 10,000", base=MONGODB),
    # Formats, and questions of one's own.
    "a wrong format": other(1, "inputs", "data", "data, format: blast9", "expected one of m10"),
    "columns alone": other(1, "inputs", "data", "data, columns: a b", "columns need a format"),
    "no columns of one's own": other(1, "inputs", "data", "data, format: last, columns: a",
                                     "only blast6, diamond, mmseqs2 have lists"),
    "nobody asks": more("questions", "questions: {a: {group: q}}", "which this study lacks"),
    "a wrong condition": more("questions.a", 'questions: {a: {where: ["o ~ 1"]}}', "an operator"),
    "a wrong field": more("questions.a", 'questions: {a: {where: ["x > 1"]}}', "has no field 'x'"),
    "a wrong number": more("questions.a", 'questions: {a: {where: ["o > y"]}}', "'y' is no int"),
    "no such value": more("questions.a", 'questions: {a: {where: ["o > :y"]}}', "has no 'y'"),
    "a text of several stores": more(
        "questions.a", "questions: {a: {sql: S}}\nfactors: {processes: [2]}", "reads one store",
        base=GOOD.replace("read:", "query:")),
    "a text that a store lacks": more(
        "questions.a", "questions: {a: {cql: S}}", "no text for sqlite, which needs `sql`",
        base=GOOD.replace("read:", "query:")),
    "verbs and a text": more("questions.a", 'questions: {a: {group: q, sql: S}}', "give either"),
    "a question of nothing": more("questions.a", "questions: {a: {}}", "give either conditions"),
    # Publication.
    "no place on S3": more("publish", "publish: p.yaml", "s3://BUCKET/PREFIX"),
    "no place at all": more("publish.to", "publish: {name: a}", "missing"),
    "a wrong key of publish": more("publish.nam", "publish: {to: s3://bkt, nam: a}", "mean 'name'"),
    "prices in a file": more("prices", "prices: p.yaml", "mapping"),
    "a wrong price": more("prices.node_hours", "prices: {node_hours: 1}", "'node_hour'"),
    "a price that is missing": more("prices.client_hour", "prices: {node_hour: 1}", "is missing"),
}  # fmt: skip


def refusal(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as error:
        load_study(path, root=ROOT if b"niec" in path.read_bytes() else path.parent)
    message = str(error.value)
    assert message.count("\n") == 0 and len(message) < 1500
    return message.removeprefix(f"{path.parent}/")


@pytest.mark.parametrize("kind", BAD)
def test_what_is_refused(tmp_path, kind):
    bad = BAD[kind]
    message = refusal(tmp_path / "s.yaml", bad.text)
    line = "" if bad.line is None else f", line {bad.line}"
    key = f"{bad.key}: " if line and bad.key else bad.key
    assert message.startswith(f"s.yaml{line}: {key}"), message
    for words in bad.says:
        assert words in message, message


TAKEN = {
    "one step of a load": YCSB.replace("10,", "10, steps: [{threads: 2}],"),
    "a phase that some cannot do": YCSB.replace("sqlite", "sqlite, cassandra").replace("- c", "- e")
    + "exclude: [{engine: cassandra, phase: e}]\n",
    "an index that some cannot have": GOOD.replace("sqlite", "sqlite, parquet")
    + "factors: {index: [none, after]}\nexclude: [{engine: parquet, index: after}]\n",
    "a fault that no trial has": YCSB.replace("sqlite", "postgres").replace(
        "operations: 5", "seconds: 5, crash: {node: data1, after: 1}"
    )
    + "factors: {nodes: [1, 2]}\nexclude: [{nodes: 1, phase: c}]\n",
    "a fault as a level": YCSB.replace("sqlite", "postgres")
    + "factors: {c.slow: [{how: cpu}], c.seconds: [1]}\n",
    "a crash beside no store": YCSB.replace("sqlite", "'null', postgres").replace(
        "operations: 5", "seconds: 1, crash: {after: 0.1}"
    ),
    "a restart of one's own": YCSB.replace("sqlite", "postgres").replace("5}", "5, restart: true}"),
    "most of all": GOOD
    + "repeats: 1000\nretries: 100\nverify: 0\nlive_sessions: 1\nworkers_per_job: 1\n",
    "the smallest of all": SERVERS
    + "factors: {nodes: 1, replicas: 1, routers: 0, node_threads: 1, node_memory_mb: 64}\n",
    "the whole volume": GOOD + "factors: {volume: [0.001, 1]}\n",
}


@pytest.mark.parametrize("kind", TAKEN)
def test_what_is_taken(tmp_path, kind):
    (tmp_path / "s.yaml").write_text(TAKEN[kind])
    assert load_study(tmp_path / "s.yaml", root=tmp_path).trials()


def test_studies_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(GOOD)
    for name, says in {
        "dem": "no study is called 'dem' (did you mean 'demo'?)",
        "mine.yml": "did you mean 'mine.yaml'",
        "elsewhere/s.yaml": "elsewhere/s.yaml: there is no such study file",
        "data": "or give the path of a YAML file",
    }.items():
        with pytest.raises(ConfigError, match=re.escape(says)):
            load_study(name, root=ROOT)
    assert load_study("mine.yaml", root=ROOT).name == "mine"
    (tmp_path / "mine.yaml").rename(tmp_path / "other.yml")
    assert load_study(tmp_path / "other.yml", root=ROOT).name == "other"
    assert load_study("demo.yaml", root=ROOT).name == "demo"


@pytest.mark.parametrize("name", ["1e3", "1_0", "é+b=2@c.d-_", "_", "a" * 100])
def test_names_that_a_study_may_have(tmp_path, name):
    path = tmp_path / f"{name}.yaml"
    path.write_text(GOOD)
    assert load_study(path, root=ROOT).name == name


@pytest.mark.parametrize(
    ("name", "instead"),
    [("E. coli", "E._coli"), ("a'b(c)", "a_b_c_"), ("-x", "x"), ("a.", "a"), ("$ &", "_"),
     ("=", "study"), ("b" * 101, "b" * 90)],
)  # fmt: skip
def test_names_that_it_may_not_have(tmp_path, name, instead):
    path = tmp_path / f"{name}.yaml"
    path.write_text(GOOD)
    with pytest.raises(
        ConfigError, match=rf"no blanks; rename the file, for example to {instead}\.yaml"
    ):
        load_study(path, root=ROOT)
    (tmp_path / f"{instead}.yaml").write_text(GOOD)
    assert load_study(tmp_path / f"{instead}.yaml", root=ROOT).name == instead


def test_the_size_of_a_file_and_a_mark_of_its_byte_order(tmp_path):
    content = b"\xef\xbb\xbf" + GOOD.encode() + b"#" * (MOST_BYTES - len(GOOD) - 3)
    (tmp_path / "s.yaml").write_bytes(content)
    assert len(load_study(tmp_path / "s.yaml", root=ROOT).trials()) == 1
    assert f"at most {MOST_BYTES:,} bytes" in refusal(tmp_path / "s.yaml", content + b"#")


def test_a_study_that_extends_itself_or_too_many(tmp_path):
    path = tmp_path / "s.yaml"
    assert "extends itself" in refusal(path, "extends: s.yaml\n")
    (tmp_path / "s0.yaml").write_text(GOOD)
    for number in range(MOST_BASES + 1):
        (tmp_path / f"s{number + 1}.yaml").write_text(f"extends: s{number}.yaml\n")
    assert load_study(tmp_path / f"s{MOST_BASES}.yaml").name == f"s{MOST_BASES}"
    (tmp_path / "base.yaml").write_text(GOOD.replace("operations", "operatons"))
    said = refusal(path, "extends: base.yaml\nrepeats: 2\n")
    assert said.startswith("base.yaml, line 5: phases.1.read.operatons: ")
    said = refusal(path, f"extends: s{MOST_BASES + 1}.yaml\n")
    assert f"extends through more than {MOST_BASES} files" in said


def test_a_misspelt_key_is_named_before_what_is_missing_for_want_of_it(tmp_path):
    said = refusal(tmp_path / "s.yaml", GOOD.replace("phases", "phase"))
    assert said == "s.yaml, line 3: phase: is not a known key (did you mean 'phases'?)"
    said = refusal(tmp_path / "s.yaml", GOOD.replace("phases", "steps"))
    keys = said.partition("known here: ")[2].split(", ")
    assert {*Study.model_fields, "extends", "scales"} - {"name"} == set(keys)


@pytest.mark.parametrize(
    ("engines", "repeats", "told"),
    [("sqlite, duckdb", 2, True), ("sqlite, duckdb", 3, False), ("files, null, sqlite", 1, False)],
)
def test_a_study_of_too_few_rounds_is_told_in_a_line(tmp_path, engines, repeats, told):
    path = tmp_path / "s.yaml"
    path.write_text(GOOD.replace("[sqlite]", f"[{engines}]") + f"repeats: {repeats}\n")
    line = too_few_repeats(load_study(path))
    assert (line is not None) == told
    assert (
        not told or "`repeats: 2` in study s: its stores are measured, but cannot be judged" in line
    )
