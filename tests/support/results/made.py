"""Made-up studies that tests only look at, each made and analysed once in a test process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.results import synthetic

from storewise.analysis.pipeline.load import load_results
from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import build_tables


class Made:
    """Studies by the arguments of `synthetic.make_study`; nobody changes one, or its tables."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._studies: dict[str, Path] = {}
        self._tables: dict[str, Tables] = {}

    def study(self, **options: Any) -> Path:
        key = repr(sorted(options.items()))
        if key not in self._studies:
            self._studies[key] = self._top / str(len(self._studies)) / "demo"
            synthetic.make_study(self._studies[key], **options)
        return self._studies[key]

    def tables(self, **options: Any) -> Tables:
        key = repr(sorted(options.items()))
        if key not in self._tables:
            self._tables[key] = build_tables(load_results(self.study(**options)))
        return self._tables[key]
