"""What a real OpenPBS answered (tests/data/openpbs): words, formats and exit statuses, for the
stand-ins and for tests of what reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from support.paths import DATA

OPENPBS = DATA / "openpbs"
#: The comment of a job that waits for its turn.
WAITS = "Not Running: Not enough free nodes available"
VERSION = "23.06.06"


@dataclass(frozen=True)
class Answer:
    """One command and what came of it."""

    title: str
    command: str
    exit_status: int
    stdout: str
    stderr: str
    seconds: float

    def line(self, **new: str) -> str:
        """The first line on stderr, with words of it replaced (`id` is the job's)."""
        line = self.stderr.splitlines()[0]
        if "id" in new:
            line = re.sub(r"\b\d+\.login\b", new["id"], line)
        return line


@cache
def answers(name: str) -> dict[str, Answer]:
    """All recorded answers of a file, by title."""
    recorded = json.loads((OPENPBS / f"{name}.json").read_text(encoding="utf-8"))
    assert VERSION in recorded["program"]
    return {one["title"]: Answer(**one) for one in recorded["answers"]}


def states_of(text: str) -> dict[str, dict[str, str]]:
    """The attributes of each job in a text of ``qstat -f``, whole lines only."""
    return {
        job_id: dict(re.findall(r"^    (\S+) = (.*)$", part, re.MULTILINE))
        for job_id, part in _split(text).items()
    }


@cache
def blocks() -> dict[str, str]:
    """What ``qstat -f`` printed of one job each: running, held, waiting, finished with 0, with
    another status, after a delete, and deleted before its start."""
    history = answers("history")
    many = _split(
        history["history on: jobs that run, ended, failed, were killed by a signal, wait"].stdout
    )
    return {
        "R": many["1.login"],
        "E": many["1.login"],
        "Q": many["7.login"],
        "F": many["4.login"],
        "H": _split(history["history on: held"].stdout)["7.login"],
        "deleted": _split(history["history on: deleted before it started"].stdout)["7.login"],
    }


def _split(text: str) -> dict[str, str]:
    parts = re.split(r"^(?=Job Id: )", text, flags=re.MULTILINE)
    return {part.split("\n", 1)[0].removeprefix("Job Id: "): part for part in parts if part}


def block(job: Mapping[str, Any]) -> str:
    """``qstat -f`` of a job of the stand-in, as it was recorded of a job in that state."""
    letter = job["state"]
    ran = bool(job["host"])
    text = blocks()["deleted" if letter == "F" and not ran else letter].replace("\n\t", "")
    new = {"Job_Name": job["name"], "job_state": letter, "queue": job["queue"]}
    if letter == "F" and ran:
        new["Exit_status"] = "" if job["exit"] is None else str(job["exit"])
    if ran:
        new["exec_host"] = f"{job['host']}/0"
    if not ran:
        # As recorded, it could never run.
        new["comment"] = WAITS
    text = re.sub(r"^Job Id: .*", lambda _: f"Job Id: {job['id']}", text)
    for key, value in new.items():
        text, count = re.subn(
            rf"^    {key} = .*",
            lambda _, k=key, v=value: f"    {k} = {v}",
            text,
            flags=re.MULTILINE,
        )
        assert count == 1, key
    return text.replace("    Exit_status = \n", "")


def table(rows: list[Mapping[str, Any]]) -> str:
    """``qstat`` without -f: the recorded head, and a row for each job."""
    head = answers("history")["history on: short table with finished jobs"].stdout
    lines = head.splitlines(keepends=True)[:2]
    for job in rows:
        used = "0" if job["state"] in "QH" else "00:00:00"
        lines.append(
            f"{job['id']:<17.17} {job['name']:<16.16} {'user':<16} {used:>9} {job['state']} "
            f"{job['queue']:<16}\n"
        )
    return "".join(lines) if rows else ""
