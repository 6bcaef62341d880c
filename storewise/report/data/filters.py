"""What a reader of the page can choose by: engines, phases, and every factor that varied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.common.frames import missing
from storewise.analysis.common.text import level
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import engines_in
from storewise.figures.style import page_colour
from storewise.report.data.evidence import Evidence


class Facets:
    """The choices of a study, and which of them a row or line belongs to."""

    def __init__(self, tables: Tables, evidence: Evidence) -> None:
        self._evidence = evidence
        trials = tables.trials
        engines = engines_in(trials) if "engine" in trials else []
        choices: dict[str, list[Any]] = {
            "engine": engines,
            "phase": tables.phases_of(tables.rates),
        }
        for name in varying_factors(trials, tables.results.factors):
            choices[name] = sorted(
                trials[name].dropna().unique(), key=lambda v: (isinstance(v, str), v)
            )
        self.names = [name for name, levels in choices.items() if levels]
        self._levels = {name: choices[name] for name in self.names}
        self._place = {
            name: {level(value): place for place, value in enumerate(levels)}
            for name, levels in self._levels.items()
        }

    def of(self, record: Mapping[str, Any]) -> list[int]:
        """The place of a row's level in each choice; -1 where the choice does not concern it."""
        row: Mapping[str, Any] = record
        if "trial" in record:
            row = {**self._evidence.trial(str(record["trial"])), **record}
        return [
            -1 if missing(row.get(name)) else self._place[name].get(level(row[name]), -1)
            for name in self.names
        ]

    def payload(self) -> list[dict[str, Any]]:
        """Name, heading and levels of each choice; of engines with their colours and markers."""
        return [
            {
                "name": name,
                "heading": name.replace("_", " ").capitalize(),
                "levels": [
                    title(str(value)) if name == "engine" else level(value)
                    for value in self._levels[name]
                ],
                "colours": [page_colour(str(v)) for v in self._levels[name] if name == "engine"],
            }
            for name in self.names
        ]
