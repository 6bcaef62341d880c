"""Snakemake's log: what of it the user is told, and what in it explains an error."""

import pytest

from storewise.errors import StorewiseError
from storewise.run.run_log import RunLog, explanation, note_of, opened_trials, plain_lines, step_of

#: As Snakemake 9.27 prints them.
HEAD = """\
Using profiles /x/profiles/local for setting default command line arguments.
Assuming unrestricted shared filesystem usage.
Building DAG of jobs...
"""
FAILED_JOB = """\
RuleException:
CalledProcessError in file "/x/rules/shard.smk", line 79:
[Mon Nov 23 20:28:21 2026]
Error in rule merge:
    message: None
    jobid: 6
    log: results/s/logs/merge.log (check log file(s) for error details)
Logfile results/s/logs/merge.log:
================================================================================
2026-11-23 20:28:20,892 ERROR unexpected error
Traceback (most recent call last):
  File "/x/storewise/ssearch/merge.py", line 3, in merge
KeyError: 'parts'
================================================================================
Removing output files of failed job merge since they might be corrupted:
WorkflowError:
At least one job did not complete successfully.
"""
REFUSED = """\
WorkflowError in file "/x/rules/plan.smk", line 212:
study s would cost 3 EUR, more than its max_cost of 1 EUR.
  work: 0.0 hours
  File "/x/rules/control.smk", line 143, in __onstart
  File "/x/rules/plan.smk", line 212, in check_cost
"""
TRACE = """\
Traceback (most recent call last):

  File "/x/snakemake/cli.py", line 228, in parse_set_ints
    key, value = parse_key_value_arg(entry, errmsg=errmsg)
                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

ValueError: Invalid threads definition. (Unparsable value: 'x')

"""
INVALID = "Invalid threads definition. (Unparsable value: 'x')"
MERGE = "the job `merge` failed; its log is results/s/logs/merge.log"
CORES = "Error parsing number of cores (--cores, -c): must be integer or 'all'."
MISSING = "No rule to produce nothing (if you use ...)."


@pytest.mark.parametrize(
    ("text", "sentence", "lines"),
    [
        (HEAD + FAILED_JOB, MERGE, ["2026-11-23 20:28:20,892 ERROR unexpected error",
                                    "KeyError: 'parts'"]),
        (HEAD + "storewise: data/a.m10, line 1: not an SSEARCH output\n" + FAILED_JOB, MERGE, []),
        (HEAD + REFUSED, "study s would cost 3 EUR, more than its max_cost of 1 EUR.\n  work: 0.0 "
                         "hours", []),
        (HEAD + f"MissingRuleException:\n{MISSING}\n", MISSING, []),
        ("storewise: load.0: x: disk is full\n" + FAILED_JOB, "x: disk is full", []),
        (TRACE, INVALID, []),
        ("usage: __main__.py [-h]\n__main__.py: error: no such: --frob\n", "no such: --frob", []),
        (f"Error: {CORES}\n", CORES, []),
        ("Killed\n", "Snakemake has ended with an error", ["Killed"]),
        ("WorkflowError:\nAt least one job did not complete successfully.\n" + TRACE, INVALID, []),
        ("Error in rule a:\n    message: None\n    jobid: 6\n", "the job `a` failed", []),
        ("Error in group rule a:\n    jobid: 6\n    log: x.log, y.log (check ...)\n",
         "the job `a` failed; its log is x.log", []),
        ("Error in rule a:\n    log: /a b/x.log (check log file(s) for error details)\n",
         "the job `a` failed; its log is /a b/x.log", []),
        ("Error in rule a:\n    log: x.log\nLogfile x.log:\n" + "=" * 80 + "\n1\n2\n3\n4\n5\n6\n",
         "the job `a` failed; its log is x.log", ["2", "3", "4", "5", "6"]),
        ("storewise: trial a-1 was not opened: no room\n", "no room", []),
        ("storewise: data12 ended: full\n", "full", []),
    ],
)  # fmt: skip
def test_an_error_is_explained_without_frames(text, sentence, lines):
    why = explanation(text)
    assert (why.sentence, list(why.lines)) == (sentence, lines)


def test_what_the_user_is_told_of_a_log():
    assert note_of("storewise: duckdb is left out: no module") == "duckdb is left out: no module"
    assert note_of("storewise: warning: those who may write") == "warning: those who may write"
    for start in ("trial duckdb-r1-0a ended", "trial a was not opened", "write.0", "data1", "form"):
        assert note_of(f"storewise: {start}: full") is None, "the trial's own line tells it"
    assert note_of("Select jobs to execute...") is None
    assert step_of("Building DAG of jobs...") == "planning the jobs"
    assert step_of("Job 7: Digesting part 0 of the inputs") == "digesting part 0 of the inputs"
    assert step_of("localjob 8: Making the report") == "making the report"
    assert step_of("Job 4: Trial duckdb-w2-r1-d05d: loading, worker 0") == ""
    assert step_of("1 of 128 steps (1%) done") is None
    plan = "Job 4: Trial a-2\nReason: x\nJob 3: Trial a-2: loading\nJob 9: Trial a-1\n"
    assert opened_trials(plan + "Job 4: Trial a-2\n") == ["a-2", "a-1"]


def test_a_log_has_all_passes_and_is_read_as_it_grows(tmp_path):
    path = tmp_path / "results" / "s" / "logs" / "run.log"
    with RunLog(path) as log:
        log.written.write(b"one\ntw")
        log.written.flush()
        assert log.new_lines() == ["one"]
        log.written.write(b"o\n")
        log.written.flush()
        assert log.new_lines() == ["two"]
        log.begin_pass()
        log.written.write(b"thr\xff\n")
        log.written.flush()
        assert log.of_pass() == log.of_pass() == "thr\ufffd\n"
        assert log.new_lines() == ["thr\ufffd"]
    assert path.read_bytes() == b"one\ntwo\nthr\xff\n"
    assert {p.stat().st_mode & 0o002 for p in path.parents[:3]} == {0}, "nothing for others"
    with RunLog(path):
        assert path.read_bytes() == b"", "another run's"
    assert plain_lines('a\n\n  File "x", line 1\n    raise\nb\n') == ["a", "b"]
    (tmp_path / "file").write_text("")
    with pytest.raises(StorewiseError, match=r"results cannot be written to .*file/s: "):
        RunLog(tmp_path / "file" / "s" / "logs" / "run.log")
