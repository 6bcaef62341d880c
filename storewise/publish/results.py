"""A study's results as a publication: its files and config, and the way back."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from storewise import __version__
from storewise.atomic import write_aside
from storewise.errors import ResultError
from storewise.layout import (
    CONFIG,
    PUBLISH_LOG,
    RECORD,
    REFERENCES,
    REPORT,
    RUN_LOG,
    STUDY,
    TRIALS,
    VERIFIED,
)
from storewise.publish.manifest import RUN_FILES, plain_name
from storewise.session.coordination.run_record import read_record
from storewise.study.load import base_of
from storewise.study.publication import as_time
from storewise.yamlfile import read_yaml

#: In `CONFIG`: the files as they were written, and the study's references.
_WRITTEN = "written"
_REFERENCES = "references"
_LEFT_OUT = {
    *RUN_FILES,
    # What would be made of the rest again, and inputs.
    *("inputs/cache", "inputs/parts", "search/outputs"),
    # Logs that are still written: of the job that publishes, and of the run that has started it.
    *(PUBLISH_LOG, RUN_LOG),
}
_UNFINISHED = (".tmp", ".partial")


@dataclass(frozen=True, slots=True)
class Local:
    """A file to be published as `name` (relative, with slashes)."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class RunOf:
    """The run that measured results: its id, empty where it is not known, and its start."""

    id: str
    started: float


def run_of(results: Path) -> RunOf:
    """The run that results are of: this directory's, else that of the publication they were pulled
    from, else the time of the newest trial. ResultError where nothing was measured."""
    path = results / RECORD
    try:
        json.loads(path.read_bytes() if path.exists() else "{}")
    except (OSError, ValueError, RecursionError) as error:
        raise ResultError(
            f"{path}: the record of the last run was cut short or changed: {error}; delete it: the "
            "time of the newest trial counts then"
        ) from error
    record = read_record(results)
    if record is not None:
        return RunOf(record.run, record.started)
    try:
        known = json.loads((results / CONFIG / RECORD).read_text(encoding="utf-8"))
        return RunOf(str(known["run"]), float(known["started"]))
    except FileNotFoundError:
        times = [path.stat().st_mtime for path in results.glob(f"{TRIALS}/*/*.parquet")]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ResultError(
            f"{results / CONFIG / RECORD}: not the record of a run ({error}); delete it"
        ) from error
    if not times:
        raise ResultError(f"{results}: nothing to publish: no trial was measured here")
    return RunOf("", float(int(max(times))))


def select(results: Path, config: Path | None = None) -> list[Local]:
    """The files of a publication, sorted by name; `config` stands for the results' own `CONFIG`.

    Directories of a trial are stores and the data of servers; they stay. Links are followed.
    """
    every = _files(results, "", (os.path.realpath(results),))
    files = [file for file in every if not file.name.startswith(f"{CONFIG}/")]
    config = config or results / CONFIG
    if config.is_dir():
        files += _files(config, f"{CONFIG}/", (os.path.realpath(config),))
    return sorted(files, key=lambda file: file.name)


def _files(directory: Path, prefix: str, above: tuple[str, ...]) -> Iterator[Local]:
    for entry in os.scandir(directory):
        name = prefix + entry.name
        if entry.name.startswith(".") or entry.name.endswith(_UNFINISHED) or name in _LEFT_OUT:
            continue
        if not name.isprintable():
            raise ResultError(
                f"{entry.path!r}: no name for an object: names are UTF-8 without control "
                "characters; rename the file"
            )
        path = Path(entry.path)
        if entry.is_dir():
            real = os.path.realpath(path)
            if name.startswith(f"{TRIALS}/") and name.count("/") > 1:
                continue
            if real in above:
                raise ResultError(f"{path}: a link to a directory that it is in; remove it")
            yield from _files(path, f"{name}/", (*above, real))
        elif entry.is_file():
            yield Local(name, path)
        elif entry.is_symlink():
            raise ResultError(f"{path}: a link to nothing; remove it, or make what it leads to")


#: What to do where `report_is_old`.
OLD_REPORT = (
    "the report is missing or older than a trial; `snakemake analysis --config study=STUDY` makes "
    "it, and publishing again adds it"
)


def report_is_old(results: Path) -> bool:
    """Whether trials were measured that the report does not know, or there is no report."""
    try:
        made = (results / REPORT).stat().st_mtime
    except FileNotFoundError:
        return True
    return any(path.stat().st_mtime > made for path in results.glob(f"{TRIALS}/*/{VERIFIED}"))


def stored_study(results: Path) -> dict[str, Any]:
    """The study as it was last analysed; ResultError where it never was."""
    path = results / STUDY
    try:
        study = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(study, dict) or not isinstance(study.get("name"), str):
            raise ValueError("no study")
        plain_name(study["name"])
    except FileNotFoundError as error:
        raise ResultError(
            f"{results}: there is no analysis to publish; make it with `snakemake analysis "
            "--config study=STUDY`"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ResultError(
            f"{path}: not a study ({error}); make it again with `snakemake analysis`"
        ) from error
    return study


def study_files(path: Path, root: Path) -> list[Path]:
    """A study's own file, and those that it extends; `root` has ``config/studies``."""
    files = [path]
    while (base := base_of(read_yaml(files[-1]), root)) is not None:
        files.append(base)
    return files


@contextmanager
def config_aside(results: Path, written: Sequence[Path]) -> Iterator[Path]:
    """The results' `CONFIG` as `write_config` would write it, in a temporary directory."""
    with TemporaryDirectory(prefix="storewise-") as top:
        aside = Path(top) / CONFIG
        if (results / CONFIG).is_dir():
            shutil.copytree(results / CONFIG, aside)
        write_config(results, written, aside)
        yield aside


def write_config(
    results: Path, written: Sequence[Path] = (), directory: Path | None = None
) -> None:
    """Put the study's files beside its results: ``config/STUDY.yaml``, complete as it was read, so
    that it needs no other file; the files as they were written; and which run this is.

    `written` are the study's own file and those that it extends. Files that are right stay as they
    are. `directory` is written instead of the results' own `CONFIG`.
    """
    study = stored_study(results)
    directory = directory or results / CONFIG
    name_of_whole = f"{study['name']}.yaml"
    whole = directory / name_of_whole
    # Results that were pulled are analysed with this very file, which is the user's then.
    users = (results / CONFIG / name_of_whole).resolve()
    pulled = any(path.resolve() == users for path in written)
    texts: dict[Path, str] = {}
    references = _references(results)
    for name, kinds in references.items():
        for suffix, text in kinds.items():
            texts[directory / _REFERENCES / f"{name}.{suffix}"] = text
    if not pulled:
        texts[whole] = complete_yaml(study, references)
        for place, path in _named_apart(written, directory / _WRITTEN).items():
            texts[place] = path.read_text(encoding="utf-8")
    run = run_of(results)
    texts[directory / RECORD] = json.dumps({"run": run.id, "started": run.started}) + "\n"
    kept = [directory / _REFERENCES, *([directory / _WRITTEN] if written and not pulled else [])]
    for path in [path for top in kept for path in top.glob("*") if path not in texts]:
        path.unlink()  # of an earlier version of the study
    for path, text in texts.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_aside(path, text)


def _references(results: Path) -> dict[str, dict[str, str]]:
    """The texts of the published studies (references) by name. ResultError if they are damaged or a
    name is not a plain file name: they may come from somebody else's publication."""
    path = results / REFERENCES
    try:
        texts_of = json.loads(path.read_text(encoding="utf-8"))
        references = {plain_name(str(name)): dict(texts) for name, texts in texts_of.items()}
        if any(set(texts) != {"yaml", "csv"} for texts in references.values()):
            raise ValueError("each reference must have a YAML and a CSV file")
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ResultError(
            f"{path}: not the references of a study ({error}); `snakemake analysis` writes it again"
        ) from error
    return references


def _named_apart(paths: Sequence[Path], directory: Path) -> dict[Path, Path]:
    """Each file by a place of its own: two may have one name in different directories."""
    places: dict[Path, Path] = {}
    for path in paths:
        place, number = directory / path.name, 1
        while place in places:
            number += 1
            place = directory / f"{path.stem}.{number}{path.suffix}"
        places[place] = path
    return places


def complete_yaml(study: Mapping[str, Any], references: Mapping[str, Any]) -> str:
    """A study as one YAML file that gives the same study wherever it is read.

    `study` is it as JSON values, `references` are those that lie beside the file.
    """
    data = {key: value for key, value in study.items() if key != "name" and value not in (None, "")}
    inputs = data.get("inputs") or {}
    if not inputs.get("paths") and not inputs.get("search"):
        data.pop("inputs", None)  # of a workload that makes its data itself
    if scale := data.get("scale"):
        data["scales"] = {scale: {}}  # what it changes is in the other keys already
    data["references"] = [
        f"{_REFERENCES}/{stem}.yaml" if (stem := Path(name).stem) in references else name
        for name in data.get("references", ())
    ]
    name = study["name"]
    return (
        f"# Study {name} as Storewise {__version__} read it: with what it extends, and its scale.\n"
        f"# Its results are analysed again, in a checkout of Storewise, by\n"
        f"#   snakemake analysis --config study={quote(f'results/{name}/{CONFIG}/{name}.yaml')}\n"
        + yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    )


def foreign_trials(results: Path, published: Iterable[str]) -> list[Path]:
    """Trials with results that a publication does not have, which would be analysed with it."""
    known = {name.split("/")[1] for name in published if name.startswith(f"{TRIALS}/")}
    return sorted(
        path
        for path in results.glob(f"{TRIALS}/*")
        if path.name not in known and any(path.glob("*.parquet"))
    )


def forget_run(results: Path, run: str) -> None:
    """Forget this directory's run where its trials are now those of another, that began at `run`
    (UTC): published again, they would replace those of this one."""
    record = read_record(results)
    if record is not None and as_time(record.started) != run:
        (results / RECORD).unlink()
