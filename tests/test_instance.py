"""EC2 instance metadata: what an instance says of itself, and that it is taken back."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fake_time import FakeTime
from imds_server import ImdsServer

from storewise import runner
from storewise.config import load_study
from storewise.metrics import instance as module
from storewise.metrics.host import facts, host_name
from storewise.metrics.instance import Interruption, Metadata, MetadataError, Notice, instance
from storewise.session.job import trial_job
from storewise.session.live import ABORT, LEASES, LIVE, SESSION, Session, read_abort
from storewise.session.run import Failure

AT = "2026-03-01T08:22:00Z"


@pytest.fixture
def imds(monkeypatch: pytest.MonkeyPatch) -> Iterator[ImdsServer]:
    with ImdsServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        instance.cache_clear()
        yield server
    instance.cache_clear()


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


def test_an_instance_is_part_of_the_facts_of_its_host(imds: ImdsServer) -> None:
    imds.life_cycle = "spot"
    found = json.loads(json.dumps(facts()["instance"]))
    assert found == {
        "type": "i4i.2xlarge",
        "zone": "eu-central-1b",
        "region": "eu-central-1",
        "image": "ami-0abcdef1234567890",
        "life_cycle": "spot",
    }
    assert imds.requests[0] == ("PUT", "/latest/api/token")
    asked = len(imds.requests)
    assert facts()["instance"] == found
    assert len(imds.requests) == asked, "asked once in a process"


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


def test_a_service_that_does_not_answer_leaves_the_instance_unknown(
    imds: ImdsServer, caplog: pytest.LogCaptureFixture
) -> None:
    imds.failing = 503
    with pytest.raises(MetadataError, match=r"127.0.0.1.*document: status 503"):
        Metadata().instance()
    assert "instance" not in facts()
    assert "status 503" in caplog.text
    assert "token-" not in caplog.text, "tokens are secrets"
    imds.failing, imds.document = None, "<html>"
    with pytest.raises(MetadataError, match="no instance identity document"):
        Metadata().instance()


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
    asked: list[object] = []

    def refused(address: object, *_: object, **__: object) -> None:
        asked.append(address)
        raise ConnectionRefusedError(111, "refused")

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("socket.create_connection", refused)
    (bare / "sys_vendor").write_text("Amazon EC2\n")
    assert instance() is None
    assert asked == [expected]


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


def test_what_answers_with_a_page_is_no_metadata_service(imds: ImdsServer) -> None:
    page = "<html>\n" + "sign in " * 100_000
    imds.page = page
    with pytest.raises(MetadataError) as error:
        Metadata().instance()
    assert str(error.value).endswith("version 2 (status 200)")
    assert all(method == "PUT" for method, _ in imds.requests), "what came is sent nowhere"


def test_no_service_at_all_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with ImdsServer() as server:
        endpoint = server.endpoint
    with pytest.raises(MetadataError, match=r"127.0.0.1.*[Rr]efused"):
        Metadata(endpoint).instance()


def test_an_expired_token_is_asked_for_anew(imds: ImdsServer) -> None:
    client = Metadata()
    assert client.spot_action() is None
    imds.forget()
    imds.take_back(AT)
    notice = client.spot_action()
    assert notice is not None
    assert (notice.action, notice.time) == ("terminate", AT)


def test_only_spot_instances_look_for_an_interruption(imds: ImdsServer) -> None:
    imds.take_back(AT)
    assert Interruption(every=0.0).reason() is None
    imds.life_cycle = "spot"
    instance.cache_clear()
    watch = Interruption(every=0.0)
    expected = f"EC2 takes back host {host_name()} (spot interruption at {AT})"
    assert watch.reason() == expected
    assert watch.at == datetime(2026, 3, 1, 8, 22, tzinfo=UTC).timestamp()
    imds.failing = 500
    assert watch.reason() is None, "no answer is no interruption"
    imds.failing, imds.spot_action = None, "soon"
    assert watch.reason() is None
    own_time = FakeTime()
    seldom = Interruption(every=3600.0, clock=own_time.clock)
    assert seldom.reason() is None
    imds.take_back(AT)
    own_time.spend(3599.0)
    assert seldom.reason() is None, "not before its time"
    own_time.spend(1.0)
    assert seldom.reason() == expected
    assert Notice("stop", "soon").at == 0.0
    assert Notice("stop", "2999-01-01T00:00:00Z").at <= time.time() + module.FARTHEST


def test_a_notice_ends_the_trial_as_a_failed_attempt(imds: ImdsServer, tmp_path: Path) -> None:
    imds.life_cycle = "spot"
    session = Session("t", "run", 60.0, 0.0)
    live = tmp_path / LIVE / "t"
    live.mkdir(parents=True)
    (tmp_path / LEASES).mkdir()
    (tmp_path / LEASES / "run").touch()
    session.write(live)
    log = tmp_path / "write.0.log"
    before = signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises(SystemExit, match="EC2 takes back host"),
        trial_job(tmp_path, live / SESSION, "write.0", log) as job,
    ):
        imds.take_back(AT)
        job.check()
    assert signal.getsignal(signal.SIGTERM) is before
    why = read_abort(live / ABORT)
    assert why.reason == f"EC2 takes back host {host_name()} (spot interruption at {AT})"
    assert why.own, "a failed attempt, which is tried again"
    assert why.until == datetime(2026, 3, 1, 8, 22, tzinfo=UTC).timestamp()
    assert "EC2 takes back host" in log.read_text()


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

    def failing(_: object) -> int:
        own_time.spend(10.0)
        passes.append(own_time.now)
        told = Failure(trial.id, "taken back", "", "r", own_time.now, own_time.now + 119.5)
        with (failures / f"{trial.id}.jsonl").open("a") as file:
            file.write(json.dumps(asdict(told)) + "\n")
        return 1

    def sleep(seconds: float) -> None:
        if len(passes) == 2:
            raise KeyboardInterrupt
        own_time.sleep(seconds)

    monkeypatch.setattr(runner, "_snakemake", failing)
    said: list[str] = []
    options = {
        "profile": None,
        "scale": None,
        "cores": None,
        "retry_failed": False,
        "extra": (),
        "many": False,
        "clock": own_time.clock,
        "sleep": sleep,
    }
    assert runner.run_study("s.yaml", say=said.append, **options) == 130  # type: ignore[arg-type]
    assert passes == [1010.0, 1010.0 + 119.5 + 10.0], "as soon as the host is gone, not before"
    assert own_time.sleeps == [1.0] * 119 + [0.5]
    assert len(said) == 4
    assert said[1] == "waiting 120 s, until the host that is taken back is gone"
