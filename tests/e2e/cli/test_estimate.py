"""What a study will cost, before it runs: counted by hand, and with earlier results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from storewise.estimate.work import documents_of
from storewise.study.load import load_study
from storewise.study.study import Study

if TYPE_CHECKING:
    from support.s3.server import Bucket


def load(root: Path, text: str, **options: Any) -> Study:
    (root / "s.yaml").write_text(text)
    return load_study(root / "s.yaml", root=root, **options)


INPUTS = "engines: [null]\nphases: [write]\n"


def test_documents_on_s3_come_from_the_sizes_of_objects(tmp_path: Path, s3: Bucket) -> None:
    for i in range(3):
        s3.put(f"in/{i}.m10", b"x" * 1630)
    study = load(tmp_path, f"inputs: {{paths: 's3://{s3.name}/in/'}}\n{INPUTS}")
    assert documents_of(study, tmp_path).mean == 30
    study = load(tmp_path, f"inputs: {{paths: 's3://{s3.name}/none/'}}\n{INPUTS}")
    assert f"looked at: s3://{s3.name}/none/: no input file" in documents_of(study, tmp_path).source
