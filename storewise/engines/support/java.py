"""Support for servers in Java: finding a Java, JVM options, heap size."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from storewise.engines.contract.server import ServerSettings
from storewise.engines.support.installation import environment_of, output_of, place_of, usual_places
from storewise.errors import EngineError

#: Where packages put Javas.
_USUAL_JAVA = ("/usr/lib/jvm/*/bin/java", "/opt/java/*/bin/java", "/opt/jdk*/bin/java")
#: Smallest usable heap, MiB.
_LEAST_HEAP_MB = 128


class JavaSettings(ServerSettings):
    """Settings that every engine in Java has."""

    java: str | None = Field(
        default=None, description="directory of the Java to use (as JAVA_HOME), or its program"
    )
    heap_share: float = Field(
        default=0.5, gt=0, lt=1, description="heap of a server, as a share of its node's memory"
    )
    jvm_options: tuple[str, ...] = Field(
        default=(), description="more options for the Java of data nodes, such as `-XX:+UseZGC`"
    )

    @field_validator("jvm_options")
    @classmethod
    def _allowed(cls, options: tuple[str, ...]) -> tuple[str, ...]:
        for option in options:
            if not _ALLOWED_OPTIONS.fullmatch(option):
                raise ValueError(
                    f"{option} is not allowed; expected -XX:, -Xss, -Xmn, -Xlog:, --add-opens or "
                    "--add-exports, and nothing that runs a program or opens a port. Set the heap "
                    "by `heap_share`, options of the server by `config`"
                )
        return options


#: They run no program (`-XX:OnError=`), load no code (`-javaagent:`), read no more options
#: (`-XX:Flags=`), open no port and set nothing of the store's own (`-D`).
_ALLOWED_OPTIONS = re.compile(
    r"-XX:(?!On|Flags|VMOptionsFile|\+?ManagementServer).*|-Xss\w+|-Xmn\w+|-Xlog:.*|"
    r"--add-(opens|exports)=.*"
)


def heap_mb(memory_mb: int, share: float) -> int:
    """Heap of a server on a node with so much memory, MiB."""
    return max(_LEAST_HEAP_MB, int(memory_mb * share))


def find_java(
    title: str, accepted: Collection[int], settings: Mapping[str, Any]
) -> tuple[Path, int]:
    """A Java of one of the `accepted` major versions, and its version.

    If ``settings["java"]`` is set, only that one is tried; else JAVA_HOME (after loading
    ``settings["module"]``), the PATH and the usual directories, in this order. Raises EngineError
    with each Java found and its version.
    """
    environment = {**os.environ, **environment_of(settings)}
    if named := settings.get("java"):
        base = place_of(named)
        programs = [base / "bin" / "java" if base.is_dir() else base]
    else:
        home = environment.get("JAVA_HOME")
        on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
        known = (home and f"{home}/bin/java", on_path)
        programs = [*(Path(program) for program in known if program), *usual_places(_USUAL_JAVA)]
    seen: list[str] = []
    for program in programs:
        try:
            version = _java_version(program)
        except EngineError as error:
            seen.append(str(error))
            continue
        if version in accepted:
            return program, version
        seen.append(f"{program} is {version}")
    raise EngineError(
        f"{title}: Java {' or '.join(map(str, sorted(accepted)))} is needed; found: "
        f"{', '.join(seen) or 'none'}; install it, or name its directory in JAVA_HOME or in the "
        "setting `java`"
    )


@cache
def _java_version(program: Path) -> int:
    """The major version of a `java` program (8 for "1.8.0"); EngineError if it does not run."""
    # The option: else Java keeps a directory in /tmp.
    text = output_of("Java", (str(program), "-XX:-UsePerfData", "-version"))
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    if match is None:
        raise EngineError(f"{program} prints no version: {text!r}")
    return int(match[1])
