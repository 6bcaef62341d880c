"""EC2 instance metadata: what an instance says of itself, and that it is taken back."""

import json
import time
from datetime import UTC, datetime

import pytest
from support.fake_time import FakeTime
from support.s3.instance_metadata import ImdsServer

from storewise.metrics import ec2_instance as module
from storewise.metrics.ec2_instance import (
    Interruption,
    InterruptionWatch,
    Metadata,
    MetadataError,
    instance,
)
from storewise.metrics.host import facts, host_name

AT = "2026-03-01T08:22:00Z"


@pytest.fixture
def imds(monkeypatch):
    with ImdsServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        instance.cache_clear()
        yield server
    instance.cache_clear()


def test_an_instance_is_part_of_the_facts_of_its_host(imds):
    imds.life_cycle = "spot"
    result = json.loads(json.dumps(facts()["instance"]))
    assert result == {
        "type": "i4i.2xlarge",
        "zone": "eu-central-1b",
        "region": "eu-central-1",
        "image": "ami-0abcdef1234567890",
        "life_cycle": "spot",
    }
    assert imds.requests[0] == ("PUT", "/latest/api/token")
    request = len(imds.requests)
    assert facts()["instance"] == result
    assert len(imds.requests) == request, "asked once in a process"


def test_a_service_that_does_not_answer_leaves_the_instance_unknown(imds, caplog):
    imds.failing = 503
    with pytest.raises(MetadataError, match=r"127.0.0.1.*document: status 503"):
        Metadata().instance()
    assert "instance" not in facts()
    assert "status 503" in caplog.text
    assert "token-" not in caplog.text, "tokens are secrets"
    imds.failing, imds.document = None, "<html>"
    with pytest.raises(MetadataError, match="document: no object with instanceType"):
        Metadata().instance()


def test_what_answers_with_a_page_is_no_metadata_service(imds):
    page = "<html>\n" + "sign in " * 100_000
    imds.page = page
    with pytest.raises(MetadataError) as error:
        Metadata().instance()
    assert str(error.value).endswith("no token of IMDSv2 (status 200)")
    assert all(method == "PUT" for method, _ in imds.requests), "what came is sent nowhere"


def test_no_service_at_all_is_a_sentence(monkeypatch):
    with ImdsServer() as server:
        endpoint = server.endpoint
    with pytest.raises(MetadataError, match=r"127.0.0.1.*[Rr]efused"):
        Metadata(endpoint).instance()


def test_an_expired_token_is_asked_for_anew(imds):
    client = Metadata()
    assert client.interruption() is None
    imds.forget()
    imds.take_back(AT)
    notice = client.interruption()
    assert notice is not None
    assert (notice.action, notice.time) == ("terminate", AT)


def test_only_spot_instances_look_for_an_interruption(imds):
    imds.take_back(AT)
    assert InterruptionWatch(every=0.0).reason() is None
    imds.life_cycle = "spot"
    instance.cache_clear()
    watch = InterruptionWatch(every=0.0)
    expected = f"EC2 takes back host {host_name()} (spot interruption at {AT})"
    assert watch.reason() == expected
    assert watch.at == datetime(2026, 3, 1, 8, 22, tzinfo=UTC).timestamp()
    imds.failing = 500
    assert watch.reason() is None, "no answer is no interruption"
    imds.failing, imds.spot_action = None, "soon"
    assert watch.reason() is None
    own_time = FakeTime()
    seldom = InterruptionWatch(every=3600.0, clock=own_time.clock)
    assert seldom.reason() is None
    imds.take_back(AT)
    own_time.spend(3599.0)
    assert seldom.reason() is None, "not before its time"
    own_time.spend(1.0)
    assert seldom.reason() == expected
    assert Interruption("stop", "soon").at == 0.0
    assert (
        Interruption("stop", "2999-01-01T00:00:00Z").at <= time.time() + module.MAX_NOTICE_SECONDS
    )
