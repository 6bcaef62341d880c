"""`storewise init`: a commented study for a directory of outputs of searches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.resources import files
from itertools import islice
from pathlib import Path
from string import Template

import yaml

from storewise.engines.registry import ENGINES, engine
from storewise.errors import ConfigError, InputError
from storewise.s3.uri import is_remote
from storewise.ssearch.formats.registry import HEAD_BYTES, is_output
from storewise.ssearch.parse import remote
from storewise.ssearch.parse.stream import read_head
from storewise.study.load import STUDIES, load_study
from storewise.workloads.alignments.queries import QUESTIONS

#: Files that are looked at before we say that a directory holds no output.
LOOKED_AT = 200
#: For more files than this, the study first takes a sample of so many.
SAMPLE_FILES = 200

#: Fields that questions look at, and the questions that need them.
_ASKED = {
    "align.q": ("best_hits",),
    "align.gene": ("gene_hits", "top_genes"),
    "align.e": ("best_hits", "strong_hits", "bits_histogram"),  # bits come with e-values
}
_QUERY = """\
  # What a biologist asks, one question after the other; docs/queries.md explains them.
  - query: {{questions: [{questions}], seconds: 15}}
"""
_NO_QUERY = """\
  # There is no phase `query`: the searches have no e-values and name no genes.
"""


def first_stores() -> list[str]:
    """Stores that a first study takes where they run."""
    return [name for name in ENGINES if engine(name).in_first_study]


def write_study(
    directory: Path | str,
    path: Path,
    *,
    engines: Sequence[str],
    genes: bool = True,
    scores: bool = True,
    sample: bool = False,
    quarantine: bool = False,
    input_format: str = "",
) -> None:
    """Write a study for `directory`, which may be a prefix on S3 (``s3://...``, a str).

    `genes`: the hits name genes; `scores`: they have e-values. Questions that need a missing field
    are left out. `sample`: use only SAMPLE_FILES of the files. `quarantine`: leave out incomplete
    outputs instead of failing. `input_format` is the text of an `InputFormat`. A file that is there
    is replaced (`path_of` and `check_outputs` refuse before).
    """
    place = str(directory) if is_remote(directory) else str(Path(directory).resolve())
    indexes = _indexes_of(genes=genes, scores=scores)
    questions = questions_of(genes=genes, scores=scores)
    indexed = {name: engine(name).flags.secondary_indexes for name in engines}
    excluded = [f"{{engine: {n}, index: {'none' if i else 'after'}}}" for n, i in indexed.items()]
    template = files("storewise.study").joinpath("template.yaml").read_text(encoding="utf-8")
    text = Template(template).substitute(
        file=path,
        title=yaml.safe_dump(f"Stores for {Path(place).name}", width=1000).split("\n")[0],
        path=yaml.safe_dump(place, width=1000).split("\n")[0],
        sample=f"sample: {{files: {SAMPLE_FILES}, seed: 1}}"
        if sample
        else "# sample: {files: 20, seed: 1}",
        on_bad_input="quarantine" if quarantine else "fail",
        format=_format_lines(input_format),
        engines=", ".join(engines),
        indexes=", ".join(indexes),
        exclude="".join(f"  - {one}\n" for one in excluded).rstrip("\n"),
        query=_QUERY.format(questions=", ".join(questions)) if questions else _NO_QUERY,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    load_study(path)


def _format_lines(input_format: str) -> str:
    name, *columns = input_format.split() or [""]
    if not name:
        return "  # Their first bytes show their format; else say it, such as `format: blast6`."
    lines = [f"  format: {name}"]
    return "\n".join(lines + [f"  columns: [{', '.join(columns)}]"] * bool(columns))


def questions_of(*, genes: bool, scores: bool) -> list[str]:
    """The questions whose fields are stored: the hits name `genes`, have e-values (`scores`)."""
    asked = {
        question for name in _indexes_of(genes=genes, scores=scores) for question in _ASKED[name]
    }
    return [question for question in QUESTIONS if question in asked]


def _indexes_of(*, genes: bool, scores: bool) -> list[str]:
    """The fields to index: those that questions look at and the hits have."""
    return [name for name in _ASKED if (genes if name == "align.gene" else scores)]


def path_of(directory: Path | str, output: Path | None, *, force: bool) -> Path:
    """Path of the new study of a directory; raises ConfigError if the file exists."""
    place = str(directory) if is_remote(directory) else str(Path(directory).resolve())
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(place).name).strip("-") or "study"
    path = output or STUDIES / f"{name}.yaml"
    if path.exists() and not force:
        raise ConfigError(f"{path}: exists already; name another with -o, or use --force")
    return path


def check_outputs(directory: Path | str, input_format: str = "") -> None:
    """Raise InputError if the first `LOOKED_AT` files of a directory hold no output of a search. Of
    a given format anything may be one."""
    if not is_remote(directory) and not Path(directory).is_dir():
        raise InputError(directory, "there is no such directory; name one with outputs")
    there, looked = _has_output(directory)
    if not there and not (looked and input_format):
        raise InputError(
            directory,
            f"none of the first {looked} files is an output of a search that can be read"
            if looked
            else "the directory holds no file",
            expected="outputs of `ssearch36 -m 10`, or tables of BLAST and others",
        )


def _has_output(directory: Path | str) -> tuple[bool, int]:
    """Whether one of the first files below `directory` is an output, and their number."""
    below: Iterable[Path | str]
    if is_remote(directory):
        below = remote.expand(str(directory))
    else:
        below = (path for path in Path(directory).rglob("*") if path.is_file())
    first = list(islice(below, LOOKED_AT))
    for path in first:
        with suppress(InputError):
            if is_output(read_head(path, HEAD_BYTES)):
                return True, len(first)
    return False, len(first)
