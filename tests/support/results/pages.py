"""What a made-up study needs so that its page has something of everything to show."""

import json

from support.results.references import CSV, YAML

from storewise.layout import REFERENCES

#: A trial that the study does not have.
FACTORS = {
    "engine": "duckdb",
    "workers": 4,
    "processes": 1,
    "threads": 1,
    "consistency": "durable",
    "index": "none",
}
#: What a name in the inputs must never become.
EVIL = "<script>window.hit = 1</script></script><img src=x onerror='window.hit = 2'><!--"
TAKEN = "EC2 takes back host data-dy-1 (spot interruption at 2026-03-01T08:22:00Z)"


def publish_beside(study):
    """Published figures of a store of this study over workers, which the study names."""
    path = study / "study.json"
    message = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**message, "references": ["nobody2001"]}), encoding="utf-8")
    yaml = YAML.replace(
        "{column: n, level: nodes}, same: {key: key}", "{column: n, level: workers}"
    )
    yaml = yaml.replace("theirs: [{engine: postgres}, {engine: mariadb, nodes: {from: 2}}]", "")
    yaml = yaml.replace("title: On stores", "title: On <b>stores</b>") + "pairs: []\n"
    kept = {"nobody2001": {"yaml": yaml, "csv": CSV.replace("theirs", "duckdb")}}
    (study / REFERENCES).write_text(json.dumps(kept), encoding="utf-8")


def fail(study, trial, *reasons, broken=""):
    """Attempts at a trial that failed before it was measured."""
    (study / "failures").mkdir(exist_ok=True)
    with (study / "failures" / f"{trial}.jsonl").open("a") as file:
        for i, reason in enumerate(reasons):
            message = {"trial": trial, "reason": reason, "log_tail": f"tail {i}", "run": "r"}
            file.write(json.dumps({**message, "at": 1_772_353_320.0 + i}) + "\n")
        file.write(broken)
