"""Worker jobs that end early: killed, aborted, signalled, failed. Nothing is left behind."""

import psutil
import pytest

from storewise.driver.loop import closed_loop
from storewise.errors import Aborted
from storewise.metrics.recorder import Recorder
from storewise.workloads.base import Operation


def test_aborted_is_not_a_failed_operation():
    def ended():
        raise Aborted("the trial was ended")

    with pytest.raises(Aborted):
        closed_loop(iter([Operation("get", ended)]), Recorder(0))


@pytest.fixture(scope="module", autouse=True)
def before():
    """Processes of other files' tests, such as servers that several files share."""
    return set(psutil.Process().children(recursive=True))
