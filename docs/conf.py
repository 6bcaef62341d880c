"""Settings of Sphinx: ``make docs`` builds docs/_build/html/index.html from the project's pages.

Sources are the pages as they lie in the repository, so that each link works there and on the site.
The table of contents is that of docs/README.md, and is said there only.
"""

from __future__ import annotations

import builtins
import re
from importlib.metadata import version as version_of
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref

project = "Storewise"
author = "The Storewise developers"
version = release = version_of("storewise")
copyright = author

root_doc = "docs/README"
include_patterns = [
    *["README.md", "CONTRIBUTING.md", "docs/*.md"],
    *["docs/api/*.md", "docs/decisions/*.md", "docs/engines/*.md"],
    *["config/**.md", "results/README.md", "profiles/**.md", "resources/sample/README.md"],
]
# Folders that nobody wants walked through: results can have many thousands of files.
exclude_patterns = [".*", "docs/_build", "results/[!R]*", "storewise", "tests", "build", "dist"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_heading_anchors = 4
# Docstrings are prose: what stands in backticks is code.
default_role = "code"
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "show-inheritance": True,
    "exclude-members": "model_config",
}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"Storewise {version}"
html_copy_source = False
html_extra_path = ["index.html"]


def add_contents(app: Any, page: str, source: list[str]) -> None:
    """Add a hidden table of contents: to the index with one group per heading, to the pages of
    stores and of decisions with their subpages."""
    if page in ("docs/engines", "docs/decisions"):
        names = dict.fromkeys(re.findall(r"\]\(((?:engines|decisions)/\w+)\.md\)", source[0]))
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"
    if page != root_doc:
        return
    groups = re.split(r"^## (.+)$", source[0], flags=re.MULTILINE)[1:]
    for heading, text in zip(groups[::2], groups[1::2], strict=True):
        links = re.findall(r"\[([^\]]+)\]\(([^)#\s]+)\.md\)", text)
        body = "\n".join(f"{title} <{name}>" for title, name in links)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{body}\n```\n"


def unlink_builtins(app: Any, doctree: Any) -> None:
    """Remove links of `bytes` in signatures: the type is meant, not a field of that name."""
    for reference in list(doctree.findall(pending_xref)):
        if hasattr(builtins, reference.get("reftarget", "")):
            reference.replace_self(nodes.Text(reference["reftarget"]))


def setup(app: Any) -> None:
    app.connect("source-read", add_contents)
    app.connect("doctree-read", unlink_builtins)
