"""`storewise run` on a terminal: its view, and what is left of it when the run is interrupted."""

import os
import pty
import re
import signal
import subprocess

from support.waiting import exit_code, wait_until
from support.workspace import Workspace

STUDY = """\
workload: ycsb
engines: [sqlite]
phases:
  - load: {recordcount: 1000}
  - c: {seconds: 600, rate: 100}
"""


def test_an_interrupted_run_says_what_is_kept_and_leaves_the_terminal_clean(tmp_path):
    place = Workspace(tmp_path)
    place.write_study(STUDY)
    ours, its = pty.openpty()
    run = subprocess.Popen(
        place.storewise_command("run", "s.yaml"),
        **{"cwd": tmp_path, "stdin": its, "stdout": its, "stderr": its},
        # As a shell without job control starts a job in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
    )
    os.close(its)
    os.set_blocking(ours, False)
    output = b""

    def shown(pattern):
        nonlocal output
        try:
            output += os.read(ours, 1 << 20)
        except BlockingIOError:
            pass
        except OSError:  # the other side is closed
            assert run.poll() is not None
        return re.search(pattern, re.sub(r"\x1b\[[\d;?]*\w", "", output.decode())) is not None

    try:
        wait_until(lambda: shown(r"sqlite-w1-r1-\w+ +c\b"), 150, "the phase")
        # To this process alone, which is how `kill -INT` and a terminal's Ctrl-C come.
        run.send_signal(signal.SIGINT)
        wait_until(lambda: shown("stopped: 0 of 1 trials kept; run again to go on"), 60, "its end")
        assert exit_code(run, 30) == 130
        shown("")
    finally:
        if run.poll() is None:
            run.kill()
        os.close(ours)
    text = output.decode()
    assert "0/1 trials" in text and "planning the jobs" in text
    assert not re.search(r"Traceback|WorkflowError|Job \d+", text)
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h"), "the cursor is shown again"
    assert text.endswith("\x1b[2K"), "the view is gone"
    assert place.left_behind() == []
    assert place.processes() == []
