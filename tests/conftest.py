"""What holds for every test."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
import support.outside  # noqa: F401 (before all that may sleep)
from support.costs import Costs
from support.needs import missing, unavailable
from support.paths import SMALL, TESTS
from support.traces import close_temporary_directory, open_temporary_directory, traces

if TYPE_CHECKING:
    from support.s3.server import Bucket, S3Server


#: Examples of each property: of every day, where everything is required, of `make test-all`.
EXAMPLES = 20
if os.environ.get("STOREWISE_REQUIRE_ALL") == "1":
    EXAMPLES = 100
if os.environ.get("STOREWISE_ALL_CELLS") == "1":
    EXAMPLES = 1000
# Hypothesis would fail an example that takes longer than 200 ms, as on a busy machine.
hypothesis.settings.register_profile(
    "untimed",
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything is required, a skipped test is a failed one, whoever skipped it."""
    report = yield
    if report.skipped and os.environ.get("STOREWISE_REQUIRE_ALL") == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped, but STOREWISE_REQUIRE_ALL=1: {reason}"
    return report


def pytest_configure(config: pytest.Config) -> None:
    """What a shell without job control starts in the background has SIGINT ignored, what nohup
    starts SIGHUP. Programs inherit that, and those that we test shall hear both signals: with a
    handler instead the tests themselves go on as before, and what they start begins as usual."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)
    config.pluginmanager.register(Costs(), "costs")


_BEGAN = pytest.StashKey[float]()
_TEMPORARY = pytest.StashKey[Path]()


def _is_xdist_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ


@pytest.hookimpl(tryfirst=True)  # before xdist starts its workers
def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[_BEGAN] = time.time()
    if not _is_xdist_worker():
        session.config.stash[_TEMPORARY] = open_temporary_directory()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run of the tests that leaves something behind has failed; told once, by the first process
    of all, when the others have ended. A run that a test starts is none of the first: what it
    would find may be in use by the tests beside it."""
    gc.collect()  # DuckDB's directories go with their clients
    if _is_xdist_worker():
        return
    directory = session.config._tmp_path_factory.getbasetemp()
    temporary = session.config.stash[_TEMPORARY]
    left = traces(session.config.stash[_BEGAN], directory, temporary)
    close_temporary_directory(temporary)
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.write_line("")
            terminal.write_line("The tests have left behind: " + "; ".join(left), red=True)


#: Groups and tiers that take longest begin first, so that all processes end at about the same time.
FIRST = (
    "cassandra",
    "hbase",
    "slurm",
    "kills",
    "made studies",
    "faults",
    "plugins",
    "e2e",
    "contract",
    "unit",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each test gets its tier's mark and its group, whose tests follow each other in one process:
    its own, else its file. Cells of `make test-all` alone are no part of other runs (a skip would
    be a failure in CI)."""
    order: dict[pytest.Item, int] = {}
    for item in items:
        # Those of a plugin stand beside it, and have no tier.
        ours = item.path.is_relative_to(TESTS)
        tier = item.path.relative_to(TESTS).parts[0] if ours else "plugins"
        if ours:
            item.add_marker(getattr(pytest.mark, tier))
        if tier == "faults" and not item.get_closest_marker("every_run"):
            item.add_marker(pytest.mark.slow)
        mark = item.get_closest_marker("xdist_group")
        if mark is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(TESTS.parent))))
        group = mark.args[0] if mark is not None else tier
        order[item] = FIRST.index(group if group in FIRST else tier)
    items.sort(key=order.__getitem__)
    if os.environ.get("STOREWISE_ALL_CELLS") != "1":
        left_out = [item for item in items if item.get_closest_marker("all_cells")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test needs and is not here."""
    for mark in item.iter_markers("needs"):
        for thing in mark.args:
            why = missing(thing)
            if why:
                unavailable(why)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a file system of its own size below the test's directory."""
    mounted: list[Path] = []

    def mount(size: str, *options: str) -> Path:
        if os.geteuid() != 0 or shutil.which("mount") is None:
            unavailable("mounting a small file system needs root and the mount command")
        path = tmp_path / f"disk{len(mounted)}"
        path.mkdir()
        text = ",".join((f"size={size}", *options))
        command = ["mount", "-t", "tmpfs", "-o", text, "tmpfs", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            unavailable(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", str(path)], check=True)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One moto server for all tests of this process."""
    from support.s3.server import S3Server  # only where a test asks: it brings boto3

    with S3Server() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A fresh bucket, behind a proxy that spoils what the test asks for; the process's environment
    leads there."""
    from support.s3.faults import Faults
    from support.s3.server import Bucket

    from storewise.s3 import client

    with Faults(s3_server.endpoint) as faults:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
            monkeypatch.delenv(name, raising=False)
        for name, value in faults.environment.items():
            monkeypatch.setenv(name, value)
        client._client.cache_clear()
        yield Bucket(s3_server.client(), s3_server.bucket(), faults)
        client._client.cache_clear()


@pytest.fixture
def s3_corpus(s3: Bucket) -> list[str]:
    """The smallest files of the sample below in/; their URIs in order."""
    return sorted(s3.put(f"in/{path.name}", path.read_bytes()) for path in SMALL)
