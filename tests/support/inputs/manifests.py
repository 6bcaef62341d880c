"""Small inputs of manifests, good and bad."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.paths import SAMPLE

from storewise.ssearch.parse.stream import open_input


def small(name: str) -> bytes:
    """A real output with a line that makes its content its own."""
    with open_input(SAMPLE / "queries_01__yersinia.m10.gz") as stream:
        data = b"".join(iter(lambda: stream.read(1 << 20), b""))
    return data + f"\nkept as {name}\n".encode()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    place = tmp_path / "in"
    (place / "deep" / "er").mkdir(parents=True)
    for name in ("b.m10", "a.m10", "deep/c.m10", "deep/er/d.m10"):
        (place / name).write_bytes(small(name))
    (place / ".hidden.m10").write_bytes(b"not looked at")
    return place


# --- bad files ---------------------------------------------------------------------------------


@pytest.fixture
def with_bad(files: Path) -> Path:
    (files / "a0.m10").write_bytes(small("cut")[:3000])
    (files / "z.m10").write_text("a\tb\n")
    (files / "zz.m10").symlink_to(files / "nowhere")
    return files
