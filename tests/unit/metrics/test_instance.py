"""EC2 instance metadata: where it is asked, and when it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from support.fake_time import FakeTime

from storewise.metrics import ec2_instance as module
from storewise.metrics.ec2_instance import Interruption, Metadata, instance
from storewise.metrics.host import facts
from storewise.run import runner
from storewise.run.live_view import view_of
from storewise.session.coordination.run import Failure
from storewise.study.load import load_study


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """No setting of the environment, and firmware that the test writes."""
    for name in ("AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "DMI", tmp_path)
    monkeypatch.setattr(module, "HYPERVISOR", tmp_path / "uuid")
    instance.cache_clear()
    yield tmp_path
    instance.cache_clear()


def test_elsewhere_nothing_is_asked(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> tuple[int, str]:
        raise AssertionError("asked")

    monkeypatch.setattr(Metadata, "_ask", never)
    assert instance() is None
    assert "instance" not in facts()
    (bare / "sys_vendor").write_text("QEMU\n")
    (bare / "product_uuid").write_text("4c4c4544-0042\n")
    assert not module.on_ec2()
    assert Interruption(every=0.0).reason() is None


@pytest.mark.parametrize(
    ("name", "text"),
    [("sys_vendor", "Amazon EC2\n"), ("product_uuid", "EC2E1916-9099\n"), ("uuid", "ec2e1916\n")],
)
def test_firmware_tells_an_instance(
    bare: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare / name).write_text(text)
    assert module.on_ec2()
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "TRUE")
    assert not module.on_ec2()
    assert instance() is None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ("169.254.169.254", 80)),
        ({"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv6"}, ("fd00:ec2::254", 80)),
        ({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[::1]:1338/"}, ("::1", 1338)),
    ],
)
def test_where_the_service_is_asked_whatever_proxy_there_is(
    bare: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    expected: tuple[str, int],
) -> None:
    request: list[object] = []

    def refused(address: object, *_: object, **__: object) -> None:
        request.append(address)
        raise ConnectionRefusedError(111, "refused")

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("socket.create_connection", refused)
    (bare / "sys_vendor").write_text("Amazon EC2\n")
    assert instance() is None
    assert request == [expected]


@pytest.mark.parametrize(
    "endpoint", ["127.0.0.1:1338", "http://", "http://[::1", "http://h:port", "https://127.0.0.1"]
)
def test_an_endpoint_that_is_none_is_a_sentence_and_no_end_of_a_trial(
    bare: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    endpoint: str,
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint)
    assert instance() is None
    assert f"{endpoint}/latest/api/token" in caplog.text


def test_the_next_attempt_waits_for_the_end_of_the_host_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(
        "workload: ycsb\nengines: [sqlite]\nphases: [load]\nretries: 9\n"
    )
    (trial,) = load_study("s.yaml").trials()
    failures = tmp_path / "results" / "s" / "failures"
    failures.mkdir(parents=True)
    passes: list[float] = []
    own_time = FakeTime()

    def failing(*_: object) -> int:
        own_time.spend(10.0)
        passes.append(own_time.now)
        message = Failure(trial.id, "taken back", "", "r", own_time.now, own_time.now + 119.5)
        with (failures / f"{trial.id}.jsonl").open("a") as file:
            file.write(json.dumps(asdict(message)) + "\n")
        return 1

    def sleep(seconds: float) -> None:
        if len(passes) == 2:
            raise KeyboardInterrupt
        own_time.sleep(seconds)

    monkeypatch.setattr(runner, "_snakemake", failing)
    output: list[str] = []
    with view_of(output.append) as view:
        status = runner.run_study(runner.Request("s.yaml"), view, clock=own_time.clock, sleep=sleep)
    assert status == 130
    assert passes == [1010.0, 1010.0 + 119.5 + 10.0], "as soon as the host is gone, not before"
    assert own_time.sleeps == [1.0] * 119 + [0.5]
    assert len(output) == 5
    assert output[-1] == "stopped: 0 of 1 trials kept; run again to go on"
    assert output[1] == "waiting 120 s, until the host that is taken back is gone"
