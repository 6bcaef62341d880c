"""Small results of a study to publish, and what is done with them in tests."""

from __future__ import annotations

import json
import os

from typer.testing import CliRunner

from storewise.cli.main import app
from storewise.errors import StorewiseError
from storewise.publish.pull import fetch, missing, publication
from storewise.publish.push import carry_out, plan_of
from storewise.publish.results import write_config
from storewise.study.publication import Publish

MIB = 1 << 20
#: 2026-11-22T08:17:21Z
STARTED = 1795335441.5
FOLDER = "p/20261122T081721Z-mine-first"
SECRET = "hunter2"


def quiet(*_):
    return


def write_results(directory):
    """Results of a study as they lie on disk, with what must not go up."""
    top = directory / "results" / "mine"
    study = {"name": "mine", "engines": {"sqlite": {}}, "inputs": {"paths": ["data"]}}
    study["phases"] = [{"name": "write", "params": {"batch_size": 10}, "steps": []}]
    texts = {
        "study.json": json.dumps(study),
        "report.html": "<p>report</p>",
        "summary.csv": "a,b\n",
        "logs/t/load.0.log": "loaded\n",
        "logs/publish.log": "being written\n",
        "analysis/empty.csv": "",
        "inputs/manifest.parquet": "PAR1",
        "inputs/cache/x": "made again from the rest",
        "search/outputs/q.m10": "raw",
        "trials/t/write.0.parquet": "PAR1" * 100,
        "trials/t/store.0/data.db": "documents",
        "trials/t/.write.0.parquet.host.1.tmp": "half",
        "live/t/credentials/secret.json": SECRET,
        "leases/.run": "",
        ".asked/now": "1",
        "run.json": json.dumps(
            {
                "run": "host.1.a",
                "process": {"host": "host", "pid": 1, "started": 1.0},
                "started": STARTED,
                "trials": {"t": "sqlite"},
                "measuring": ["t"],
                "ended": STARTED + 9,
            }
        ),
    }
    for name, text in texts.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return top


def publish(results, s3, tags=None):
    write_config(results)
    settings = Publish(to=f"{s3.uri}/p", name="first", tags=tags or {})
    todo = plan_of(results, settings, quiet)
    carry_out(todo, quiet)
    return todo.folder


def pull(folder, target):
    result = publication(folder)
    wanted, _ = missing(result, target, quiet)
    fetch(folder, wanted, target, quiet)


def content(top, names):
    return {n: ((top / n).read_bytes(), (top / n).stat().st_mtime_ns) for n in names}


def puts(s3):
    """What was written, by name, and nothing of it since the last call."""
    names = [request.target.split("?")[0] for request in s3.faults.seen("PUT")]
    s3.faults.clear()
    return [name.partition("-first/")[2] for name in names]


def command(*arguments):
    """Exit status, output and errors (or the one error's text) of the command line."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(done.exception, StorewiseError):
        return 2, done.stdout, str(done.exception)
    return done.exit_code, done.stdout, done.stderr
