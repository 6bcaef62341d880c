"""`storewise init`: a commented study for a directory of SSEARCH outputs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from importlib.resources import files
from itertools import islice
from pathlib import Path
from string import Template

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


def write_study(directory: Path | str, output: Path | None, *, force: bool = False) -> Path:
    """Write a study for `directory`, which may be a prefix on S3 (``s3://...``, a str).

    Raises ConfigError, InputError or ObjectError with what to do.
    """
    if not is_remote(directory) and not Path(directory).is_dir():
        raise InputError(directory, "there is no such directory; name one with SSEARCH outputs")
    output_there, looked = _has_output(directory)
    if not output_there:
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
    template = files("storewise.study").joinpath("template.yaml").read_text(encoding="utf-8")
    text = Template(template).substitute(
        file=path,
        title=yaml.safe_dump(f"Stores for {Path(place).name}", width=1000).split("\n")[0],
        path=yaml.safe_dump(place, width=1000).split("\n")[0],
        sample="sample: {files: 200, seed: 1}" if many else "# sample: {files: 20, seed: 1}",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    load_study(path)
    return path


def _has_output(directory: Path | str) -> tuple[bool, int]:
    """Whether one of the first files below `directory` is an SSEARCH output, and their number."""
    below: Iterable[Path | str]
    if is_remote(directory):
        below = remote.expand(str(directory))
    else:
        below = (path for path in Path(directory).rglob("*") if path.is_file())
    first = list(islice(below, LOOKED_AT))
    for path in first:
        with suppress(InputError):
            head = read_head(path, _HEAD_BYTES)
            if any(mark in head for mark in _MARKS):
                return True, len(first)
    return False, len(first)
