"""What a test asks of the processes of a host and does to them: here, or as a program on another
host (``python on_host.py QUESTION ARGUMENT...``, the answer as JSON)."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil


def below(*directories: str) -> list[int]:
    """Processes that work in these directories."""
    result = []
    for process in psutil.process_iter():
        try:
            where = Path(process.cwd())
            ours = any(where.is_relative_to(directory) for directory in directories)
            if ours and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                result.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return result


def children(pid: str) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(int(pid)).children()]
    except psutil.NoSuchProcess:
        return []


def server(pid: str) -> dict[str, Any]:
    """Where a server works and on which addresses it listens; empty where it has ended."""
    try:
        process = psutil.Process(int(pid))
        connections = process.net_connections("tcp")
        listens = sorted({c.laddr.ip for c in connections if c.status == "LISTEN"})
        return {"cwd": process.cwd(), "listens": listens}
    except psutil.NoSuchProcess:
        return {}


def kill(pid: str) -> None:
    os.kill(int(pid), signal.SIGKILL)


def kill_session(leader: str) -> None:
    """All processes of a process session."""
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == int(leader):
                process.kill()
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue


def exist(*paths: str) -> list[str]:
    return [path for path in paths if Path(path).exists()]


QUESTIONS = {f.__name__: f for f in (below, children, server, kill, kill_session, exist)}


#: How a command is run on another host.
ON_HOST = os.environ.get("STOREWISE_ON_HOST", "ssh -o BatchMode=yes {host}")


def ask(host: str, question: str, *arguments: str) -> Any:
    """The same on a host that `ON_HOST` reaches; without a host's name, here."""
    if not host:
        return QUESTIONS[question](*arguments)
    there = [word.format(host=host) for word in shlex.split(ON_HOST)]
    command = [sys.executable, str(Path(__file__).resolve()), question, *arguments]
    done = subprocess.run(
        [*there, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{host} {question}: {done.stderr}"
    return json.loads(done.stdout)


if __name__ == "__main__":
    print(json.dumps(QUESTIONS[sys.argv[1]](*sys.argv[2:])))
