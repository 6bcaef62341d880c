"""Profiles: what Snakemake makes of each, and installing them under their names."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.commands import storewise
from support.paths import ROOT
from support.profiles import node_resources, settings

from storewise.errors import StorewiseError
from storewise.run.profiles import install, profiles
from storewise.schedulers.pbs.options import NODE_CLASSES, status_options, submit_options
from storewise.study.host_classes import parse_classes

SHIPPED = ["aws", "local", "pbs", "slurm"]


@cache
def shipped(name: str) -> dict[str, Any]:
    result = settings(f"profiles/{name}")
    print(json.dumps({key: result[key] for key in sorted(result) if result[key]}, indent=1))
    return result


@pytest.mark.parametrize("name", SHIPPED)
def test_the_default_profile_is_on_top_of_each(name: str) -> None:
    result = shipped(name)
    assert result["rerun_incomplete"] is True
    assert result["rerun_triggers"] == ["code", "mtime", "params", "software-env"]
    assert result["show_failed_logs"] is True
    assert result["scheduler"] == "greedy"


@pytest.mark.parametrize("name", SHIPPED)
def test_the_default_profile_takes_nothing_from_another(name: str) -> None:
    """It wins over every other, so no key may stand in both with another value."""
    from snakemake.profiles import ProfileConfigFileParser

    parsed = []
    for one in ("default", name):
        with (ROOT / "profiles" / one / "config.yaml").open() as stream:
            parsed.append(ProfileConfigFileParser().parse(stream))
    default, other = parsed
    for key in default.keys() & other.keys():
        assert str(default[key]).lower() == str(other[key]).lower(), key


def test_local_workers_take_no_core() -> None:
    result = shipped("local")
    zero = 'Resource("_cores", 0)'
    assert {"load", "phase", "verify", "node"} <= result["set_threads"].keys()
    assert set(result["set_threads"].values()) == {zero}
    assert result["cores"] == os.cpu_count()
    assert result["executor"] is None


def test_slurm_is_asked_by_squeue() -> None:
    result = shipped("slurm")
    assert result["executor"] == "slurm"
    assert result["slurm_status_command"] == "squeue"
    assert int(result["slurm_init_seconds_before_status_checks"]) <= 10
    assert result["set_threads"] == {}
    # Many queues allow no more.
    for rule in ("node", "form"):
        assert node_resources(ROOT / "profiles" / "slurm", rule)["runtime"] <= 12 * 60


def test_aws_is_slurm_with_queues_of_instances() -> None:
    slurm, aws = shipped("slurm"), shipped("aws")
    assert aws["executor"] == "slurm"
    message = [key for key in slurm if key.startswith("slurm_") or key in ("jobs", "latency_wait")]
    assert len(message) > 5
    for key in message:
        if "_MISSING_TYPE" not in str(slurm[key]):
            assert aws[key] == slurm[key], key
    assert aws["set_resources"].keys() == {"node", "load", "phase", "form", "close"}


def test_pbs_hands_its_values_to_the_commands() -> None:
    result = shipped("pbs")
    assert result["executor"] == "cluster-generic"
    submit, *words = shlex.split(result["cluster_generic_submit_cmd"])
    assert Path(submit).is_file()
    options, script = submit_options([*words, "script"])
    assert (script, options.dialect, options.walltime) == ("script", "openpbs", 60)
    assert options.export == ("PATH", "LD_LIBRARY_PATH")
    assert options.queue == options.select == {}
    assert options.account == options.disk == ""
    status, *words = shlex.split(result["cluster_generic_status_cmd"])
    assert Path(status).is_file()
    assert status_options([*words, "1"])[0].every == 10
    # Run without a shell: a path and nothing else.
    assert os.access(result["cluster_generic_cancel_cmd"], os.X_OK)
    assert int(result["cluster_generic_cancel_nargs"]) == 100
    assert result["set_threads"] == {}
    assert int(result["latency_wait"]) >= 60
    assert result["set_resources"].keys() == {"node", "form"}
    assert node_resources(ROOT / "profiles" / "pbs", "form") == {"runtime": 720}
    assert node_resources(ROOT / "profiles" / "pbs") == {
        "scratch": "",
        "interface": "auto",
        "ports": "",
        "exclusive": 1,
        "runtime": 720,
        "node_classes": "data=default, work=default",
    }


def test_values_of_the_pbs_profile_arrive(tmp_path: Path) -> None:
    """A user edits one file: each value of its first section reaches its place."""
    text = (ROOT / "profiles" / "pbs" / "config.yaml").read_text()
    edits = {
        "dialect: openpbs": "dialect: torque",
        'queue_data: ""': "queue_data: dbq",
        'queue_work: ""': "queue_work: batch",
        'account: ""': "account: proj 1",
        "walltime: 60": "walltime: 240",
        "session_walltime: 720": "session_walltime: 90",
        'scratch: ""': "scratch: /scratch/$USER/x",
        "interface: auto": "interface: 10.1.0.0/16",
        'ports: ""': "ports: 20000-20999",
        'select_data: ""': "select_data: bigmem:ib=true",
        'disk: ""': "disk: scratch_local",
        'extra: ""': 'extra: "-V -W group_list=x"',
        "jobs: 100": "jobs: 7",
        "qstat_every: 10": "qstat_every: 33",
    }
    for old, new in edits.items():
        assert text.count(f"  {old}\n") == 1, old
        text = text.replace(f"  {old}\n", f"  {new}\n")
    assert text.count("  classes: {}\n") == 1
    values = "  classes: {large: {queue: bigq, select: 'host_type=x:y=1'}, small: {}}\n"
    (tmp_path / "config.yaml").write_text(text.replace("  classes: {}\n", values))
    result = settings(str(tmp_path))
    words = shlex.split(result["cluster_generic_submit_cmd"])[1:]
    options, _ = submit_options([*words, "script"])
    assert options.dialect == "torque"
    assert options.classes == (*NODE_CLASSES, "large", "small")
    assert options.queue == {"data": "dbq", "work": "batch", "large": "bigq"}
    assert options.select == {"data": "bigmem:ib=true", "large": "host_type=x:y=1"}
    assert (options.account, options.walltime, options.disk) == ("proj 1", 240, "scratch_local")
    assert options.extra == ("-V", "-W", "group_list=x")
    assert result["jobs"] == 7
    words = shlex.split(result["cluster_generic_status_cmd"])[1:]
    assert status_options([*words, "1"])[0].every == 33
    resources = node_resources(tmp_path)
    known = parse_classes(resources.pop("node_classes"))
    assert {name: one.partition for name, one in known.items()} == {
        **{"data": "dbq", "work": "batch"},
        **{"large": "bigq", "small": "default"},
    }
    assert resources == {
        "scratch": "/scratch/$USER/x",
        "interface": "10.1.0.0/16",
        "ports": "20000-20999",
        "exclusive": 1,
        "runtime": 90,
    }
    assert node_resources(tmp_path, "form") == {"runtime": 90}


# ------------------------------------------------------------------ installing


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's Snakemake folder, empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "snakemake"


def test_an_installed_profile_works_by_its_name_anywhere(folder: Path, tmp_path: Path) -> None:
    assert [profile.name for profile in profiles(ROOT)] == SHIPPED
    assert not any(profile.installed for profile in profiles(ROOT))
    installed = install(["pbs"], home=ROOT)
    assert [profile.link for profile in installed] == [folder / "pbs"]
    assert [p.name for p in profiles(ROOT) if p.installed] == ["pbs"]
    result = settings("pbs", tmp_path, XDG_CONFIG_HOME=str(folder.parent))
    assert result["executor"] == "cluster-generic"
    install(home=ROOT)
    assert sorted(path.name for path in folder.iterdir()) == SHIPPED
    install(home=ROOT)


def test_nothing_of_the_user_is_replaced_unasked(folder: Path, tmp_path: Path) -> None:
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


def test_a_wrong_name_and_a_moved_checkout(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StorewiseError, match=r"slrm: no such profile.*aws, local, pbs, slurm"):
        install(["slrm"], home=ROOT)
    elsewhere = tmp_path / "moved"
    shutil.copytree(ROOT / "profiles", elsewhere / "profiles")
    install(["pbs"], home=elsewhere)
    shutil.rmtree(elsewhere)
    with pytest.raises(StorewiseError, match="pbs points to"):
        install(["pbs"], home=ROOT)
    install(["pbs"], home=ROOT, force=True)
    assert (folder / "pbs" / "config.yaml").is_file()


def test_the_command_lists_and_installs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert "not installed" in storewise("profiles").stdout
    done = storewise("profiles", "install", "pbs")
    assert (done.returncode, (folder / "pbs").is_symlink()) == (0, True)
    assert "installed: snakemake --profile pbs" in storewise("profiles").stdout
    done = storewise("profiles", "install", "nosuch")
    assert done.returncode == 2 and done.stderr.startswith("storewise: nosuch: no such profile")


def test_without_a_checkout_it_is_said_where_profiles_are(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the package alone was installed with pip."""
    monkeypatch.setattr("storewise.run.runner.LIBRARY", tmp_path / "site-packages")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorewiseError, match=r"site-packages: run this in a checkout .*`make env`"):
        install()
    assert not folder.exists()
