"""What a real OpenPBS answered, by title (data/openpbs.json)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Answer:
    command: str
    exit_status: int
    stdout: str
    stderr: str


@cache
def answer(title: str) -> Answer:
    path = Path(__file__).with_name("data") / "openpbs.json"
    return Answer(**json.loads(path.read_text(encoding="utf-8"))["answers"][title])
