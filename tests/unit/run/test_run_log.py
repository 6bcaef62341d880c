"""What Snakemake prints in a run: what of it the user is told, and what in it explains an error."""

import pytest

from storewise.errors import StorewiseError
from storewise.run.run_log import RunLog, explanation, note_of, plain_lines

#: As Snakemake 9.27 prints them.
REFUSED = """\
Building DAG of jobs...
WorkflowError in file "/x/rules/plan.smk", line 212:
study s would cost 3 EUR, more than its max_cost of 1 EUR.
  File "/x/rules/run.smk", line 143, in __onstart
"""
TRACE = """\
Traceback (most recent call last):

  File "/x/snakemake/cli.py", line 228, in parse_set_ints
    key, value = parse_key_value_arg(entry, errmsg=errmsg)
                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

ValueError: Invalid threads definition. (Unparsable value: 'x')

"""
INVALID = "Invalid threads definition. (Unparsable value: 'x')"
CORES = "Error parsing number of cores (--cores, -c): must be integer or 'all'."
MISSING = "No rule to produce nothing (if you use ...)."


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (REFUSED, ["study s would cost 3 EUR, more than its max_cost of 1 EUR."]),
        (f"MissingRuleException:\n{MISSING}\n", [MISSING]),
        (TRACE, [INVALID]),
        ("usage: __main__.py [-h]\n__main__.py: error: no such: --frob\n", ["no such: --frob"]),
        (f"Error: {CORES}\n", [CORES]),
        ("WorkflowError:\nAt least one job did not complete successfully.\n" + TRACE, [INVALID]),
        ("Killed\n", ["Snakemake has ended with an error", "Killed"]),
    ],
)
def test_an_error_is_explained_without_frames(text, lines):
    assert explanation(text) == lines


def test_the_log_is_read_as_it_grows(tmp_path):
    path = tmp_path / "results" / "s" / "logs" / "run.log"
    with RunLog(path) as log:
        log.written.write(b"Select jobs\nstorewise: riak is left out: none\nstorew")
        log.written.flush()
        assert log.new_notes() == ["riak is left out: none"] and log.told
        log.written.write(b"ise: a\xff\nError: x\n")
        log.written.flush()
        assert log.new_notes() == ["a\ufffd"]
        assert log.explanation() == ["x"]
    assert {p.stat().st_mode & 0o002 for p in path.parents[:3]} == {0}, "nothing for others"
    with RunLog(path) as log:
        assert path.read_bytes() == b"", "another run's"
        assert log.new_notes() == [] and not log.told
    assert note_of("1 of 128 steps (1%) done") is None
    frames = 'Traceback (most recent call last):\n  File "x", line 1\n    raise\n'
    assert plain_lines(
        f"a\n\n{frames}b\n2026-01-01 10:00:00,1 ERROR client 0 failed: {frames}c\n"
    ) == [
        "a",
        "b",
        "c",
    ]
    (tmp_path / "file").write_text("")
    with pytest.raises(StorewiseError, match=r"results cannot be written to .*file/s: "):
        RunLog(tmp_path / "file" / "s" / "logs" / "run.log")
