"""Submits jobs in a thread of its own: a slow server does not hold up Snakemake's scheduler."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake_executor_plugin_pbs.commands import GivenUp, NoAnswer, NoProgram
from snakemake_executor_plugin_pbs.request import (
    Form,
    Request,
    no_direct,
    other_host,
    qsub_words,
    refused,
    too_large,
)
from snakemake_executor_plugin_pbs.server import Hosts, Refused, Server

#: Seconds for which to retry qsub while the server cannot be reached.
OFFER_FOR = 330.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
STOPPED = "the run was stopped before it was submitted"


@dataclass(frozen=True, slots=True)
class Order:
    """A job that shall be submitted, or several as an array.

    `infos` are Snakemake's, `keys` name the jobs' marks, `logs` are theirs; `log` is the word of
    ``qsub -o``.
    """

    request: Request
    name: str
    script: Path
    log: Path
    infos: tuple[Any, ...]
    keys: tuple[str, ...]
    logs: tuple[Path, ...]

    @property
    def tasks(self) -> int:
        """The number of an array's jobs, 0 for a single job."""
        return len(self.infos) if len(self.infos) > 1 else 0


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Functions called by the thread that submits.

    `submitting` is called with the job's name before qsub runs. From then on PBS may have the job,
    until `accepted` (PBS has it) or `not_queued` (PBS does not have it) is called. `duplicates`
    gets ids of further jobs of the same name: a retried qsub can queue a job twice.
    """

    accepted: Callable[[Order, str, str | None], None]
    refused: Callable[[Order, str], None]
    submitting: Callable[[str], None]
    not_queued: Callable[[str], None]
    duplicates: Callable[[list[str]], None]
    server_answered: Callable[[], None]
    server_silent: Callable[[str], None]
    stopping: Callable[[], bool]
    lost_hosts: Callable[[], frozenset[str]]


class Submitter(threading.Thread):
    """Takes orders one after another. `end` makes it finish the qsub that it has begun, and no
    more."""

    def __init__(self, server: Server, hosts: Hosts, interval: float, callbacks: Callbacks) -> None:
        super().__init__(name="pbs-submitter", daemon=True)
        self._server = server
        self._hosts = hosts
        self._interval = interval
        self._callbacks = callbacks
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._direct = True

    def order(self, order: Order) -> None:
        self._orders.put(order)

    def end(self) -> None:
        self._ended.set()
        self._orders.put(None)

    def run(self) -> None:
        while (order := self._orders.get()) is not None and not self._ended.is_set():
            try:
                self._submit(order)
            except Exception as error:  # noqa: BLE001
                # Snakemake would wait for ever for a job of which it never hears.
                self._callbacks.refused(
                    order, refused(order.request, f"{type(error).__name__}: {error}", ["qsub"])
                )

    def _submit(self, order: Order) -> None:
        request = order.request
        lost = self._callbacks.lost_hosts()
        host = None
        if lost and not order.tasks:
            host = other_host(request, self._hosts.get(self._interval), lost)
        try:
            job_id = self._submit_with_retries(order, host)
        except GivenUp:
            return
        except (Refused, NoProgram, NoAnswer) as error:
            self._callbacks.refused(order, refused(request, str(error), self._command(order, host)))
            return
        self._callbacks.accepted(order, job_id, host)

    def _command(self, order: Order, host: str | None) -> list[str]:
        form = Form(self._server.dialect, self._direct, host, order.tasks)
        return qsub_words(order.request, form, order.name, order.log, order.script)

    def _submit_with_retries(self, order: Order, host: str | None) -> str:
        """Submit a job; returns its id. Raises Refused, NoProgram, NoAnswer after `OFFER_FOR`
        seconds without an answer, and GivenUp if the run ends."""
        deadline = time.monotonic() + OFFER_FOR
        pause = FIRST_PAUSE
        failures = 0
        while True:
            if self._callbacks.stopping():
                raise Refused(STOPPED)
            # Each time: a server that did not answer at first may now say which hosts it has. PBS
            # itself lets such a job wait for ever, and says so only where all hosts together are
            # too small.
            too_much = too_large(order.request, self._hosts.get())
            if too_much is not None:
                raise Refused(too_much)
            self._callbacks.submitting(order.name)
            # Check only now: a thread that ends the run later finds the name in the table.
            if self._ended.is_set():
                self._callbacks.not_queued(order.name)
                raise GivenUp("qsub")
            try:
                job_id = self._server.submit(self._command(order, host))
            except (Refused, NoProgram) as error:
                self._callbacks.not_queued(order.name)
                if isinstance(error, Refused) and self._direct and no_direct(str(error)):
                    # Older than these letters: logs come when jobs have ended.
                    self._direct = False
                    continue
                raise
            except NoAnswer as error:
                silence = error
            else:
                self._callbacks.server_answered()
                return job_id
            # The answer that was lost may stand for a job that was taken: that is asked first.
            while True:
                failures += 1
                if failures > 1:
                    self._callbacks.server_silent(str(silence))
                if time.monotonic() > deadline:
                    raise silence
                if self._ended.wait(pause):
                    raise GivenUp("qsub")
                pause = min(pause * 2, LONGEST_PAUSE)
                try:
                    ids = self._server.find(order.name)
                except NoAnswer as error:
                    silence = error
                    continue
                break
            if ids:
                self._callbacks.duplicates(ids[1:])
                self._callbacks.server_answered()
                return ids[0]
            self._callbacks.not_queued(order.name)
