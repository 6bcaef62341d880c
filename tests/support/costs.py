"""What the tests cost: the slowest of a run, and the seconds of each folder.

A test that takes more than :data:`LONG` seconds says why, ``@pytest.mark.long("why", limit=600)``;
its time limit is then `limit` seconds instead of pytest's `timeout`. Where every test must run
(``STOREWISE_REQUIRE_ALL=1``) a long test without a reason fails the run.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import PurePath
from typing import Any

import pytest

#: Seconds by the clock that a test may take without a reason, its fixtures included, on an idle
#: machine; on a busy one as many times more as its load is above its number of cores.
LONG = 60
SLOWEST = 20

_began = pytest.StashKey[tuple[float, float]]()


def _cpu() -> float:
    """CPU seconds of this process and of those of its children that have ended."""
    return sum(os.times()[:4])


def _busy() -> float:
    """How many times longer than on an idle machine a test may take on this one now."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


class Costs:
    """A plugin of pytest; with xdist each process measures, and the first one tells."""

    def __init__(self) -> None:
        self.tests: dict[str, tuple[float, float]] = {}
        self.too_long: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            mark = item.get_closest_marker("long")
            if mark is not None:
                item.add_marker(pytest.mark.timeout(mark.kwargs["limit"]))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        item.stash[_began] = (time.monotonic(), _cpu())
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            wall, cpu = item.stash[_began]
            seconds = time.monotonic() - wall
            explained = item.get_closest_marker("long") is not None
            too_long = seconds > LONG * _busy() and not explained
            report.user_properties.append(("cost", (seconds, _cpu() - cpu, too_long)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "cost" and report.when == "teardown":
                wall, cpu, too_long = value
                test = report.nodeid.partition("@")[0]  # xdist adds the group
                self.tests[test] = (wall, cpu)
                if too_long:
                    self.too_long.append(test)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if "PYTEST_XDIST_WORKER" in os.environ or os.environ.get("STOREWISE_REQUIRE_ALL") != "1":
            return
        if self.too_long:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.tests) <= SLOWEST:
            return
        terminalreporter.section("costs: seconds by the clock, CPU seconds")
        folders: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for test, cost in self.tests.items():
            folders["/".join(PurePath(test.partition("::")[0]).parts[:3])].append(cost)
        for folder, costs in sorted(folders.items()):
            walls, cpus = zip(*costs, strict=True)
            terminalreporter.write_line(
                f"{sum(walls):8.1f} {sum(cpus):8.1f}  {folder} ({len(costs)} tests)"
            )
        slowest = sorted(self.tests.items(), key=lambda entry: -entry[1][0])[:SLOWEST]
        for test, (wall, cpu) in slowest:
            terminalreporter.write_line(f"{wall:8.1f} {cpu:8.1f}  {test}")
        for test in self.too_long:
            terminalreporter.write_line(
                f"longer than {LONG} s, without a reason (@pytest.mark.long): {test}", red=True
            )
