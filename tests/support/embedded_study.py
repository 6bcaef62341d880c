"""The one study of embedded stores that tests look at: from `storewise init` to the report."""

import os
import shutil
import subprocess
from dataclasses import dataclass

from storewise.ssearch.parse.stream import open_input
from support.paths import SMALL
from support.workspace import Workspace

#: What `storewise init` writes would take minutes. Few jobs: each is a Python process of its own.
EMBEDDED = """\
extends: mine.yaml
inputs: {paths: data}
engines: ["null", files, sqlite, parquet, postgres]
if_missing: leave_out
indexes: [align.q, align.gene]
factors: {workers: [1, 2], threads: 2, index: [none, before]}
exclude:
  - {workers: 1, index: before}
  - {workers: 2, index: none}
  - {engine: "null", workers: 2}
  - {engine: "null", phase: query}
  - {engine: files, workers: 2}
  - {engine: sqlite, workers: 1}
  - {engine: parquet, workers: 2}
  - {engine: postgres, workers: 2}
repeats: 1
verify: 20
keep_data: true
corpus: {files: 1119820, bytes: 13000000000000}
phases:
  - write: {batch_size: 200}
  - read: {operations: 100, steps: [{threads: 1}, {threads: 2, batch: 10}]}
  - query: {operations: 10}
"""
#: The variable that names PostgreSQL's programs, and a place without any.
POSTGRES, NOWHERE = "STOREWISE_POSTGRES_BIN", "/nowhere"


@dataclass
class Measured:
    """A study's place, and what `storewise run` said."""

    place: Workspace
    run: subprocess.CompletedProcess[str]


def measure(directory):
    """On a host without PostgreSQL."""
    place = Workspace(directory)
    inputs = place.copy_inputs([])
    for path in SMALL:
        # Plain text, as ssearch36 writes it.
        with open_input(path) as stream, (inputs / path.stem).open("wb") as plain:
            shutil.copyfileobj(stream, plain)
    made = place.storewise("init", str(inputs), "-o", "mine.yaml")
    assert made.returncode == 0, made.stdout + made.stderr
    place.write_study(EMBEDDED)
    done = place.storewise("run", "s.yaml", env={**os.environ, POSTGRES: NOWHERE})
    assert done.returncode == 0, done.stdout + done.stderr
    return Measured(place, done)
