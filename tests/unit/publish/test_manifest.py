"""A manifest of published results cannot lead elsewhere."""

import json

import pytest

from storewise.publish.manifest import NoManifest, parse_manifest
from storewise.s3.client import ObjectError

DIRECTING = [
    *("leases/x", "live/t/nodes/data0.json", "external/t.json", "run.json", "published.json"),
    *("LEASES/x", ".snakemake/scripts/x.py", "trials/.x"),
]


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"files": [{"path": "../x"}]}, "leads out of the results directory"),
        ({"files": [{"path": "/etc/x"}]}, "leads out of the results directory"),
        # Runs read in such files which processes to end, which directories and tables to remove.
        *(({"files": [{"path": path}]}, "is not a result: a file of this") for path in DIRECTING),
        *(
            ({"files": [{"path": path}]}, "control character, or a name that starts with a dash")
            for path in ("a\nb", "\x1b[2Jx", "trials/-rf", "a\0b")
        ),
        *(({"study": name}, "study: .*not a study's name") for name in ("..", "-rf", "a\nb")),
        ({"format": 2}, "of format 2, this version of Storewise reads 1"),
        ({"files": None}, "not a manifest of a publication"),
        ({"files": [{"path": "x"}, {"path": "x"}]}, "files: .*name a path twice"),
        ({"files": [{"path": "x", "modified_ns": 10**30}]}, "modified_ns: Input should be less"),
    ],
)
def test_a_manifest_cannot_lead_elsewhere(change, expected):
    entry = {"bytes": 0, "sha256": "0" * 64, "modified_ns": 0, "etag": ""}
    data: dict[str, object] = {
        **{"format": 1, "complete": True, "study": "s", "name": "", "run": "", "storewise": ""},
        **{"published": "", "tags": {}, "files": []},
        **change,
    }
    if isinstance(data["files"], list):
        data["files"] = [entry | one for one in data["files"]]
    with pytest.raises(ObjectError, match=expected):
        parse_manifest(json.dumps(data).encode(), "s3://b/MANIFEST.json")


def test_brackets_without_end_are_no_manifest():
    with pytest.raises(NoManifest, match="not a manifest of a publication"):
        parse_manifest(b"[" * 100_000, "s3://b/MANIFEST.json")
