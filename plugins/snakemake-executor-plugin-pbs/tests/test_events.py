from __future__ import annotations

import pytest
from snakemake_executor_plugin_pbs.events import FAILED, REFUSED, SUBMITTED, WAITING, Event

LOG = "/data/a run/.snakemake/pbs_logs/1/sort.a-0f12ab.log"


@pytest.mark.parametrize(
    ("event", "reason", "message"),
    [
        (SUBMITTED, "", f"Job 12 was submitted as PBS job 19.s (sort.a-0f12ab); log: {LOG}"),
        (FAILED, "lost its\n host", f"PBS job 19.s (sort.a-0f12ab) lost its host. Its log: {LOG}"),
        (WAITING, "Not Running: x", "PBS job 19.s (sort.a-0f12ab) waits: Not Running: x"),
        (REFUSED, "qsub: Unknown queue", "PBS did not accept sort.a-0f12ab: qsub: Unknown queue"),
    ],
)
def test_an_event_has_a_message_of_one_line(event: str, reason: str, message: str) -> None:
    told = Event(event, "sort.a-0f12ab", "12", "19.s", LOG, reason)
    assert told.message == message
    keys = ["event", "name", "jobid", "id", "log", "reason", "cause", "host", "message"]
    assert list(told.data) == keys
    assert told.data["message"] == message
