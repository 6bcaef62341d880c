"""The example of `docs/adding-a-store.md` is a store: it passes the contract's tests."""

import os
import re
import subprocess
import sys

import pytest
from support.paths import ROOT

PLUGIN = """
import storewise.engines
from storewise.engines.registry import ENGINES

storewise.engines.__path__.append({folder!r})
ENGINES.update({{ {line} }})
"""


@pytest.mark.slow
def test_the_example_passes_the_contract(tmp_path):
    page = (ROOT / "docs" / "adding-a-store.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```python\n# (storewise/\S+)\n(.*?)```", page, re.DOTALL))
    module = tmp_path / "dictionary" / "engine.py"
    module.parent.mkdir()
    module.write_text(blocks["storewise/engines/dictionary/engine.py"], encoding="utf-8")
    line = blocks["storewise/engines/registry.py"].strip()
    plugin = PLUGIN.format(folder=str(tmp_path), line=line)
    (tmp_path / "with_the_example.py").write_text(plugin, encoding="utf-8")
    paths = [str(tmp_path), str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "with_the_example",
         "tests/contract/test_verbs.py", "-k", "dictionary", "-m", "not slow"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0 and passed is not None, done.stdout[-5000:] + done.stderr[-2000:]
    assert int(passed[1]) > 25
