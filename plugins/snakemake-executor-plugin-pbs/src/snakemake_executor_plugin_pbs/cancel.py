"""Deletes jobs in a process of its own, which goes on until they are gone.

``python -m snakemake_executor_plugin_pbs.cancel FILE``, where FILE is JSON: ``{"dialect": ...,
"ids": [...], "names": [...], "force": false}``. Names are of jobs that PBS may have taken without
an answer. The process outlives Snakemake and its terminal: a server that is down for minutes loses
no deletion. A file beside FILE lists what is left after each poll (`handover.remaining`).
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from snakemake_executor_plugin_pbs.commands import TAKE_TIMEOUT, NoAnswer, NoProgram
from snakemake_executor_plugin_pbs.handover import LEFT, tidy
from snakemake_executor_plugin_pbs.qstat import number_of
from snakemake_executor_plugin_pbs.server import Server

#: Seconds after which the process stops trying.
LONGEST = 1800.0
#: Seconds after the first qdel before a job is deleted by force.
FORCE_AFTER = 60.0
#: Seconds for which to look for a job by its name: longer than a qsub may take.
NAME_FOR = 2 * TAKE_TIMEOUT
#: Calls of qdel at a time.
AT_ONCE = 8
LONGEST_PAUSE = 10.0


def delete_until_gone(
    server: Server,
    ids: Sequence[str],
    names: Sequence[str],
    *,
    force: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
    note: Callable[[str], object] = print,
    progress: Callable[[list[str]], object] = lambda left: None,
) -> list[str]:
    """Delete jobs and wait until PBS has ended or forgotten them. Returns the ids and names left
    after `LONGEST` seconds; `progress` gets those left after each poll. `force` uses
    ``qdel -W force`` at once; else it is used after `FORCE_AFTER` seconds."""
    began = clock()
    left, looked_for = list(ids), list(names)
    asked: dict[str, float] = {}
    accepted: set[str] = set()
    pause = 0.5
    while True:
        try:
            looked_for = _found(server, looked_for, left)
            if clock() - began > NAME_FOR:
                looked_for = []
            now = clock()
            late = {
                job_id
                for job_id in left
                if now - asked.setdefault(job_id, now) >= (0.0 if force else FORCE_AFTER)
            }
            _delete(server, left, late, accepted, note)
            answer = server.states(left) if left else None
            if answer is not None:
                left = [
                    job_id
                    for job_id in left
                    if job_id not in answer.unknown
                    and not (job_id in answer.states and answer.states[job_id].over)
                ]
            progress([*left, *looked_for])
        except NoAnswer as error:
            note(f"no answer: {error}")
        except NoProgram as error:
            note(str(error))
            return [*left, *looked_for]
        if not left and not looked_for:
            return []
        if clock() - began > LONGEST:
            return [*left, *looked_for]
        # PBS needs time to end a job, and there is no event to wait for.
        sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)


def _found(server: Server, names: Sequence[str], left: list[str]) -> list[str]:
    """Adds to `left` the jobs of these names; returns the names that PBS does not know."""
    known = {number_of(job_id) for job_id in left}
    still = []
    for name in names:
        ids = server.find(name)
        if not ids:
            still.append(name)
        left += [job_id for job_id in ids if number_of(job_id) not in known]
    return still


def _delete(
    server: Server,
    ids: Sequence[str],
    late: set[str],
    accepted: set[str],
    note: Callable[[str], object],
) -> None:
    """Call qdel for the jobs whose deletion PBS has not accepted yet; with force for the `late`
    ones, because a plain qdel fails if their host does not answer."""

    def one(job_id: str) -> tuple[str, str | None]:
        return job_id, server.delete(job_id, force=job_id in late)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for job_id, words in pool.map(one, [i for i in ids if i in late or i not in accepted]):
            if words is None:
                accepted.add(job_id)
            else:
                note(f"qdel {job_id}: {words}")


def main(arguments: Sequence[str]) -> int:
    """Entry point; exit status 1 if jobs are left."""
    # The parent process may have ignored this signal, and a child inherits that.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    (path,) = (Path(argument) for argument in arguments)
    order = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()

    def note(text: str) -> None:
        sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n")
        sys.stderr.flush()

    def progress(left: list[str]) -> None:
        aside = path.with_suffix(".tmp")
        aside.write_text(json.dumps(left), encoding="utf-8")
        aside.replace(path.with_suffix(LEFT))

    left = delete_until_gone(
        Server(order["dialect"]),
        order["ids"],
        order["names"],
        force=order["force"],
        note=note,
        progress=progress,
    )
    path.with_suffix(LEFT).unlink(missing_ok=True)
    tidy(path.parent)
    if left:
        note(f"given up; PBS may still have: {' '.join(left)}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
