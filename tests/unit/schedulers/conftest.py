"""A scheduler that answers as a test says."""

import subprocess

import pytest

from storewise.schedulers import hosts, queue, slurm


class Commands:
    """What each command prints on stdout and stderr, and its exit status; the calls."""

    def __init__(self):
        self.calls = []
        self.answer = lambda words: ("", "", 0)

    def __call__(self, command, timeout):
        self.calls.append(list(command))
        stdout, stderr, status = self.answer(list(command))
        return subprocess.CompletedProcess(list(command), status, stdout, stderr)


@pytest.fixture
def commands(monkeypatch):
    commands = Commands()
    for module in (queue, slurm, hosts):
        monkeypatch.setattr(module, "run_command", commands)
    return commands
