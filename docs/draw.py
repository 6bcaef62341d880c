"""Draw ``docs/architecture.svg``, the packages by layer: ``python docs/draw.py``.

The rooms and their order are those of ``[tool.importlinter]`` in pyproject.toml, which a test holds
the imports to; another test holds the drawing to what this prints.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: The question that each room answers.
QUESTIONS = {
    "cli": "What does a user type?",
    "report": "What does the page show?",
    "run": "How is a study run from here?",
    "figures": "What is drawn?",
    "compare": "What differs between two studies?",
    "driver": "How do clients work?",
    "estimate": "What will it cost?",
    "watch": "What does a run do now?",
    "publish": "How do results go to S3?",
    "analysis": "What do the results mean?",
    "schedulers": "How are jobs submitted and cancelled?",
    "session": "How do servers live and end?",
    "study": "What is measured? File, checks, trials",
    "workloads": "What do clients ask of a store? Alignments, YCSB, sensors",
    "engines": "How does each store do it? A folder a store, a contract for all",
    "dataset": "What is in a data set? Sorted Parquet files, updates",
    "ssearch": "What do outputs hold? Parser, manifest, searches",
    "metrics": "What is recorded? Times, hosts, the result schema",
    "s3": "How are objects read and written?",
    "atomic": "small files, whole or not at all",
    "processes": "children and signals",
    "waiting": "a look again and again",
    "yamlfile": "YAML with line numbers",
    "documents": "kinds, fields, ids",
    "errors": "messages for users",
    "layout": "names of files",
}
WIDTH, MARGIN, GAP, ROW = 960, 12, 10, 66
#: Pixels of a letter of the small text, about.
LETTER = 6.1
STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #4b5563 }
.name { font-weight: 600; font-size: 15px; fill: #111827 }
rect { fill: #f3f4f6; stroke: #9ca3af }
.ground { fill: #e5e7eb }
path { stroke: #6b7280; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #b6bec9 }
  .name { fill: #f3f4f6 }
  rect { fill: #1f2937; stroke: #6b7280 }
  .ground { fill: #374151 }
  path { stroke: #9ca3af }
}"""


def layers() -> list[list[str]]:
    """The packages of each layer, the highest layer first."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    floors = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [re.split(r"\s*[|:]\s*", floor) for floor in floors]


def drawing() -> str:
    """The text of the SVG file."""
    floors = layers()
    height = len(floors) * ROW + 2 * MARGIN
    inner = WIDTH - 2 * MARGIN - 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>The rooms of Storewise: each may import those below it</title>",
        f"<style>\n{STYLE}\n</style>",
    ]
    for floor, rooms in enumerate(floors):
        width = (inner - GAP * (len(rooms) - 1)) / len(rooms)
        top = MARGIN + floor * ROW
        for place, room in enumerate(rooms):
            left = MARGIN + place * (width + GAP)
            ground = floor >= len(floors) - 2
            kind = ' class="ground"' if ground else ""
            parts.append(
                f'<rect{kind} x="{left:.1f}" y="{top}" width="{width:.1f}" height="{ROW - GAP}" '
                'rx="5"/>'
            )
            label = room if ground else f"{room}/"
            parts.append(f'<text class="name" x="{left + 10:.1f}" y="{top + 19}">{label}</text>')
            lines = textwrap.wrap(QUESTIONS[room], int((width - 16) / LETTER))
            parts += [
                f'<text x="{left + 10:.1f}" y="{top + 35 + 14 * number}">{escape(line)}</text>'
                for number, line in enumerate(lines)
            ]
    right, bottom = WIDTH - 18, height - MARGIN - GAP
    parts.append(f'<path d="M{right} {MARGIN} V{bottom} m-5 -8 l5 8 l5 -8"/>')
    middle = height / 2
    parts.append(
        f'<text x="{right - 6}" y="{middle}" transform="rotate(-90 {right - 6} {middle})" '
        'text-anchor="middle">may import</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    (HERE / "architecture.svg").write_text(drawing(), encoding="utf-8")
