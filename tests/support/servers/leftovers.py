"""What a store's servers keep outside of their own directories, while they live and when they
have been killed.

``unshare --mount --ipc python leftovers.py NAME NODES SETTINGS`` as root: /tmp, /var/tmp,
/dev/shm and the home directory are new and empty, and so are System V's segments, semaphores and
queues. Prints what is found as JSON: ``live``, ``killed`` and ``ended``, lists of lines.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

#: Where the cluster's own directories are.
OWN = Path("/srv")
WATCHED = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
HOME = Path("/media")
#: Where a place is seen as it was.
BEFORE = Path("/mnt")


def needed(settings):
    """Where our code, Python and the store's programs lie: it may be below /tmp."""
    programs = [str(value) for value in settings.values() if str(value).startswith("/")]
    places = [Path(__file__).parents[3], sys.prefix, sys.base_prefix, *programs]
    return [Path(place).resolve() for place in places]


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def empty(place, keep):
    """A new file system over a place; what of `keep` lies below it can still be reached."""
    mount("--bind", place, BEFORE)
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", place)
    for path in keep:
        if path.is_relative_to(place) and not path.exists():
            path.mkdir(parents=True)
            mount("--bind", BEFORE / path.relative_to(place), path)
    subprocess.run(["umount", BEFORE], check=True)


def found(keep):
    lines = []
    for place in (*WATCHED, HOME):
        for path in sorted(place.rglob("*")):
            if any(path.is_relative_to(one) or one.is_relative_to(path) for one in keep):
                continue
            with contextlib.suppress(FileNotFoundError):
                lines.append(f"{path} {path.lstat().st_mode & 0o7777:o}")
    for kind in ("shm", "sem", "msg"):
        text = Path("/proc/sysvipc", kind).read_text()
        lines += [f"System V {kind}: {' '.join(line.split())}" for line in text.splitlines()[1:]]
    return lines


def main():
    # As a program it is not told where the tests are.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from support.servers.local import running

    from storewise.engines.contract.server import Topology

    name, nodes, settings = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    keep = needed(settings)
    for path in (OWN, *WATCHED, HOME):
        empty(path, keep)
    os.environ["HOME"] = str(HOME)
    # As wide as a user can have it.
    os.umask(0)
    seen = {}
    shape = Topology(nodes=nodes, memory_mb=768, threads=2)
    with running(name, OWN / "session", shape, settings) as cluster:
        seen["live"] = found(keep)
        seen["wide"] = [path.name for path in OWN.iterdir() if path.stat().st_mode & 0o077]
        for server in cluster.servers.values():
            process = psutil.Process(server.pid)
            tree = [process, *process.children(recursive=True)]
            for one in tree:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            psutil.wait_procs(tree, 30)
        seen["killed"] = found(keep)
    logs = {"credentials.json", *(f"{name}.log" for name in cluster.servers)}
    kept = [str(path) for path in (OWN / "session").iterdir() if path.name not in logs]
    seen["ended"] = [*found(keep), *kept]
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
