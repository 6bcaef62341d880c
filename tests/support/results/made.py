"""Made-up studies that tests only look at, each made and analysed once in a test process.

A test file that uses them has the mark of :data:`GROUP`, so that all such files run in one process.
"""

from dataclasses import replace

import pytest
from support.results import synthetic

from storewise.analysis.pipeline.build import judge, measured_tables
from storewise.analysis.pipeline.load import load_results

GROUP = pytest.mark.xdist_group("made studies")
#: The smallest study.
ONE = {"engines": ["sqlite"], "workers": [1], "repeats": 1}
#: Everything that most tests look at: the ceiling, an embedded store, one with servers, and as many
#: levels of workers as the law of scaling needs.
SCALED = {
    "engines": ["null", "sqlite", "postgres"],
    "workers": [1, 2, 4, 6, 8],
    "nodes": [1, 2],
    # Loads of a few seconds.
    "scale": 3.0,
}


class Made:
    """Studies by the arguments of `synthetic.make_study`; nobody changes one, or its tables."""

    def __init__(self, top):
        self._top = top
        self._known = {}

    def study(self, **options):
        def make():
            place = self._top / str(len(self._known)) / "demo"
            synthetic.make_study(place, **options)
            return place

        return self._once("study", options, make)

    def measured(self, **options):
        """The tables without those of the judges."""
        study = self.study(**options)
        return self._once("measured", options, lambda: measured_tables(load_results(study)))

    def tables(self, **options):
        return self._once("tables", options, lambda: judge(self.measured(**options)))

    def _once(self, what, options, make):
        key = (what, repr(sorted(options.items())))
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


#: By the directory of the session: tiers share them, whose fixtures are not the same.
_MADE = {}


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Fixtures for tests that read simulated studies."""
    top = tmp_path_factory.getbasetemp()
    if top not in _MADE:
        _MADE[top] = Made(tmp_path_factory.mktemp("made"))
    return _MADE[top]


def only(tables, **levels):
    """The tables with these levels of factors alone: of the trials and of what is over repeats."""

    def of(table):
        for name, level in levels.items():
            if name in table:
                wanted = level if isinstance(level, list) else [level]
                table = table[table[name].isin(wanted)]
        return table

    results = replace(tables.results, trials=of(tables.results.trials))
    judged = {name: of(table) for name, table in tables.judged.items()}
    shown = {"trials": results.trials, "summary": of(tables.summary)}
    return replace(tables, results=results, judged=judged, **shown)


def with_study(tables, **keys):
    """The tables of a study with other keys; None takes one away."""
    study = {**tables.results.study, **keys}
    study = {name: value for name, value in study.items() if value is not None}
    return replace(tables, results=replace(tables.results, study=study))
