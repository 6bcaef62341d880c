"""Promises of the project's own files."""

from __future__ import annotations

import re
import runpy
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.paths import ROOT

#: Where code is.
TOPS = ("storewise", "tests", "benchmarks", "scripts", "rules", "report", "envs")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_conda_environments_are_what_is_generated() -> None:
    """`python envs/generate.py` writes them from what the package asks for."""
    generate = runpy.run_path(str(ROOT / "envs" / "generate.py"))
    texts = {path.name: path.read_text() for path in (ROOT / "envs").glob("*.yaml")}
    assert texts == generate["environments"]()
    for text in texts.values():
        assert yaml.safe_load(text)["channels"][0] == "conda-forge"


def test_the_catalogue_knows_that_rules_have_conda_files() -> None:
    text = (ROOT / ".snakemake-workflow-catalog.yml").read_text()
    rules = "".join(path.read_text() for path in ROOT.glob("rules/*.smk"))
    deployment = yaml.safe_load(text)["usage"]["software-stack-deployment"]
    assert deployment["conda"] == ("conda:" in rules)


def test_constraints_pin_every_requirement_within_its_bounds() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[^=/]+", line) for line in lines)
    pins = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines}
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *extras["test"], *extras["dev"], *extras["docs"]]:
        requirement = Requirement(text)
        version = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{text} is pinned to {version}"


def pages() -> list[Path]:
    """The project's own documents, not those that tools have put beside them."""
    folders = ("benchmarks", "config", "docs", "envs", "profiles", "report", "resources", "tests")
    inside = [page for name in folders for page in sorted((ROOT / name).rglob("*.md"))]
    return [*sorted(ROOT.glob("*.md")), ROOT / "results" / "README.md", *inside]


def test_relative_links_in_the_documentation_lead_somewhere() -> None:
    for page in pages():
        text = page.read_text()
        links = re.findall(r"\]\((?!https?://|#|mailto:)([^)\s#]+)", text)
        for link in links:
            assert (page.parent / link).exists(), f"{page.relative_to(ROOT)}: {link}"


def test_files_that_the_readme_names_exist() -> None:
    text = (ROOT / "README.md").read_text()
    for name in re.findall(r"`((?:config|docs|resources|profiles|results)/[\w./-]+)`", text):
        if name.startswith("results/") and name != "results/README.md":
            continue
        if "NAME" not in name:
            assert (ROOT / name).exists(), name


def test_examples_for_contributors_are_parts_of_the_project() -> None:
    """An example that nobody runs soon tells what is no longer so."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    examples = re.findall(r"```python\n# (\S+)\n(.*?)```", text, flags=re.DOTALL)
    assert len(examples) == text.count("```python")
    for name, example in examples:
        assert example in (ROOT / name).read_text(), name


DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "*/*.md", "*/*/*.md")
    for path in ROOT.glob(pattern)
    if ".venv" not in path.parts
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_modules_that_documents_name_are_there(document: Path) -> None:
    """A path from the root, or as much of one as tells the file from others: `driver/loop.py`."""
    text = document.read_text()
    files = {f"/{path.relative_to(ROOT)}" for top in TOPS for path in (ROOT / top).rglob("*.*")}
    for name in set(re.findall(r"`([\w./-]+\.(?:py|smk))`", text)):
        assert any(file.endswith(f"/{name}") for file in files), name
    for name in set(re.findall(r"\bstorewise(?:\.[a-z_]\w*)+\b(?!/)", text)):
        parts = name.split(".")
        # The last word may be a function.
        places = [ROOT.joinpath(*parts[:end]) for end in (len(parts), len(parts) - 1)]
        there = any(p.is_dir() or p.with_suffix(".py").is_file() for p in places)
        # Files, and the example in `docs/examples`.
        others = {"storewise.yaml", "storewise.tar.gz", "storewise.engines.keyvalue.engine"}
        assert there or name in others, name


def test_what_the_examples_import_is_there() -> None:
    sources = (ROOT / "docs" / "examples").glob("*/*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    for module, names in re.findall(r"^from (storewise\.[\w.]+) import (.+)$", text, re.MULTILINE):
        for name in names.split(", "):
            assert hasattr(import_module(module), name), f"{module}.{name}"


def test_pages_have_what_is_made_of_the_code() -> None:
    """`python docs/tables.py` writes it."""
    tables = runpy.run_path(str(ROOT / "docs" / "tables.py"))
    for path, text in tables["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, path


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "engines").glob("*.md")), ids=lambda p: p.stem
)
def test_the_page_of_a_store_is_short(page: Path) -> None:
    before, _, rest = page.read_text(encoding="utf-8").partition("<!-- Made by")
    words = len(before.split()) + len(rest.partition("<!-- End -->")[2].split())
    assert words <= 700
