"""Where things are: the package itself, and what lies in a directory of results."""

from __future__ import annotations

from pathlib import Path

#: The directory that holds the package: a checkout, or Python's site-packages.
LIBRARY = Path(__file__).resolve().parent.parent
#: Of a trial that was given up: the attempts and the reason.
FAILED = "failed.json"
#: What the last run of a study was: who, when, with what.
RECORD = "run.json"
#: What the figures of a directory show, and why those that are not there are not.
FIGURE_INDEX = "figures.json"
