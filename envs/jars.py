"""Write the lists of jars that `storewise install` fetches: ``python envs/jars.py``.

Maven resolves ``NAME/pom.xml`` of this folder and fetches the jars; the list, in
``storewise/engines/NAME/install.jars``, has the checksum, size and coordinate of each. To take
another version of a store: change its pom, run this, and look at what has changed.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENGINES = HERE.parent / "storewise" / "engines"
STORES = ("cassandra", "hbase")
#: A line of `dependency:list`: group, artefact, type, perhaps a classifier, version, scope.
LINE = re.compile(r"\s*([\w.-]+):([\w.-]+):jar(?::([\w.-]+))?:([\w.-]+):(?:compile|runtime)\b.*")


def jars_of(name: str) -> list[str]:
    """The lines of a store's list, in the order of coordinates."""
    lines = []
    with tempfile.TemporaryDirectory() as place:
        listing, jars = Path(place) / "list", Path(place) / "jars"
        scope = "-DincludeScope=runtime"
        goals = (
            ["dependency:list", scope, f"-DoutputFile={listing}"],
            ["dependency:copy-dependencies", scope, f"-DoutputDirectory={jars}"],
        )
        for goal in goals:
            subprocess.run(["mvn", "-B", "-q", "-f", HERE / name / "pom.xml", *goal], check=True)
        for line in listing.read_text(encoding="utf-8").splitlines():
            if (match := LINE.fullmatch(line)) is None:
                continue
            group, artefact, classifier, version = match.groups()
            parts = [artefact, version, *([classifier] if classifier else [])]
            content = (jars / f"{'-'.join(parts)}.jar").read_bytes()
            digest = sha256(content).hexdigest()
            lines.append(f"{':'.join([group, *parts])} {len(content)} {digest}")
        if len(lines) != len(list(jars.iterdir())):
            raise SystemExit(f"{name}: not every jar that was fetched is in Maven's list")
    return sorted(lines)


def main() -> None:
    for name in STORES:
        lines = "".join(f"{line}\n" for line in jars_of(name))
        (ENGINES / name / "install.jars").write_text(lines)


if __name__ == "__main__":
    main()
