"""Write the conda files of this folder from pyproject.toml: ``python envs/generate.py``.

Each has what a rule's Python needs. ``[tool.storewise.conda]`` says what else: the programs of a
store's servers, or of a search. A test holds the files to what this prints.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
#: conda-forge's names where they differ.
NAMES = {
    "duckdb": "python-duckdb",
    "matplotlib": "matplotlib-base",
    "snakemake": "snakemake-minimal",
    "zstandard": "python-zstandard",
}
#: Of the command line only; no rule needs them.
COMMAND_LINE = {
    "platformdirs",
    "typer",
    "rich",
    "snakemake-executor-plugin-slurm",
}
#: What conda-forge does not have; its `valkey` is the server.
FROM_PIP = {"hdrhistogram", "libvalkey", "mysqlclient-static", "valkey"}
BIOCONDA = {"fasta3"}
HEAD = """\
# Written by envs/generate.py: what a rule's Python needs{more}. Used with
# --software-deployment-method conda; the library itself comes from the workflow's own directory.
channels:
"""


def environments() -> dict[str, str]:
    """The text of each file by its name."""
    project: dict[str, Any] = tomllib.loads((HERE.parent / "pyproject.toml").read_text())
    conda: list[str] = []
    pip: list[str] = []
    for text in project["project"]["dependencies"]:
        name, bounds = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?(.*)", text).groups()  # type: ignore[union-attr]
        bounds = bounds.replace(";", " ;")  # a marker, as pip's own files have it
        if name not in COMMAND_LINE:
            (pip if name in FROM_PIP else conda).append(f"{NAMES.get(name, name)} {bounds}")
    result = {}
    for name, more in {"storewise": [], **project["tool"]["storewise"]["conda"]}.items():
        channels = ["conda-forge", "nodefaults"]
        if any(text.split()[0] in BIOCONDA for text in more):
            channels.insert(1, "bioconda")
        python = project["project"]["requires-python"]
        lines = [HEAD.format(more=", and " + " and ".join(more) if more else "")]
        lines += [f"  - {channel}\n" for channel in channels]
        lines += ["dependencies:\n", f"  - python {python}\n", "  - pip\n"]
        lines += [f"  - {text}\n" for text in [*conda, *more]]
        lines += ["  - pip:\n", *(f"      - {text}\n" for text in pip)]
        result[f"{name}.yaml"] = "".join(lines)
    return result


def main() -> None:
    for name, text in environments().items():
        (HERE / name).write_text(text)


if __name__ == "__main__":
    main()
