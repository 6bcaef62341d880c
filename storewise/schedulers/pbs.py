"""Reports of snakemake-executor-plugin-pbs about a run's jobs, and its settings in the profile.

A report is a dict on Snakemake's log records, described in the plugin's module `events`. It is read
without the plugin: Storewise also runs where that is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storewise.errors import ConfigError

Report = Mapping[str, str]
#: With these words begin the plugin's lines that a waiting user should see: why a job does not
#: start, that the server does not answer.
NOTICE = "PBS "


def report_of(record: Mapping[str, Any]) -> Report:
    """The report on a log record, or on a job's part of a group's record; else empty."""
    return record.get("pbs") or (record.get("aux") or {}).get("pbs") or {}


def refusal(report: Report) -> str:
    """Why PBS refused a job; empty where it did not."""
    return report["message"] if report.get("event") == "refused" else ""


def cause(report: Report) -> str:
    """Why PBS ended a job; empty where the job ended by itself."""
    if report.get("event") != "failed" or report["cause"] == "exit":
        return ""
    return f"PBS says: {report['reason'].removeprefix('was ended by PBS: ')}"


def parse_selects(text: str) -> dict[str, str]:
    """Further terms of ``-l select`` by class of hosts: ``CLASS=WORDS`` with commas between
    them, such as ``data=host_type=small, large=host_type=big:ngpus=0``.

    Raises ConfigError that names the part of the text that cannot be read.
    """
    selects = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, words = (part.strip() for part in entry.partition("="))
        if not name or not words or " " in words:
            raise ConfigError(
                f"node_selects of the profile: {entry!r} cannot be read; expected CLASS=WORDS of "
                "-l select, such as large=host_type=big"
            )
        selects[name] = words
    return selects
