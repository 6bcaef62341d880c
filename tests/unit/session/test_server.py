"""Addresses of interfaces, and credentials that nobody else reads."""

import pytest

from storewise.engines.contract.server import Credentials
from storewise.errors import ConfigError
from storewise.session.server.address import address_of, addresses, port_range


def test_the_address_of_an_interface():
    assert address_of("lo") == "127.0.0.1"
    for name, address in addresses().items():
        assert address_of(name) in {address, "127.0.0.1"}
    assert address_of("127.0.0.0/8") == "127.0.0.1"
    with pytest.raises(ConfigError, match=r"no 'ib7'; it has: .*lo \(127.0.0.1\)"):
        address_of("ib7")
    with pytest.raises(ConfigError, match="not a network"):
        address_of("10.0.0.0/99")


def test_credentials_are_private_and_never_shown(tmp_path):
    made = Credentials.make()
    made.write(tmp_path / "secret.json")
    assert (tmp_path / "secret.json").stat().st_mode & 0o777 == 0o600
    assert Credentials.read(tmp_path / "secret.json") == made
    assert made.password not in repr(made) and made.key not in repr(made)
    assert Credentials.make() != made
    with pytest.raises(FileExistsError):
        made.write(tmp_path / "secret.json")


def test_ports_of_a_profile():
    assert port_range("2000-2002") == range(2000, 2003)
    assert port_range("2000") == range(2000, 2001)
    for bad in ("x", "5-6", "3000-2000", "70000", "1-"):
        with pytest.raises(ConfigError, match="ports"):
            port_range(bad)
