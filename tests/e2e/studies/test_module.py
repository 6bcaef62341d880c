"""The workflow as a module of another one (docs/snakemake.md): its own prefix, and its config."""

import re
import sys

from support.paths import ROOT
from support.workspace import Workspace

STUDY = "workload: ycsb\nengines: [sqlite]\nphases: [load: {recordcount: 50}, c: {seconds: 0.3}]\n"


def own_workflow():
    """The block of the page, with this checkout and a rule that uses its report."""
    page = (ROOT / "docs" / "snakemake.md").read_text()
    (block,) = re.findall(r"```python\n(module storewise:.*?)```", page, re.DOTALL)
    block = block.replace("/path/to/storewise", str(ROOT)).replace("results/demo", "results/s")
    rule = "    default_target: True\n    input:\n"
    return (
        "configfile: 'own.yaml'\n"
        + block.replace("    input:\n", rule)
        + "    output:\n        'own.html',\n    shell:\n        'cp {input} {output}'\n"
    )


def test_another_workflow_measures_below_its_own_prefix(tmp_path):
    place = Workspace(tmp_path)
    place.write_study(STUDY)
    (tmp_path / "Snakefile").write_text(own_workflow())
    (tmp_path / "own.yaml").write_text("storewise: {study: s.yaml}\nof: the other workflow\n")
    done = place.run([sys.executable, "-m", "snakemake", "--cores", "4"])
    assert done.returncode == 0, done.stdout + done.stderr
    results = tmp_path / "stores" / "results" / "s"
    assert (tmp_path / "own.html").read_text() == (results / "report.html").read_text()
    assert len(list(results.glob("trials/*/verify.parquet"))) == 1
    assert not (tmp_path / "results").exists(), "all is below the prefix"
    left = [name for name in ("live", "leases") if (results / name).exists()]
    assert left == [] and list(results.glob("trials/*/store.*")) == []
    again = place.run([sys.executable, "-m", "snakemake", "--cores", "4", "storewise_analysis"])
    assert again.returncode == 0, again.stdout + again.stderr
