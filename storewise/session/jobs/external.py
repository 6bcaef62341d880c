"""The tables of a trial in an external database (one that somebody else runs).

The trial's tables have names that no other run's have. They are made before the load and dropped
after the verification, or by whichever job of the trial fails. Where a job is killed between
(SIGKILL, a lost host) they stay: a file in the study's directory ``external`` names them until the
trial's next run drops them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from storewise.atomic import write_aside
from storewise.engines.contract.engine import Cluster, ExternalEngine
from storewise.engines.registry import engine as engine_named
from storewise.errors import EngineError
from storewise.layout import EXTERNAL
from storewise.study.trial import Trial


@dataclass(frozen=True, slots=True)
class Outside:
    """An external database that a trial uses, and its versions."""

    cluster: Cluster
    versions: dict[str, str]


def is_external(trial: Trial) -> bool:
    """Whether the trial's store is an external database."""
    return engine_named(trial.engine).flags.external


@contextmanager
def external_store(
    trial: Trial,
    run: str,
    results: Path,
    log: logging.Logger,
    *,
    creates: bool = False,
    ends: bool = False,
) -> Iterator[Outside]:
    """The trial's tables for one job: made first where it `creates` them, dropped at the end where
    it `ends` the trial (unless the study keeps data), and when the block raises.

    `results` is the study's directory, which one run at a time uses."""
    engine = _engine(trial)
    # The same in all jobs of a run.
    name = hashlib.sha256(f"{run}:{trial.study}:{trial.id}".encode()).hexdigest()[:8]
    cluster = Cluster(
        trial.engine,
        settings=engine.of_trial(trial.settings, name),
        consistency=trial.consistency,
        kinds=trial.kinds(),
    )
    prefix = cluster.settings["prefix"]
    record = results / EXTERNAL / f"{trial.id}.json"
    try:
        if creates:
            if record.exists():  # the jobs of an earlier run were killed
                old = _recorded_prefix(record, prefix.removesuffix(name))
                log.info("dropping the tables %s_* that an earlier run has left", old)
                settings = {**cluster.settings, "prefix": old}
                _drop(engine, replace(cluster, settings=settings), record)
            record.parent.mkdir(exist_ok=True)
            write_aside(record, json.dumps({"prefix": prefix}) + "\n")
            log.info("tables of this trial: %s_*", prefix)
            with closing(engine.connect(cluster, "write")) as client:
                client.create(trial.store_schema())
        yield Outside(cluster, engine.server(cluster))
    except BaseException:
        try:
            _drop(engine, cluster, record)
        except EngineError as error:
            log.warning("the tables %s_* may be left: %s", prefix, error)
        raise
    if ends and not trial.keep_data:
        _drop(engine, cluster, record)
    elif ends:
        log.info("kept: the tables %s_*", prefix)
        record.unlink(missing_ok=True)


def _recorded_prefix(record: Path, begin: str) -> str:
    """The table prefix that an earlier run has recorded; EngineError if it is not one that
    Storewise makes (`begin` and 8 hex digits)."""
    try:
        old = json.loads(record.read_text(encoding="utf-8"))["prefix"]
        if re.fullmatch(re.escape(begin) + "[0-9a-f]{8}", old):
            return str(old)
        reason = f"{old!r} is not a table prefix of this study"
    except (ValueError, KeyError, TypeError) as error:
        reason = f"cannot be read: {error}"
    raise EngineError(
        f"{record}: {reason}; drop the tables {begin}* of an earlier run by hand, and delete this "
        "file"
    )


def _drop(engine: ExternalEngine, cluster: Cluster, record: Path) -> None:
    engine.drop(cluster)
    record.unlink(missing_ok=True)


def _engine(trial: Trial) -> ExternalEngine:
    engine = engine_named(trial.engine)
    if not isinstance(engine, ExternalEngine):
        raise EngineError(f"{engine.title} cannot be used as an external database")
    return engine
