"""Steps at target rates, by a worker job alone; a whole study of steps is in test_two_stores.py."""

from support import driving
from support.driving import make_inputs, rows, total, trial

from storewise.metrics.hdr import merge_logs, percentiles
from storewise.metrics.schema import read_conditions


def of_step(part, metric, step, **wanted):
    return rows(part, metric=metric, step=step, **wanted)


def test_an_open_loop_that_is_asked_too_much_says_so(tmp_path):
    """No engine does 5 million operations/s: the backlog is counted, waited for in the response
    times, and a warning."""
    make_inputs(tmp_path, 1)
    steps = [{"rate": 50}, {"rate": 5e6}]
    read = {"name": "read", "params": {"seconds": 0.5}, "steps": steps}
    measured = trial("sqlite", ["write", read])
    for phase in ("write", "read"):
        driving.run_here(measured, tmp_path, phase)
    part = tmp_path / "read.0.parquet"
    (calm,) = of_step(part, "intended_operations", 0)
    assert calm["value"] == 25
    assert of_step(part, "unserved_operations", 0)[0]["value"] <= 2
    intended = of_step(part, "intended_operations", 1)[0]["value"]
    unserved = of_step(part, "unserved_operations", 1)[0]["value"]
    assert intended == 2_500_000
    done = total(part, "operations", second=None, step=1)
    assert done + unserved == intended
    assert of_step(part, "target_rate", 1)[0]["value"] == 5e6
    log = [part.with_suffix(".hlog")]
    response, service = (
        percentiles(merge_logs(log, f"get.{time}_time;step=1"), [50])[50]
        for time in ("response", "service")
    )
    assert response > 20 * service
    warnings = [w for w in read_conditions(part)["warnings"] if "target rate" in w]
    assert len(warnings) == 1
    assert "step 1" in warnings[0]
