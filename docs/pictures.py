"""Make ``docs/report.png`` and the gallery from finished studies.

``python docs/pictures.py results/demo results/servers``: the first study is the
picture of the README, each is a part of ``docs/gallery.md``. Reports are taken as they lie there;
make them anew first (``storewise report NAME``). Needs playwright and Chromium, as the tests do.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).resolve().parent
#: What a reader sees without scrolling.
SIZE = {"width": 1280, "height": 800}
COLOURS = 128
MOST_BYTES = 150_000
INTRODUCTION = """\
# Gallery

Finished reports, each with its first screen as it was measured: numbers are of one machine and say
nothing of yours. `python docs/pictures.py` makes this page; `storewise run` makes the reports, with
your own numbers.
"""


def first_screens(pages: list[Path]) -> list[bytes]:
    """The first screen of each page, as small PNG files."""
    shots = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        screen = browser.new_page(viewport=SIZE, color_scheme="light")
        for page in pages:
            screen.goto(page.resolve().as_uri(), wait_until="load")
            screen.evaluate("document.fonts.ready")
            shots.append(few_colours(screen.screenshot()))
        browser.close()
    return shots


def few_colours(png: bytes) -> bytes:
    """The picture with a palette, which is smaller: pages have few colours."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    written = io.BytesIO()
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    if written.tell() > MOST_BYTES:
        raise SystemExit(f"a picture has {written.tell()} bytes, more than {MOST_BYTES}")
    return written.getvalue()


def part(results: Path, picture: str) -> str:
    """The section of the gallery for a study."""
    study = json.loads((results / "study.json").read_text(encoding="utf-8"))
    run = json.loads((results / "run.json").read_text(encoding="utf-8"))
    verdict = json.loads((results / "analysis" / "verdict.json").read_text(encoding="utf-8"))
    answer = verdict["answer"]
    day = datetime.fromtimestamp(run["started"], UTC)
    trials = len(list((results / "trials").iterdir()))
    return f"""
## {study["title"]}

![The first screen of the report of {study["name"]}]({picture})

**{answer["sentence"]}** {answer["beside"]} (Sure: {answer["sure"]}.)

Measured on {day.day} {day:%B %Y}, {trials} trials. The same on your machine:

```
storewise run {study["name"]}
```
"""


def main(studies: list[Path]) -> None:
    if not studies:
        raise SystemExit(__doc__)
    shots = first_screens([study / "report.html" for study in studies])
    (DOCS / "report.png").write_bytes(shots[0])
    parts = []
    for study, shot in zip(studies, shots, strict=True):
        picture = DOCS / f"gallery-{study.resolve().name}.png"
        picture.write_bytes(shot)
        parts.append(part(study, picture.name))
    (DOCS / "gallery.md").write_text(INTRODUCTION + "".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
