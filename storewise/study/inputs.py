"""The inputs of a study: paths, a sample of them, or a search.

Pydantic models of the key `inputs`; ``config/README.md`` explains each key to users.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from storewise.errors import ConfigError, StorewiseError
from storewise.s3.uri import is_remote
from storewise.ssearch.formats.registry import parse_format
from storewise.ssearch.inputs.paths import matches, nearest_path
from storewise.ssearch.search.ssearch36 import STUDY_OPTIONS
from storewise.study.section import Section, as_list
from storewise.yamlfile import YamlFile, shown


def _words(value: Any) -> Any:
    return re.split(r"[\s,]+", value.strip()) if isinstance(value, str) else value


class SampleOf(Section):
    """A seeded part of the input files; exactly one of `files`, `bytes`, `share`."""

    files: int | None = Field(default=None, ge=1)
    bytes: int | None = Field(default=None, ge=1)
    share: float | None = Field(default=None, gt=0, le=1)
    seed: int = 1

    @model_validator(mode="after")
    def _one(self) -> SampleOf:
        if sum(v is not None for v in (self.files, self.bytes, self.share)) != 1:
            raise ValueError("give exactly one of files, bytes and share")
        return self


class Search(Section):
    """FASTA files to search, for users who have only sequences."""

    queries: Annotated[list[str], BeforeValidator(as_list)] = Field(min_length=1)
    libraries: Annotated[list[str], BeforeValidator(as_list)] = Field(min_length=1)
    program: str = "ssearch36"
    options: list[str] = Field(default_factory=lambda: list(STUDY_OPTIONS))
    queries_per_file: int = Field(default=1, ge=1)
    jobs: int = Field(default=1, ge=1, le=1000)

    @field_validator("options")
    @classmethod
    def _no_programs(cls, value: list[str]) -> list[str]:
        # FASTA36 gives what follows `!` to a shell, and the script of -e as well.
        for i, option in enumerate(value):
            after = value[i - 1] if i else ""
            if "!" in option or option.startswith("-e") or after == "-e":
                raise ValueError(
                    f"{option!r} would run another program; give only options of the search program"
                )
            if option.startswith("-O"):
                raise ValueError(f"{option!r} writes a file; Storewise chooses where outputs go")
        return value

    @field_validator("queries", "libraries")
    @classmethod
    def _files(cls, value: list[str]) -> list[str]:
        for path in value:
            if path.startswith(("!", "-")):
                raise ValueError(
                    f"{path!r}: search programs do not take it for a file name; write ./ before it"
                )
            if is_remote(path):
                raise ValueError(
                    f"{path!r} is on S3; the search programs read files: copy it to a file system "
                    "of the workers first"
                )
        return value


class Inputs(Section):
    """Paths of the outputs of searches, or the search that makes them."""

    paths: Annotated[list[str], BeforeValidator(as_list)] = Field(default_factory=list)
    search: Search | None = None
    sample: SampleOf | None = None
    format: str = ""
    columns: Annotated[list[str], BeforeValidator(_words)] = Field(default_factory=list)
    jobs: int = Field(default=1, ge=1, le=1000)

    @model_validator(mode="after")
    def _some(self) -> Inputs:
        if self.paths and self.search is not None:
            raise ValueError("give either paths (outputs of searches) or search (FASTA files)")
        if self.columns and not self.format:
            raise ValueError("columns need a format, such as blast6")
        if self.format:
            try:
                form = parse_format(self.input_format)
            except ConfigError as error:
                raise ValueError(str(error)) from error
            if self.search is not None and form.table is not None:
                raise ValueError("a search writes m10; leave format out")
        return self

    @property
    def input_format(self) -> str:
        """Text of the inputs' `InputFormat`; empty where each file shows its own."""
        return " ".join([self.format, *self.columns]).strip()


def check_inputs(inputs: Inputs, text: YamlFile) -> None:
    """Refuse a path, glob or list that names nothing."""
    search = inputs.search
    places: dict[tuple[str, ...], list[str]] = {("inputs", "paths"): inputs.paths}
    if search is not None:
        places["inputs", "search", "queries"] = search.queries
        places["inputs", "search", "libraries"] = search.libraries
    for place, specs in places.items():
        for i, spec in enumerate(specs):
            try:
                paths = matches(spec)
            except StorewiseError as error:
                text.fail((*place, i), f"{error}")
            if not paths and is_remote(name := spec.removeprefix("@")):
                message = f"{shown(spec)}: no such object or prefix{nearest_path(name)}"
                text.fail((*place, i), message)
            if not paths:
                message = f"{shown(spec)}: no such file or directory{nearest_path(spec)}"
                text.fail((*place, i), f"{message}; looked from {Path.cwd()}")
