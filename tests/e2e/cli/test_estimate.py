"""What a study will cost, before it runs: counted by hand, and with earlier results."""

from storewise.estimate.work import documents_of
from storewise.study.load import load_study


def load(root, text, **options):
    (root / "s.yaml").write_text(text)
    return load_study(root / "s.yaml", root=root, **options)


INPUTS = "engines: [null]\nphases: [write]\n"


def test_documents_on_s3_come_from_the_sizes_of_objects(tmp_path, s3):
    for i in range(3):
        s3.put(f"in/{i}.m10", b"x" * 1630)
    study = load(tmp_path, f"inputs: {{paths: 's3://{s3.name}/in/'}}\n{INPUTS}")
    assert documents_of(study, tmp_path).mean == 30
    study = load(tmp_path, f"inputs: {{paths: 's3://{s3.name}/none/'}}\n{INPUTS}")
    assert f"looked at: s3://{s3.name}/none/: no input file" in documents_of(study, tmp_path).source
