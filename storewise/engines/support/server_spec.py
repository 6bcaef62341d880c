"""Servers described by files: ``server.yaml`` and templates in a store's folder.

``server.yaml`` defines a server's programs and where to search for them, how each role is started
and stopped, the meaning of each consistency level, and the authentication of its ports.
``NAME.j2`` is the Jinja2 template of the server's file ``NAME``, with the variables `node`,
`settings`, `level` (the options of the consistency level) and `product` (``MariaDB``). Everything
else is a method of the engine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from signal import Signals
from typing import Any, ClassVar

import yaml
from pydantic import BaseModel, ConfigDict, field_validator
from pydantic import Field as Setting

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import (
    Installation,
    Launch,
    Node,
    NodeSpec,
    ServerEngine,
    ServerSettings,
    Topology,
)
from storewise.engines.support.installation import (
    environment_of,
    output_of,
    own_store,
    place_of,
    usual_places,
)
from storewise.engines.support.java import find_java
from storewise.engines.support.servers import resource
from storewise.errors import EngineError

#: The parser in C takes a thirtieth of the time; wheels of PyYAML have it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class VersionSpec(_Part):
    """The command that prints a server's version, and the supported versions."""

    command: tuple[str, ...]
    """A program, as `ServerSpec.programs` calls it, and its arguments."""
    pattern: str
    """Regular expression for its first line, with the group ``number``, and ``product`` if there
    are several; the default product is the last of `oldest`."""
    oldest: Mapping[str, str]
    """Product (MariaDB, MySQL) -> its oldest supported version."""


class JarSpec(_Part):
    """The jar that tells the version of a server in Java, and the supported versions."""

    pattern: str
    """Regular expression for the name of a jar, whose first group is the version."""
    java: Mapping[str, tuple[int, ...]]
    """Series (2.6) -> the versions of Java that it runs with."""
    options_from_java_11: tuple[str, ...] = ()
    """Options that Java 8 does not know: modules to open."""


class LevelSpec(_Part):
    """A consistency level."""

    meaning: str
    """What has happened when a write is acknowledged, in the server's own terms."""
    may_lose: str | None = None
    """Which acknowledged documents may be lost; None: none, and then a loss fails the trial."""
    server: Mapping[str, str | int] = {}
    """Options of the server at this level."""
    driver: Mapping[str, Any] = {}
    """Options of the driver."""


class PortSpec(_Part):
    """A further port of a server, beside the one for clients."""

    guard: str
    """Its authentication, as in `ServerEngine.guard`."""
    strangers_can: str = ""
    """What anyone who reaches this port can do, if it needs no password."""
    clusters_only: bool = False
    """A standalone server does not open it."""


class RoleSpec(_Part):
    """How to start and stop a server of one role. As in `Launch`, commands and environment are
    templates."""

    command: tuple[str, ...]
    """A program, as `ServerSpec.programs` calls it, and its arguments. It runs in the node's
    directory."""
    files: tuple[str, ...]
    """Files of the node's directory; the text of NAME comes from ``NAME.j2``."""
    directories: tuple[str, ...] = ()
    steps: Mapping[str, tuple[tuple[str, ...], ...]] = {}
    """Product (`VersionSpec.oldest`) -> commands to run to their end first."""
    cleanup: tuple[tuple[str, ...], ...] = ()
    environment: Mapping[str, str] = {}
    remove_when_ready: tuple[str, ...] = ()
    refuses_root: bool = False
    stop_signal: str = "SIGTERM"
    stop_seconds: float = 30.0
    ports: Mapping[str, PortSpec] = {}
    strangers_can: str = ""
    """What anyone who reaches the port for clients can do, if it needs no password."""


class ServerSpec(_Part):
    """The content of a store's ``server.yaml``."""

    package: str
    title: str
    guard: str
    programs: Mapping[str, tuple[str, ...]]
    """Program -> its names, of which the first one that is found is taken."""
    optional_programs: tuple[str, ...] = ()
    """Programs that not every cluster needs."""
    programs_of_product: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    """Product -> programs that only this one needs, as `programs`."""
    version: VersionSpec | None = None
    jar: JarSpec | None = None
    """Replaces `version` for a server in Java, whose programs are ``java`` and ``jars``."""
    variables: tuple[str, ...]
    """Environment variables that name the directory of the programs; the first that is set."""
    usual_places: tuple[str, ...] = ()
    """Further directories to look in, after the PATH (globs)."""
    install_hint: str
    consistency: Mapping[str, LevelSpec]
    consistency_aliases: Mapping[str, str]
    forbidden: tuple[str, ...] = ()
    """Prefixes of server options that a study's `config` must not contain: they would open a port,
    weaken access control, or load code."""
    option_prefixes: tuple[str, ...] = ()
    """Prefixes that do not change which option is meant (``loose-``)."""
    takes_short_options: bool = False
    """The server accepts abbreviated names of options."""
    roles: Mapping[str, RoleSpec]

    @classmethod
    def read(cls, package: str) -> ServerSpec:
        """The ``server.yaml`` beside the modules of a package."""
        text = resource(package, "server.yaml")
        return cls(package=package, **yaml.load(text, Loader=_LOADER))

    def find(self, name: str, settings: Mapping[str, Any]) -> Installation:
        """The programs on this host; EngineError with where it looked, and for other versions.

        They are looked for in ``settings["home"]``, else in the directory that one of `variables`
        names, else (without ``settings["module"]``) where `storewise install` put the store `name`,
        else on the PATH (after loading that module) and in `usual_places`. What is installed for
        Storewise is taken whole: a server of one version and a tool of another would not fit.
        """
        environment = environment_of(settings)
        known, installed = {**os.environ, **environment}, own_store(name)
        home = settings.get("home") or next(filter(None, map(known.get, self.variables)), None)
        if not home and installed.is_dir() and not settings.get("module"):
            home = str(installed)
        if home:
            looked, places = f"in {home}", [place_of(home)]
        else:
            variables = (f"in ${variable}" for variable in self.variables)
            looked = ", ".join(("on PATH", *variables, str(installed), *self.usual_places))
            on_path = map(Path, known.get("PATH", os.defpath).split(os.pathsep))
            places = [*on_path, *usual_places(self.usual_places)]
        missing = f"(looked {looked}); {self.install_hint}"
        if self.jar is not None:
            programs, version = self._find_jars(self.jar, places, missing, settings)
        else:
            assert self.version is not None
            programs, version = self._find_programs(self.version, places, missing, environment)
        return Installation(programs, version, environment)

    def _find_programs(
        self,
        version: VersionSpec,
        places: Sequence[Path],
        missing: str,
        environment: Mapping[str, str],
    ) -> tuple[dict[str, Path], str]:
        """Programs in these places or their ``bin/``, ``sbin/`` and ``libexec/``."""
        parts = ("", "bin", "sbin", "libexec")
        searched = os.pathsep.join(str(place / part) for place in places for part in parts)

        def look_up(programs: Mapping[str, Sequence[str]]) -> dict[str, Path]:
            found = {}
            for program, names in programs.items():
                paths = filter(None, (shutil.which(name, path=searched) for name in names))
                if (path := next(paths, None)) is not None:
                    found[program] = Path(path)
                elif program not in self.optional_programs:
                    raise EngineError(f"{self.title}: no {' or '.join(names)} {missing}")
            return found

        programs = look_up(self.programs)
        program, *arguments = version.command
        text = output_of(self.title, (str(programs[program]), *arguments), environment)
        match = re.search(version.pattern, text)
        if match is None:
            raise EngineError(f"{programs[program]} prints no version: {text!r}")
        product = match.groupdict().get("product") or list(version.oldest)[-1]
        number, oldest = match["number"], version.oldest[product]
        if _numbers(number) < _numbers(oldest):
            raise EngineError(
                f"{programs[program]} is {product} {number}; {oldest} or newer is needed; "
                f"{self.install_hint}"
            )
        return programs | look_up(self.programs_of_product.get(product, {})), f"{product} {number}"

    def _find_jars(
        self, jar: JarSpec, places: Sequence[Path], missing: str, settings: Mapping[str, Any]
    ) -> tuple[dict[str, Path], str]:
        """The directory that was named (``home``), that of the jars (``jars``), it or its ``lib/``,
        and a Java (``java``) that fits the version in the name of the jar."""
        for home in places:
            for path in sorted([*(home / "lib").glob("*.jar"), *home.glob("*.jar")]):
                if (match := re.fullmatch(jar.pattern, path.name)) is None:
                    continue
                series = ".".join(match[1].split(".")[:2])
                if series not in jar.java:
                    raise EngineError(
                        f"{self.title}: {path.parent} holds version {match[1]}; versions "
                        f"{' and '.join(jar.java)} are taken; {self.install_hint}"
                    )
                title = f"{self.title} {match[1]}"
                java, number = find_java(title, jar.java[series], settings)
                programs = {"home": home, "jars": path.parent, "java": java}
                return programs, f"{title}, Java {number}"
        raise EngineError(f"{self.title}: no such jars {missing}")

    def launch(self, node: Node, settings: ServerSettings, **more: Any) -> Launch:
        """The launch of a node; `more` adds variables for the templates. Has no side effects.
        EngineError if an optional program is needed and missing."""
        role = self.roles[node.spec.role]
        product = node.installation.version.partition(" ")[0]
        known = {
            "node": node,
            "product": product,
            "settings": settings,
            "level": self.consistency[node.consistency].server,
            **more,
        }
        programs = node.installation.programs

        def command(words: Sequence[str]) -> tuple[str, ...]:
            program, *arguments = words
            if program in self.optional_programs and program not in programs:
                raise EngineError(f"{self.title}: no {program} was found; {self.install_hint}")
            return (str(programs.get(program, program)), *(_rendered(a, known) for a in arguments))

        return Launch(
            command=command(role.command),
            files={
                name: _rendered(resource(self.package, f"{name}.j2"), known) for name in role.files
            },
            directories=role.directories,
            steps=tuple(map(command, role.steps.get(product, ()))),
            cleanup=tuple(map(command, role.cleanup)),
            environment={name: _rendered(text, known) for name, text in role.environment.items()},
            remove_when_ready=role.remove_when_ready,
            refuses_root=role.refuses_root,
            stop_signal=Signals[role.stop_signal],
            stop_seconds=role.stop_seconds,
        )

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Raise ValueError for options that a study may not set, and for malformed ones."""
        own, forbidden = self._own_options(), [self._plain(name) for name in self.forbidden]
        for name, value in config.items():
            plain = self._plain(name)
            if not _OPTION.fullmatch(name) or not str(value).isprintable():
                raise ValueError(f"{name!r} is not an option of {self.title} on one line")
            if plain in own:
                raise ValueError(f"{name} is set by Storewise itself")
            short = self.takes_short_options
            if any(plain.startswith(f) or (short and f.startswith(plain)) for f in forbidden):
                raise ValueError(f"{name} opens the server or loads code: not in `config`")

    def _own_options(self) -> frozenset[str]:
        """Options that Storewise sets after the study's in the server's files; the last wins."""
        own = {name for level in self.consistency.values() for name in level.server}
        for role in self.roles.values():
            for name in role.files:
                _, _, last = resource(self.package, f"{name}.j2").partition("settings.config")
                own |= set(re.findall(r"^(?:<property><name>)?([a-z][\w.-]*)", last, re.MULTILINE))
        return frozenset(map(self._plain, own))

    def _plain(self, option: str) -> str:
        """An option's name, however it is written."""
        option = option.lower().replace("_", "-")
        while prefix := next(filter(option.startswith, self.option_prefixes), None):
            option = option.removeprefix(prefix)
        return option


class ConfigSettings(ServerSettings):
    """Settings of a server that takes options of its own from the study."""

    spec: ClassVar[ServerSpec]
    config: dict[str, bool | int | float | str] = Setting(
        default_factory=dict, description="more options of the server, as its manual calls them"
    )

    @field_validator("config")
    @classmethod
    def _check_config(cls, config: dict[str, Any]) -> dict[str, Any]:
        cls.spec.check_config(config)
        return config


class SpecEngine(ServerEngine):
    """An engine whose servers are described by a ``server.yaml``, which its `Settings` name."""

    spec: ClassVar[ServerSpec]
    one_copy: ClassVar[str] = "its servers hold each document once"
    """Why there are no replicas, where ``flags.replicas`` is false."""

    def __init_subclass__(cls) -> None:
        if (spec := getattr(cls.Settings, "spec", None)) is None:
            return  # an abstract base class
        cls.spec, cls.title, cls.guard = spec, spec.title, spec.guard
        cls.titles = tuple(spec.version.oldest) if spec.version else ()
        cls.consistencies = {name: level.meaning for name, level in spec.consistency.items()}
        cls.lossy_levels = frozenset(n for n, level in spec.consistency.items() if level.may_lose)
        cls.consistency_aliases = spec.consistency_aliases

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        """Data nodes, all of the same role; override it for other topologies."""
        self.settings_of(settings)
        self.check_topology(topology, topology.nodes)
        return self.data_nodes(topology)

    def check_topology(
        self, topology: Topology, most_replicas: int, *, routers: bool = False
    ) -> None:
        """EngineError for a cluster without nodes, with more replicas than the engine can have, or
        with routers where it has none."""
        nodes, replicas = topology.nodes, topology.replicas
        if nodes < 1 or topology.routers < 0:
            raise EngineError(
                f"{self.name} cannot have {nodes} nodes and {topology.routers} routers"
            )
        if topology.routers and not routers:
            raise EngineError(
                f"{self.name}: routers is {topology.routers}; every node answers clients: leave "
                "routers at 0"
            )
        if replicas != 1 and not self.flags.replicas:
            raise EngineError(
                f"{self.name}: replicas is {replicas}; {self.one_copy}: leave replicas at 1"
            )
        if not 1 <= replicas <= most_replicas:
            raise EngineError(
                f"{self.name} with {nodes} nodes has 1 to {most_replicas} replicas of a document, "
                f"not {replicas}"
            )

    def data_nodes(self, topology: Topology, copies: int = 1) -> tuple[NodeSpec, ...]:
        """The nodes that hold documents, `copies` for each shard."""
        known = self.spec.roles["data"].ports
        ports = tuple(p for p in known if topology.nodes > 1 or not known[p].clusters_only)
        threads, memory_mb = topology.threads, topology.memory_mb
        return tuple(
            NodeSpec("data", index, threads, memory_mb, ports=ports)
            for index in range(topology.nodes * copies)
        )

    def find(self, settings: Mapping[str, Any]) -> Installation:
        return self.spec.find(self.name, settings)

    def launch(self, node: Node) -> Launch:
        return self.spec.launch(node, self.settings_of(node.settings))

    def peer_guards(self, endpoint: Endpoint) -> Mapping[str, str]:
        ports = self.spec.roles[endpoint.role].ports
        return {name: ports[name].guard for name in endpoint.ports}

    def open_ports(self, spec: NodeSpec, topology: Topology) -> Mapping[str, str]:
        role = self.spec.roles[spec.role]
        strangers = {name: role.ports[name].strangers_can for name in spec.ports}
        known = {"client port": role.strangers_can, **strangers}
        return {name: what for name, what in known.items() if what}


def _rendered(template: str, known: Mapping[str, Any]) -> str:
    text: str = _environment().from_string(template).render(known)
    return text


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


@cache
def _environment() -> Any:
    # Only a node renders files: its workers need not pay for Jinja2.
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["quoted"] = lambda text: json.dumps(str(text), ensure_ascii=False)
    environment.filters["sha256"] = lambda text: sha256(text.encode()).hexdigest()
    return environment
