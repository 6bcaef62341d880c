"""profiles/aws/cluster.yaml: what its user sets, and the study of its README."""

import re

import boto3
from botocore.exceptions import ClientError, NoRegionError
from support.paths import ROOT

from storewise.s3.client import error_of
from storewise.study.load import load_study

AWS = ROOT / "profiles" / "aws"
CLUSTER = (AWS / "cluster.yaml").read_text()
README = (AWS / "README.md").read_text()


def test_few_values_are_to_be_set_and_marked():
    marked = [line for line in CLUSTER.splitlines() if "# SET" in line]
    keys = [re.match(r"[ -]*\{?(?:Key: )?(\w+)", line)[1] for line in marked]
    assert keys == ["Region", "study", "owner", "CustomS3Bucket", "SubnetId", "Script", "Args"]
    # What is unmarked must not have to be changed.
    for placeholder in ("my-storewise-bucket", "subnet-0", "example.org", "us-east-1"):
        lines = [x for x in CLUSTER.splitlines() if placeholder in x and "ImportPath" not in x]
        assert lines and all(line in marked for line in lines), placeholder


def test_the_study_of_the_readme_is_one(tmp_path):
    (written,) = re.findall(r"cat > mine.yaml <<'END'\n(.*?)\nEND\n", README, re.DOTALL)
    (tmp_path / "mine.yaml").write_text(written)
    study = load_study(tmp_path / "mine.yaml", root=ROOT)
    assert study.publish is not None and study.max_cost is not None
    # A node's memory, and what Storewise takes beside it, fit what Slurm gives of 64 GiB (95 %).
    assert {t.node_memory_mb for t in study.trials()} == {61440}
    assert 61440 + 256 <= 0.95 * 64 * 1024


def test_the_region_is_said_where_boto3_looks(monkeypatch):
    """It does not look into AWS_REGION, nor does ParallelCluster: the AWS CLI alone does."""
    (name,) = re.findall(r"export (\w+)=us-east-1 BUCKET", README)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv(name, "eu-north-1")
    assert boto3.Session().region_name == "eu-north-1"
    assert f"export {name}=" in (AWS / "bootstrap.sh").read_text()
    for error in (NoRegionError(), ClientError({"Error": {"Code": "PermanentRedirect"}}, "x")):
        assert f"set {name} " in str(error_of("s3://b/k", error))
