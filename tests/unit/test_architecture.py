"""The house as docs/architecture.md has it: who imports whom, and what a folder holds."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from importlinter.api import read_configuration, use_cases
from support.paths import ROOT

from storewise.engines.registry import ENGINES

LIBRARY = ROOT / "storewise"
CODE = {".py", ".smk", ".yaml", ".js", ".html", ".sql"}
#: Modules of one folder, and those at the root that every room may import.
MOST_MODULES = 20
MOST_GROUND = 7


def modules(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]


def test_rooms_import_only_what_stands_below_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    config = str(ROOT / "pyproject.toml")
    contracts = read_configuration(config)["contracts_options"]
    assert {contract["type"] for contract in contracts} == {"layers", "acyclic_siblings"}
    use_cases.read_user_options(config)
    kept = use_cases.lint_imports(config_filename=config, cache_dir=None)
    assert kept is use_cases.SUCCESS, capsys.readouterr().out


def test_the_drawing_is_what_is_drawn() -> None:
    """`python docs/draw.py` draws it from the order of the rooms."""
    draw = runpy.run_path(str(ROOT / "docs" / "draw.py"))
    assert (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8") == draw["drawing"]()
    rooms = [room for floor in draw["layers"]() for room in floor]
    there = {path.stem for path in modules(LIBRARY)}
    there |= {path.parent.name for path in LIBRARY.glob("*/__init__.py")}
    assert sorted(rooms) == sorted(there) == sorted(draw["QUESTIONS"])


def test_folders_can_be_seen_at_a_glance() -> None:
    assert len(modules(LIBRARY)) <= MOST_GROUND
    sizes = {
        str(folder.relative_to(ROOT)): len(modules(folder))
        for folder in LIBRARY.rglob("*")
        if folder.is_dir()
    }
    assert {name: size for name, size in sizes.items() if size > MOST_MODULES} == {}


def test_types_are_imported_as_everything_else_is() -> None:
    """A circle that only a type checker meets is a circle all the same."""
    paths = [path for path in LIBRARY.rglob("*.py") if "TYPE_CHECKING" in path.read_text()]
    assert paths == []


def test_code_that_an_analysis_is_made_of_is_a_reason_to_make_it_again() -> None:
    rules = (ROOT / "rules" / "analysis.smk").read_text()
    (made,) = re.findall(r"code_digest\((.*?)\),\n    message", rules, re.DOTALL)
    known = set(re.findall(r'"(\w+)"', made))
    rooms = ("analysis", "figures", "report")
    texts = [p.read_text() for n in rooms for p in (ROOT / "storewise" / n).rglob("*.py")]
    imported = {name for text in texts for name in re.findall(r"from storewise\.(\w+)", text)}
    assert {n for n in imported if (ROOT / "storewise" / n).is_dir()} <= known


def test_every_document_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    links = set(re.findall(r"\]\(([a-z0-9_-]+\.md)\)", index))
    assert links == {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}


#: Names of engines that are words or formats as well.
WORDS = {"files", "null", "parquet", "sql"}


def test_only_the_registry_names_a_store() -> None:
    """What the rest must know of a store is asked of its engine."""
    names = set(ENGINES) - WORDS
    folders = [LIBRARY, ROOT / "scripts", ROOT / "rules"]
    paths = [path for folder in folders for path in folder.rglob("*") if path.suffix in CODE]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        if LIBRARY / "engines" not in path.parents
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if any(name in names for _, name in re.findall(r"([\"'])(\w+)\1", line))
    ]
    assert found == []
    # A store's folder names no other store.
    inside = list((LIBRARY / "engines").glob("*/*.py"))
    others = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in inside
        for name in re.findall(r"^from storewise\.engines\.(\w+)", path.read_text(), re.MULTILINE)
        if name not in ("contract", "support", "sql", "registry", path.parent.name)
    ]
    assert others == []
