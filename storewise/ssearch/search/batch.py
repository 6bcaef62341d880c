"""All searches of a study, dealt to a fixed number of jobs.

Every query part is searched in every library once. A job that is run again skips what an earlier
one completed with the same sequences, program and options, so a killed job costs one search.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storewise.atomic import write_aside
from storewise.errors import SearchError
from storewise.ssearch.parse.stream import content_digest
from storewise.ssearch.search.fasta import part_path, split_fasta
from storewise.ssearch.search.ssearch36 import record_path, run_search


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The searches of a study's `inputs.search`."""

    queries: tuple[Path, ...]
    libraries: tuple[Path, ...]
    program: str
    options: tuple[str, ...]
    queries_per_file: int
    jobs: int


def run_searches(
    plan: SearchPlan, job: int, outdir: Path, say: Callable[[str], None]
) -> list[Path]:
    """Do the searches of job `job` (from 0) of `plan.jobs`; returns their outputs below `outdir`.

    Outputs are ``QUERIES.NNNNNN__LIBRARY.m10.gz``, each with its record beside it. Raises
    InputError for a FASTA file that is missing, empty or wrong, SearchError for a search that
    failed; what was complete before stays.
    """
    libraries = {_name(path): path for path in plan.libraries}
    stems = {_name(path) for path in plan.queries}
    if len(libraries) < len(plan.libraries) or len(stems) < len(plan.queries):
        raise SearchError("two FASTA files of the study have the same name; rename one")
    marks = {name: content_digest(path).hex() for name, path in libraries.items()}
    outputs: list[Path] = []
    directory = outdir / f"queries.{job}"
    for source in plan.queries:
        # Every job splits: it is cheap beside a search, and needs no file that jobs share.
        parts = split_fasta(source, directory, plan.queries_per_file)
        for number, part in list(enumerate(parts))[job :: plan.jobs]:
            for name, library in libraries.items():
                output = outdir / f"{part.stem}__{name}.m10.gz"
                key = _key(plan, part, marks[name])
                if not _is_done(output, key):
                    say(f"searching part {number + 1} of {len(parts)} of {source} in {library}")
                    record = run_search(
                        part, library, output, options=plan.options, program=plan.program
                    )
                    write_aside(_key_path(output), key + "\n")
                    say(f"{output}: {record.alignments} alignments in {record.seconds:.1f} s")
                outputs.append(output)
    shutil.rmtree(directory, ignore_errors=True)
    return outputs


def _name(path: Path) -> str:
    return part_path(Path(), path, 1).name.removesuffix(".000001.fa")


def _key(plan: SearchPlan, part: Path, library: str) -> str:
    text = json.dumps([plan.program, plan.options, part.read_text("utf-8"), library])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _key_path(output: Path) -> Path:
    return output.with_name(f"{output.name}.key")


def _is_done(output: Path, key: str) -> bool:
    mark = _key_path(output)
    return (
        output.is_file()
        and record_path(output).is_file()
        and mark.is_file()
        and mark.read_text(encoding="utf-8").strip() == key
    )
