"""Trials that are measured at the same time (`live_sessions`): one that fails ends no other."""

import os
import re
import signal

import pytest
from support.waiting import wait_until
from support.workspace import Workspace

STUDY = """\
workload: ycsb
engines: [{engine}]
repeats: 3
live_sessions: 2
phases:
  - load: {{recordcount: 300}}
  - c: {{seconds: 3}}
"""


@pytest.mark.long("four trials, and two passes", limit=600)
@pytest.mark.parametrize(
    "engine",
    ["sqlite", pytest.param("postgres", marks=pytest.mark.needs("postgres"))],
)
def test_the_one_beside_a_failed_trial_is_measured_to_its_end(tmp_path, engine):
    """The others are begun after it, and then the failed one is tried again, by plain Snakemake."""
    place = Workspace(tmp_path)
    place.write_study(STUDY.format(engine=engine))
    run = place.start()

    def two_at_work():
        assert run.poll() is None, place.output()
        return len(list(place.results.glob("live/*/owner.json"))) == 2 and place.members().get(
            "c.0"
        )

    os.kill(wait_until(two_at_work, 120, "two trials at work"), signal.SIGKILL)
    assert run.wait(300) == 0, place.output()
    assert len(re.findall(r"storewise: trial \S+ ended: ", place.output())) == 1
    (failed,) = place.results.glob("failures/*.jsonl")
    verified = list(place.results.glob("trials/*/verify.parquet"))
    last = max(verified, key=lambda path: path.stat().st_mtime).parent.name
    assert len(verified) == 3 and last == failed.stem, place.output()
    assert f"trial {failed.stem} is tried again" in place.output()
    assert (place.results / "report.html").exists()
    assert place.left_behind() == []
