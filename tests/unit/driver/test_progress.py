"""What a worker tells of itself each second."""

import logging

from support.fake_time import FakeTime

from storewise.driver.progress import SharedCounters, StepProgress
from storewise.session.coordination.progress import progress_of

LOG = logging.getLogger("test")


def test_a_worker_tells_its_rates(tmp_path):
    shared = SharedCounters(2, 2, ["data0", "data1"])
    shared.report(0, 1, 10, 100, {"data0": 4, "data1": 6})
    shared.report(1, 0, 5, 50, {"data1": 5, "elsewhere": 9})
    assert shared.totals().tolist() == [15, 150, 4, 11]
    assert not shared.stopped()
    shared.clear()
    assert shared.totals().tolist() == [0, 0, 0, 0]
    shared.stop()
    shared.clear()
    assert shared.stopped(), "a new step does not go on after the end"
    own_time = FakeTime()
    progress = StepProgress(tmp_path, "read.0", LOG, clock=own_time.clock)

    def told():
        return progress_of(tmp_path)["read.0"][0]

    progress.state("waits", 3)
    assert told().state == "waits"
    progress.begin(shared, 3, lambda: {"client_cpu": 0.5})
    own_time.spend(2.0)
    shared.report(0, 0, 300, 600, {"data0": 200})
    progress()
    message = told()
    assert (message.state, message.step, message.seconds) == ("works", 3, 2.0)
    assert (message.operations, message.documents) == (300, 600)
    assert (message.operations_per_s, message.documents_per_s) == (150.0, 300.0)
    assert (message.owners, message.figures) == ({"data0": 100.0}, {"client_cpu": 0.5})
    own_time.spend(0.5)  # a record a second is enough
    shared.report(0, 0, 900, 900, {"data0": 200})
    progress()
    assert told() == message
    progress.remove()
    assert progress_of(tmp_path) == {}
