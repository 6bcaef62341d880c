"""A sampler in a time that passes when the test says so."""

from queue import Queue

import psutil

from storewise.metrics.sampler import Sampler
from support.fake_time import FakeTime
from support.waiting import wait_until


def a_tick_later():
    """When the kernel has counted what has been since."""
    counted = psutil.cpu_times()
    wait_until(lambda: psutil.cpu_times() != counted, 30, "a tick of the kernel")


class Seconds:
    """A sampler in a time that passes when the test says so."""

    def __init__(self, watched, **names):
        self.time = FakeTime()
        self.waits = []
        self._asked, self._answers = Queue(), Queue()
        self.sampler = Sampler(watched, **names, clock=self.time.clock_ns, wait=self._wait)

    def _wait(self, done, seconds):
        self._asked.put(seconds)
        return self._answers.get()

    def start(self):
        self.sampler.start(self.time.ns)
        self.waits.append(self._asked.get(timeout=60))

    def spend(self, seconds):
        """Wake it after so many seconds, and wait until it has taken its sample."""
        a_tick_later()
        self.time.spend(seconds)
        self._answers.put(False)
        self.waits.append(self._asked.get(timeout=60))

    def stop(self):
        self._answers.put(True)
        return self.sampler.stop()
