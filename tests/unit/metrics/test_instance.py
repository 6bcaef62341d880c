"""EC2 instance metadata: where it is asked, and when it is not."""

import pytest

from storewise.metrics import ec2_instance as module
from storewise.metrics.ec2_instance import InterruptionWatch, Metadata, instance
from storewise.metrics.host import facts


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """No setting of the environment, and firmware that the test writes."""
    for name in ("AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "DMI", tmp_path)
    monkeypatch.setattr(module, "HYPERVISOR", tmp_path / "uuid")
    instance.cache_clear()
    yield tmp_path
    instance.cache_clear()


def test_elsewhere_nothing_is_asked(bare, monkeypatch):
    monkeypatch.setattr(Metadata, "_request", lambda *_: pytest.fail("asked"))
    assert instance() is None
    assert "instance" not in facts()
    (bare / "sys_vendor").write_text("QEMU\n")
    (bare / "product_uuid").write_text("4c4c4544-0042\n")
    assert not module.on_ec2()
    assert InterruptionWatch(every=0.0).reason() is None


@pytest.mark.parametrize(
    ("name", "text"),
    [("sys_vendor", "Amazon EC2\n"), ("product_uuid", "EC2E1916-9099\n"), ("uuid", "ec2e1916\n")],
)
def test_firmware_tells_an_instance(bare, name, text, monkeypatch):
    (bare / name).write_text(text)
    assert module.on_ec2()
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "TRUE")
    assert not module.on_ec2() and instance() is None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ("169.254.169.254", 80)),
        ({"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv6"}, ("fd00:ec2::254", 80)),
        ({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[::1]:1338/"}, ("::1", 1338)),
    ],
)
def test_where_the_service_is_asked_whatever_proxy_there_is(
    bare, monkeypatch, environment, expected
):
    request = []

    def refused(address, *_, **__):
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
    bare, monkeypatch, caplog, endpoint
):
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint)
    assert instance() is None
    assert f"{endpoint}/latest/api/token" in caplog.text
