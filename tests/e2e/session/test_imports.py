"""What the start of a job imports: hundreds of jobs a study start, and each pays for it."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from support.paths import ROOT

#: What only an analysis, a command, one store or one source of inputs needs.
ANALYSIS = {"pandas", "polars", "scipy", "statsmodels", "matplotlib", "jinja2"}
COMMANDS = {"typer", "rich", "snakemake", "requests"}
STORES = {
    "duckdb",
    "pymongo",
    "psycopg",
    "cassandra",
    "redis",
    "chdb",
    "boto3",
    "obstore",
}
MEASURED = {"pyarrow", "hdrh", "bson", "numpy"}
LISTS = {"pyarrow.compute", "pyarrow.dataset", "sqlite3"}
NEEDLESS = {
    "open_session": ANALYSIS | COMMANDS | STORES | MEASURED | LISTS,
    **dict.fromkeys(
        ("form", "node", "close", "worker", "verify"), ANALYSIS | COMMANDS | STORES | LISTS
    ),
}


@pytest.mark.parametrize("script", NEEDLESS)
def test_a_job_of_a_trial_imports_what_every_trial_needs(script: str) -> None:
    tree = ast.parse((ROOT / "scripts" / f"{script}.py").read_text())
    imports = [ast.unparse(node) for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert imports
    code = "; ".join([*imports, "import sys", "print(*sys.modules)"])
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    needless = sorted(NEEDLESS[script].intersection(run.stdout.split()))
    assert needless == []
