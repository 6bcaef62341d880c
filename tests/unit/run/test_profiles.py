"""Profiles: finding and reading them, and installing them under their names."""

import shutil
from pathlib import Path

import pytest
from support.commands import storewise
from support.paths import ROOT

from storewise.errors import ConfigError, StorewiseError
from storewise.run.profiles import find_profile, install, node_classes, profiles, user_folder

SHIPPED = ["aws", "local", "pbs", "slurm"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The user's Snakemake folder, empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "snakemake"


def test_profiles_are_installed_by_name_or_all(folder):
    assert [profile.name for profile in profiles(ROOT)] == SHIPPED
    assert not any(profile.installed for profile in profiles(ROOT))
    installed = install(["pbs"], home=ROOT)
    assert [profile.link for profile in installed] == [folder / "pbs"]
    assert [p.name for p in profiles(ROOT) if p.installed] == ["pbs"]
    install(home=ROOT)
    assert sorted(path.name for path in folder.iterdir()) == SHIPPED
    install(home=ROOT)


def test_nothing_of_the_user_is_replaced_unasked(folder, tmp_path):
    own = folder / "slurm"
    own.mkdir(parents=True)
    (own / "config.yaml").write_text("jobs: 3\n")
    (folder / "pbs").symlink_to(tmp_path)
    with pytest.raises(StorewiseError, match=r"pbs points to .*slurm is another profile.*--force"):
        install(home=ROOT)
    assert not (folder / "local").exists()
    assert (own / "config.yaml").read_text() == "jobs: 3\n"
    install(home=ROOT, force=True)
    assert all(profile.installed for profile in profiles(ROOT))
    assert tmp_path.is_dir()


def test_a_wrong_name_and_a_moved_checkout(folder, tmp_path):
    with pytest.raises(StorewiseError, match=r"slrm: no such profile.*aws, local, pbs, slurm"):
        install(["pbs", "slrm"], home=ROOT)
    assert not folder.exists(), "nothing is linked where one is refused"
    elsewhere = tmp_path / "moved"
    shutil.copytree(ROOT / "profiles", elsewhere / "profiles")
    install(["pbs", "pbs"], home=elsewhere)
    shutil.rmtree(elsewhere)
    with pytest.raises(StorewiseError, match="pbs points to"):
        install(["pbs"], home=ROOT)
    install(["pbs"], home=ROOT, force=True)
    assert (folder / "pbs" / "config.yaml").is_file()
    assert [path.name for path in folder.iterdir()] == ["pbs"]
    shutil.rmtree(folder.parent)
    folder.parent.write_text("")
    with pytest.raises(StorewiseError, match=r"profile pbs cannot be linked at .*pbs: "):
        install(["pbs"], home=ROOT)


def test_a_profile_is_found_as_snakemake_finds_it(folder, tmp_path, monkeypatch):
    """By a name of this checkout, by a path, in the user's folder or the system's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "system"))
    assert user_folder() == folder
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


def test_the_command_lists_and_installs(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert "not installed" in storewise("profiles").stdout
    done = storewise("profiles", "install", "pbs")
    assert (done.returncode, (folder / "pbs").is_symlink()) == (0, True)
    assert "installed: snakemake --profile pbs" in storewise("profiles").stdout
    # Where the package alone was installed with pip, it is said where profiles are.
    monkeypatch.setattr("storewise.run.runner.LIBRARY", tmp_path / "site-packages")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorewiseError, match=r"site-packages: run this in a checkout .*`make env`"):
        install()
