"""Profiles: finding and reading them."""

from pathlib import Path

import pytest
from support.paths import ROOT

from storewise.errors import ConfigError, StorewiseError
from storewise.run.profiles import find_profile, node_classes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The user's Snakemake folder, empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "snakemake"


def test_a_profile_is_found_as_snakemake_finds_it(folder, tmp_path, monkeypatch):
    """By a name of this checkout, by a path, in the user's folder or the system's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "system"))
    assert find_profile("slurm", ROOT) == ROOT / "profiles" / "slurm" / "config.yaml"
    for place, name in (("system/snakemake/site", "site"), (folder / "own", "own"), ("x", "x")):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "config.yaml").write_text("jobs: 1\n")
        assert find_profile(name, ROOT).resolve() == tmp_path / place / "config.yaml"
    assert find_profile("x/config.yaml", ROOT) == Path("x/config.yaml")
    newer = folder / "own" / "config.v9+.yaml"
    newer.touch()
    assert find_profile("own", ROOT) == folder / "own" / "config.yaml"
    (folder / "own" / "config.yaml").unlink()
    assert find_profile("own", ROOT) == newer
    with pytest.raises(
        StorewiseError,
        match=r"called 'slrum' \(did you mean 'slurm'\?\); known here: aws, local, pbs, slurm",
    ):
        find_profile("slrum", ROOT)


def test_the_hosts_that_a_profile_knows(tmp_path):
    for text, classes in (
        ("jobs: 1\n", {}),
        ("set-resources: {load: {mem_mb: 1}}\n", {}),
        ("set-resources: {node: {mem_mb: 1}, load: }\n", {}),
        ("set-resources: {node: }\n", {}),
        ("set-resources: {node: {node_classes: \"'a=fast/i3.large'\"}}\n", {"a": "fast"}),
        ("set-resources: ['x:m=1', 'node:node_classes=a=b, c=d/i4']\n", {"a": "b", "c": "d"}),
        ("set-resources: ['node:node_classes=a=b', 'node:node_classes=a=c']\n", {"a": "c"}),
    ):
        (tmp_path / "config.yaml").write_text(text)
        found = node_classes(str(tmp_path), ROOT)
        assert {name: known.partition for name, known in found.items()} == classes
    (tmp_path / "config.yaml").write_text("set-resources: {node: {node_classes: \"'a='\"}}\n")
    with pytest.raises(ConfigError, match="a name is missing"):
        node_classes(str(tmp_path), ROOT)
