"""Steps of a phase, by worker jobs alone; a whole study of them is in test_two_stores.py."""

from support import driving
from support.driving import make_inputs, rows, start, total, trial
from support.waiting import exit_code

from storewise.metrics.hdr import merge_logs, percentiles
from storewise.metrics.schema import read_conditions


def of_step(part, metric, step, **wanted):
    return rows(part, metric=metric, step=step, **wanted)


def test_clients_are_spread_over_workers_and_processes(tmp_path):
    """Five clients on four processes, then one: those without clients keep step and are silent."""
    make_inputs(tmp_path, 4)
    steps = [{"clients": 5}, {"clients": 1, "restart": True}, {"threads": 2}]
    read = {"name": "read", "params": {"operations": 40}, "steps": steps}
    measured = trial("sqlite", ["write", read], workers=2, processes=2)
    for phase in ("write", "read"):
        jobs = [start(measured, tmp_path, phase, worker) for worker in range(2)]
        codes = [exit_code(job, 300) for job in jobs]
        assert codes == [0, 0], (tmp_path / f"{phase}.0.log").read_text()
    parts = [tmp_path / f"read.{worker}.parquet" for worker in range(2)]
    for step in range(3):
        wanted = {"second": None, "operation": "get", "step": step}
        assert sum(total(part, "operations", **wanted) for part in parts) == 40
    busy = [
        {
            (worker, row["process"])
            for worker, part in enumerate(parts)
            for row in of_step(part, "duration", step)
            if row["process"] is not None
        }
        for step in range(3)
    ]
    assert busy == [{(0, 0), (0, 1), (1, 0), (1, 1)}, {(0, 0)}, busy[0]]
    conditions = read_conditions(parts[1])
    assert [(s["threads"], s["clients"]) for s in conditions["steps"]] == [(2, 5), (1, 1), (2, 8)]


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
