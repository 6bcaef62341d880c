"""How a run ends for the user: answer, page, log, what to do next."""

import json

from support.paths import ROOT

from storewise.run.outcome import answer, outcome
from storewise.study.load import load_study

STUDY = "workload: ycsb\nengines: [sqlite]\nphases: [load]\n"


def test_an_answer_has_two_lines_and_a_finding_one():
    assert answer({"answer": {"lines": ["Take SQLite.", "Sure: good.", "x"]}, "finding": "f"}) == [
        "Take SQLite.",
        "Sure: good.",
    ]
    assert answer({"finding": "Take SQLite."}) == ["Take SQLite."]
    assert answer({"answer": {"lines": []}, "finding": "f"}) == ["f"]
    assert answer({"answer": "x", "finding": "f"}) == ["f"]
    assert answer({}) == [""]


def test_the_last_lines_of_a_run(tmp_path):
    (tmp_path / "s.yaml").write_text(STUDY)
    study, results = load_study(str(tmp_path / "s.yaml")), tmp_path / "results" / "s"
    assert outcome(study, "s.yaml", results, logged=True, failed=False) == []
    (results / "analysis").mkdir(parents=True)
    (results / "report.html").touch()
    (results / "analysis" / "verdict.json").write_text(json.dumps({"finding": "Take SQLite."}))
    page, log = f"Page: {results}/report.html", f"Log: {results}/logs/run.log"
    lines = ["Take SQLite.", page, log, "Next: open the page in a browser"]
    assert outcome(study, "s.yaml", results, logged=True, failed=False) == lines
    assert outcome(study, "s.yaml", results, logged=False, failed=True) == [
        "Take SQLite.",
        page,
        "Next: storewise run s.yaml --retry-failed",
    ]
    (results / "published.json").write_text('{"place": "s3://b/x"}')
    published = outcome(study, "s.yaml", results, logged=True, failed=False)
    assert published[2:4] == [log, "Published: s3://b/x"]
    (results / "published.json").unlink()
    demo = load_study("demo", root=ROOT)
    bundled = [str(ROOT / path) for path in demo.inputs.paths]
    for paths, step in (
        (bundled, "Next: storewise init YOUR_OUTPUTS"),
        # The user has files of their own.
        ([*bundled, str(tmp_path / "a.m10")], "Next: open the page in a browser"),
    ):
        inputs = demo.inputs.model_copy(update={"paths": paths})
        of_demo = demo.model_copy(update={"inputs": inputs})
        assert outcome(of_demo, "demo", results, logged=True, failed=False)[-1] == step
    (results / "report.html").unlink()
    assert outcome(study, "s.yaml", results, logged=True, failed=False) == []
