"""Results of a study that never ran: parts, logs, manifest and study, written with the real
writers, so that analysis, figures and report can be tested without measuring anything."""

import itertools
import json
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from support.results.synthetic_servers import make_session

from storewise.metrics.hdr import Interval, Tag, bucket_indexes, histogram_of, write_log
from storewise.metrics.schema import Sample, write_part
from storewise.study.study import Study
from storewise.study.trial import trial_id

FILES, QUERIES, ALIGNMENTS = 45, 45, 10_000
DOCUMENTS = QUERIES + 3 * ALIGNMENTS
INPUT_BYTES = 2_400_000

#: Engine -> (documents/s written by a worker, operations/s read by a worker, bytes a document)
SPEEDS = {
    "null": (60_000, 240_000, 0),
    "sqlite": (21_000, 9_000, 310),
    "duckdb": (32_000, 700, 150),
    "parquet": (35_000, 160, 48),
    "postgres": (9_000, 4_000, 240),
    "mongodb": (8_000, 3_000, 190),
    "mariadb": (8_500, 3_500, 200),
}
EMBEDDED = ("null", "sqlite", "duckdb", "parquet")
SERVERS = ("postgres", "mongodb", "mariadb")
#: What a client counts, and in what.
METRICS = (
    *(("operations", "1"), ("documents", "1"), ("bytes", "B"), ("errors", "1")),
    *(("service_time_sum", "s"), ("prepare_time_sum", "s")),
)
#: Unix time of a trial's load, and seconds between the end of a phase and the start of the next.
START, PAUSE = 1.7e9, 4.0

HOST = {
    "name": "node-7",
    "system": "Linux-6.1-x86_64",
    "processor": "Example CPU <8> & more",
    "cores": 2,
    "cpus": 2,
    "memory_bytes": 24 * 2**30,
}


def conditions(engine, factors, phase, worker, repeat=1):
    return {
        "trial": _trial(engine, factors, repeat),
        "phase": phase,
        "worker": worker,
        "steps": [{"warmup": 1.0 if phase == "read" else 0.0, "threads": 1}],
        "seed": 7,
        "engine": {"title": engine, "embedded": engine not in SERVERS, "stores": engine != "null"},
        "versions": {"storewise": "0.1.0", "python": "3.11.2", f"{engine}.engine": "3.40.1"},
        "host": HOST,
        "store_file_system": "ext4",
        "warnings": [],
    }


def resolved(engines=EMBEDDED, workers=(1, 2), repeats=2, nodes=()):
    """A study as ``study.json`` holds it; of MongoDB it has a single server only."""
    return {
        "name": "demo",
        "inputs": {"paths": ["resources/sample"]},
        "engines": {engine: {} for engine in engines},
        "factors": {"workers": list(workers), **({"nodes": list(nodes)} if nodes else {})},
        "exclude": [{"engine": "mongodb", "nodes": n} for n in nodes if n > 1],
        "repeats": repeats,
        # The published study's, far more than these results hold.
        "corpus": {"files": 1_119_820, "bytes": 13 * 10**12},
        "phases": [
            {"name": "write", "params": {"batch_size": 1000}, "steps": []},
            {"name": "read", "params": {"seconds": 8, "warmup": 1}, "steps": []},
        ],
        "seed": 7,
    }


def _trial(engine, factors, repeat):
    """The trial as its workers keep it; one that no study has is told by its factors alone."""
    workers = int(factors.get("workers", 1))
    nodes = [int(factors["nodes"])] if "nodes" in factors else []
    study = Study.model_validate(resolved([engine], [workers], repeat, nodes))
    for trial in study.trials():
        if trial.id == trial_id(factors, repeat):
            return trial.model_dump(mode="json")
    return {"engine": engine, "workers": workers, "factors": dict(factors)}


def counts(phase, operation, seconds, *, worker=0, process=0, service=0.0, prepare=0.0, warmup=0):
    """Rows of one operation: (operations, documents) per second and in total; `service` and
    `prepare` are the total times in s, spread over the seconds."""
    n = len(seconds)
    rows = []

    def add(of, second, *more):
        place = (0, second, operation, worker, process, *more)
        values = (*of, 100 * of[1], 0, service / (n if more else 1), prepare / (n if more else 1))
        for (metric, unit), value in zip(METRICS, values, strict=True):
            rows.append(Sample(phase, metric, value, unit, *place))

    for second, of in enumerate(seconds):
        add(of, second, None, second < warmup)
    add((sum(o for o, _ in seconds), sum(d for _, d in seconds)), None)
    return rows


def times(phase, duration, *, worker=0, process=0, start=START):
    return [
        Sample(phase, "duration", duration, "s", worker=worker),
        Sample(phase, "duration", duration, "s", worker=worker, process=process),
        Sample(phase, "started_at", start, "s", worker=worker),
    ]


def log(path, operation, nanoseconds, *, warmup=False):
    """An Hdr log with one interval of these values as service and response time."""
    values = np.asarray(nanoseconds, dtype=np.int64)
    index, count = np.unique(bucket_indexes(values), return_counts=True)
    histogram = histogram_of(index, count)
    write_log(
        path,
        1.7e9,
        [
            Interval(Tag(operation, "service_time", warmup=warmup), 0.0, 1.0, histogram),
            Interval(Tag(operation, "response_time", warmup=warmup), 0.0, 1.0, histogram),
        ],
    )


def _per_second(total, duration, rng):
    shares = np.clip(duration - np.arange(int(np.ceil(duration))), 0, 1)
    shares = shares * rng.normal(1, 0.03, len(shares))
    cumulative = np.round(np.cumsum(shares) / shares.sum() * total).astype(int)
    return [int(v) for v in np.diff(cumulative, prepend=0)]


def make_trial(
    study,
    factors,
    repeat,
    *,
    noise=0.02,
    read_seconds=8.0,
    scale=1.0,
    phases=("write", "read"),
    verify=True,
    store_hosts=(),
    offset=0.0,
):
    """One trial's files under ``study/trials``; returns its id.

    Nodes of a server run on `store_hosts` in turn, or on the clients' host where none is named;
    the clocks of `store_hosts` are `offset` seconds ahead.
    """
    engine, workers = str(factors["engine"]), int(factors.get("workers", 1))
    name = trial_id(factors, repeat)
    # Not by hash(): that of a text is another in each process, and a test could fail by chance.
    rng = np.random.default_rng([repeat, zlib.crc32(json.dumps(dict(factors)).encode())])
    directory = study / "trials" / name
    directory.mkdir(parents=True, exist_ok=True)
    write, read, size = SPEEDS[engine]
    jitter = float(rng.normal(1, noise))
    speedup = workers**0.8 * float(factors.get("nodes", 1)) ** 0.7
    spans = {}
    for phase, worker in itertools.product(phases, range(workers)):
        share = DOCUMENTS * 10 // workers
        if phase == "write":
            duration = share * workers / (write * speedup * jitter * scale)
            documents = _per_second(share, duration, rng)
            rows = counts(
                phase,
                "insert",
                [(-(-d // 1000), d) for d in documents],
                worker=worker,
                service=duration * 0.45,
                prepare=duration * 0.5,
            )
            rows += counts(phase, "finish", [(1, 0)], worker=worker, service=0.05 * duration)
            if size:
                rows.append(
                    Sample(phase, "store_bytes", size * share, "B", worker=worker, process=0)
                )
            latency = rng.lognormal(np.log(0.45e9 * 1000 / write), 0.3, 400)
            operation = "insert"
        else:
            duration = read_seconds + 0.3
            rate = read * speedup * jitter / workers
            operations = _per_second(int(rate * duration), duration, rng)
            rows = counts(
                phase,
                "get",
                [(o, o) for o in operations],
                worker=worker,
                service=duration * 0.9,
                prepare=duration * 0.05,
                warmup=1,
            )
            latency = rng.lognormal(np.log(0.9e9 / read), 0.5, 3000)
            operation = "get"
        if phase not in spans:
            begin = max((end for _, end in spans.values()), default=START - PAUSE) + PAUSE
            spans[phase] = (begin, begin + duration)
        rows += times(phase, duration, worker=worker, start=spans[phase][0])
        if engine in SERVERS and worker == 0 and phase == "read":
            nodes = int(factors["nodes"])
            rows += [
                Sample(phase, "owner_operations", 1000.0 + n, "1", operation="get", node=f"data{n}")
                for n in range(nodes)
            ]
        rows += _host(phase, duration, worker, workers, rng)
        if phase == "write" and worker == 0:
            rows += [
                Sample("canary", "canary_cpu", 150_000 * jitter, "1/s"),
                Sample("canary", "canary_disk_write", 4e8 * jitter, "B/s"),
                Sample("canary", "canary_disk_read", 9e8 * jitter, "B/s"),
            ]
        write_part(
            directory / f"{phase}.{worker}.parquet",
            rows,
            trial=name,
            repeat=repeat,
            host="node-7",
            factors=factors,
            conditions=conditions(engine, factors, phase, worker, repeat),
        )
        log(directory / f"{phase}.{worker}.hlog", operation, latency)
    if engine in SERVERS:
        make_session(
            study / "trials" / name,
            _trial(engine, factors, repeat),
            spans,
            host=HOST,
            hosts=store_hosts,
            offset=offset,
        )
    if verify:
        rows = [
            Sample("verify", metric, value, "1", operation=kind)
            for kind, expected in _kinds().items()
            for metric, value in (
                ("expected_documents", expected),
                ("counted_documents", expected),
                ("checked_documents", min(200, expected)),
                ("lost_documents", 0),
                ("wrong_documents", 0),
            )
            if engine != "null"
        ]
        write_part(
            directory / "verify.parquet",
            rows,
            trial=name,
            repeat=repeat,
            host="node-7",
            factors=factors,
            conditions=conditions(engine, factors, "verify", 0, repeat),
        )
    return name


def _kinds():
    return {"tasks": QUERIES, "rna": ALIGNMENTS, "gs": ALIGNMENTS, "align": ALIGNMENTS}


def _host(phase, duration, worker, workers, rng):
    rows = []
    for second in range(int(np.ceil(duration))):
        length = min(1.0, duration - second)
        place = {"second": second}
        rows += [
            Sample(phase, "client_cpu", 0.93 * length, "s", worker=worker, process=0, **place),
            Sample(phase, "client_rss", 1.2e8, "B", worker=worker, process=0, **place),
        ]
        if worker:
            continue
        user = min(90.0, 45.0 * workers) * rng.uniform(0.9, 1.05)
        wait = 8.0 * rng.uniform(0, 1) if phase == "write" else 0.5
        rows += [
            Sample(phase, "sample_length", length, "s", **place),
            Sample(phase, "cpu_user", user, "%", **place),
            Sample(phase, "cpu_system", 4.0, "%", **place),
            Sample(phase, "cpu_iowait", min(wait, 96 - user - 0.1), "%", **place),
            Sample(phase, "cpu_steal", 0.0, "%", **place),
            Sample(phase, "cpu_idle", max(0.0, 96 - user - wait), "%", **place),
            Sample(phase, "memory_used", 3.1e9, "B", **place),
            Sample(phase, "disk_write", 8e7 * rng.uniform(0.5, 1), "B/s", **place),
        ]
    return rows


def make_inputs(study, quarantine=()):
    """``study.json`` and ``inputs/``."""
    inputs = study / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table(
            {
                "path": [f"in/{i:02}.m10.gz" for i in range(FILES)],
                "bytes": [INPUT_BYTES * 10 // FILES] * FILES,
                "queries": [QUERIES * 10 // FILES] * FILES,
                "alignments": [ALIGNMENTS * 10 // FILES] * FILES,
                "documents": [DOCUMENTS * 10 // FILES] * FILES,
                "duplicate_of": pa.nulls(FILES, pa.string()),
                "warning": pa.nulls(FILES, pa.string()),
            }
        ),
        inputs / "manifest.parquet",
    )
    if quarantine:
        text = "path\tline\toffset\treason\n"
        text += "".join("\t".join(row) + "\n" for row in quarantine)
        (inputs / "quarantine.tsv").write_text(text, encoding="utf-8")


def make_study(study, *, engines=EMBEDDED, workers=(1, 2), repeats=2, nodes=(), **options):
    """A whole study's results; returns the ids of its trials."""
    make_inputs(study)
    study_of = resolved(engines, workers, repeats, nodes)
    (study / "study.json").write_text(json.dumps(study_of), encoding="utf-8")
    return [
        make_trial(study, trial.factors, trial.repeat, **options)
        for trial in Study.model_validate(study_of).trials()
    ]


def make_failed(study, factors, repeat, reason):
    """A trial that failed for good."""
    name = trial_id(factors, repeat)
    directory = study / "trials" / name
    directory.mkdir(parents=True, exist_ok=True)
    text = {
        "trial": name,
        "repeat": repeat,
        "factors": dict(factors),
        "reason": reason,
        "log_tail": "line 1\n<b>line 2</b>",
        "attempts": 2,
    }
    (directory / "failed.json").write_text(json.dumps(text), encoding="utf-8")
    return name
