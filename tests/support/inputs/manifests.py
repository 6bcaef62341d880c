"""Small inputs of manifests, good and bad."""

import pytest
from support.paths import DATA


def small(name):
    """A real output with a line that makes its content its own."""
    content = (DATA / "ssearch36_nohits.m10").read_bytes()
    return content + f"\nkept as {name}\n".encode()


@pytest.fixture
def files(tmp_path):
    place = tmp_path / "in"
    (place / "deep" / "er").mkdir(parents=True)
    for name in ("b.m10", "a.m10", "deep/c.m10", "deep/er/d.m10"):
        (place / name).write_bytes(small(name))
    (place / ".hidden.m10").write_bytes(b"not looked at")
    return place


@pytest.fixture
def with_bad(files):
    (files / "a0.m10").write_bytes(small("cut")[:3000])
    (files / "z.m10").write_text("a\tb\n")
    (files / "zz.m10").symlink_to(files / "nowhere")
    return files
