"""Where the tests find the project's files."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
#: Outputs of other programs and recorded answers of schedulers and servers.
DATA = TESTS / "data"
SAMPLE = ROOT / "resources" / "sample"
#: The smallest files of the sample: a few hundred documents each.
SMALL = sorted(SAMPLE.glob("*.m10.*"), key=lambda path: (path.stat().st_size, path.name))[:6]
