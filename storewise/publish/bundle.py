"""A report as one file to mail: the page and all that its links lead to."""

from __future__ import annotations

import zipfile
from pathlib import Path

from storewise.atomic import aside
from storewise.errors import ResultError
from storewise.layout import ANALYSIS, FIGURES, REPORT, STUDY, SUMMARY, TRIALS, study_name
from storewise.publish.results import select

_FILES = (REPORT, SUMMARY, STUDY)
_DIRECTORIES = tuple(f"{name}/" for name in (ANALYSIS, FIGURES, TRIALS))
#: They are compressed already.
_PACKED = (".parquet", ".png", ".hlog")


def write_bundle(results: Path, output: Path) -> int:
    """A zip of a study's report, in a folder with the study's name; returns the number of files.

    Stores of trials and logs of runs are not in it. Raises ResultError where it cannot be written.
    """
    chosen = [
        file
        for file in select(results)
        if file.name in _FILES or file.name.startswith(_DIRECTORIES)
    ]
    folder = study_name(results)
    try:
        with aside(output) as place, zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as bundle:
            for file in chosen:
                packed = file.name.endswith(_PACKED)
                how = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
                bundle.write(file.path, f"{folder}/{file.name}", compress_type=how)
    except (PermissionError, FileNotFoundError, NotADirectoryError) as error:
        raise ResultError(f"{error.filename}: {error.strerror}") from error
    return len(chosen)
