"""Paths: of the package itself, and within a directory of results."""

from __future__ import annotations

import os
from pathlib import Path

#: The directory that holds the package: a checkout, or Python's site-packages.
LIBRARY = Path(__file__).resolve().parent.parent

#: The study as it was resolved.
STUDY = "study.json"
#: What the last run of a study was: who, when, with what.
RECORD = "run.json"
#: The texts of the published studies that the study names.
REFERENCES = "references.json"
#: Engines that the host that planned the study did not have.
LEFT_OUT = "left_out.json"
#: The input files, one path a line; those to measure; those that are not complete.
LISTING = "inputs/files.txt"
MANIFEST = "inputs/manifest.parquet"
#: Of a study that takes a sample: how many files it was taken of.
SAMPLED_OF = "inputs/sampled_of.txt"
QUARANTINE = "inputs/quarantine.tsv"

#: Of runs that live: a lease each.
LEASES = "leases"
#: Of trials that are being measured: a directory each.
LIVE = "live"
#: Records of the tables that trials in external databases have made and have to drop.
EXTERNAL = "external"
#: Of trials that are measured: a directory each.
TRIALS = "trials"
#: The last file of a complete trial.
VERIFIED = "verify.parquet"
#: Of a trial with servers: their session.
SESSION_PART = "session.parquet"
#: The parts of all workers of a trial together.
PACK = "packed.parquet"
#: Failed attempts: a file for each trial.
FAILURES = "failures"
#: Of a trial that was given up: the attempts and the reason.
FAILED = "failed.json"

#: What the analysis makes: tables, the means over repeats and the verdict among them.
ANALYSIS = "analysis"
SUMMARY = "summary.csv"
VERDICT = "verdict.json"
#: The pictures, and what they show or why those that are not there are not.
FIGURES = "figures"
REPORT = "report.html"

#: The logs of jobs: a directory for each trial.
LOGS = "logs"
#: What Snakemake said in the last `storewise run`.
RUN_LOG = "logs/run.log"
#: What the rule `publish` leaves: where the results are, and its log.
PUBLISHED = "published.json"
PUBLISH_LOG = "logs/publish.log"
#: Directory with the study's files, made when the results are published.
CONFIG = "config"


def study_name(results: Path) -> str:
    """The study's name: that of its results directory. A symbolic link is not resolved."""
    return os.path.basename(os.path.abspath(results))  # noqa: PTH100, PTH119 - `absolute` keeps ".."
