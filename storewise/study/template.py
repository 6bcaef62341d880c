"""`storewise init`: a commented study for a directory of SSEARCH outputs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import yaml

from storewise.errors import ConfigError, InputError
from storewise.s3.uri import is_remote
from storewise.ssearch.inputs.scan import read_head
from storewise.ssearch.parse import remote
from storewise.study.load import STUDIES, load_study

#: Files that are looked at before we say that a directory holds no SSEARCH output.
LOOKED_AT = 200
_HEAD_BYTES = 1 << 16
_MARKS = (b"; pg_name", b"\n; pg_", b"SSEARCH", b"ssearch", b"FASTA searches", b"-m 10")

_STUDY = """\
# A study of Storewise, written by `storewise init`. Run it with
#
#   storewise run {file}
#
# config/README.md explains every key.
title: {title}

inputs:
  # Directories (with all below them), globs, files, @FILE with one path a line, s3://BUCKET/PREFIX/.
  paths: {path}
  # For a first look, take only a part: `files: 20`, `bytes: 2000000000` or `share: 0.05`.
  {sample}
  # `sampled` reads only a few blocks of each file for its id: for inputs of terabytes.
  digest: full

# null stores nothing (the ceiling of the client); parquet is the choice of no database.
engines: [null, sqlite, duckdb, parquet]

factors:
  # Jobs that write and read at the same time.
  workers: [1, 2]
  # Processes of a worker, and client threads of each process.
  # processes: [1, 4]
  # threads: [1]
  # durable: an acknowledged document survives a crash. relaxed: it may not, and is faster.
  # consistency: [durable, relaxed]
  # Indexes on e-value and gene: none, before or after the load.
  # index: [none, after]

# More repeats give narrower intervals; three or more let repeats be compared with each other.
repeats: 3

phases:
  # Documents of one kind per insert.
  - write: {{batch_size: 1000}}
  # Random documents, until so many were read in all or the time is over.
  - read: {{operations: 1000000, seconds: 30, warmup: 3}}

# An output that is not complete: `fail` ends the run and names it, `quarantine` goes on without
# it and names it in the report.
on_bad_input: quarantine
"""


def write_study(directory: Path | str, output: Path | None, *, force: bool = False) -> Path:
    """Write a study for `directory`, which may be a prefix on S3 (``s3://...``, a str).

    Raises ConfigError, InputError or ObjectError with what to do.
    """
    if not is_remote(directory) and not Path(directory).is_dir():
        raise InputError(directory, "there is no such directory; name one with SSEARCH outputs")
    found, looked = _first_output(directory)
    if found is None:
        raise InputError(
            directory,
            f"none of the first {looked} files is an SSEARCH -m 10 output"
            if looked
            else "the directory holds no file",
            expected="outputs of `ssearch36 -m 10` (plain, gzip or zstd)",
        )
    place = str(directory) if is_remote(directory) else str(Path(directory).resolve())
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(place).name).strip("-") or "study"
    path = output or STUDIES / f"{name}.yaml"
    if path.exists() and not force:
        raise ConfigError(f"{path}: exists already; name another with -o, or use --force")
    many = looked >= LOOKED_AT
    text = _STUDY.format(
        file=path,
        title=yaml.safe_dump(f"Stores for {Path(place).name}", width=1000).split("\n")[0],
        path=yaml.safe_dump(place, width=1000).split("\n")[0],
        sample="sample: {files: 200, seed: 1}" if many else "# sample: {files: 20, seed: 1}",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    load_study(path)
    return path


def _first_output(directory: Path | str) -> tuple[Path | str | None, int]:
    """The first SSEARCH output below `directory`, and how many files there are to look at."""
    found: Iterable[Path | str]
    if is_remote(directory):
        found = remote.expand(str(directory))
    else:
        found = (p for p in Path(directory).rglob("*") if p.is_file())
    files = list(islice(found, LOOKED_AT))
    for path in files:
        try:
            head = read_head(path, _HEAD_BYTES)
        except InputError:
            continue
        if any(mark in head for mark in _MARKS):
            return path, len(files)
    return None, len(files)
