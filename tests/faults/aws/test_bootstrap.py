"""profiles/aws/bootstrap.sh, with stand-ins for what it fetches and for what only root changes."""

import shutil
import subprocess

import pytest
from support.paths import ROOT

SCRIPT = ROOT / "profiles" / "aws" / "bootstrap.sh"
HEAD = ("head", "s3://bucket/x", "eu-north-1")
SERVERS = ("postgresql", "mysql-server", "mongodb")
FAKES = {
    "curl": """\
file=${!#}; name=${file##*/}
[ -z "${FAKE_BROKEN:-}" ] || { echo broken >"$name"; exit 0; }
case $name in
    *.sha256) sha256sum "${name%.sha256}" >"$name" ;;
    *) cp "$FAKES/installer" "$name" ;;
esac
""",
    "installer": """\
mkdir -p "$3/bin"; cp "$FAKES/conda" "$3/bin/conda"
[ -z "${FAKE_INTERRUPTED:-}" ]
""",
    "conda": """\
while [ $# -gt 0 ]; do
    [ "$1" != --prefix ] || { mkdir -p "$2/bin"; cp "$FAKES/aws" "$FAKES/make" "$2/bin/"; }
    [ "$1" != "${FAKE_MISSING:-none}" ] || { echo "no such package" >&2; exit 1; }
    shift
done
""",
    "aws": """\
[ "$1 $2" = "s3 cp" ] && cp "$SOURCE" "${!#}"
""",
    "make": """\
[ "$5" != env ] && [ "$4" != env ] || { mkdir -p "$2/.venv/bin"; touch "$2/.venv/bin/storewise"; }
""",
    "sysctl": "",
    "chown": "",
}


@pytest.fixture
def host(tmp_path):
    """An environment in which bootstrap.sh touches only `tmp_path`, and fetches from here."""
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    for name, body in FAKES.items():
        (fakes / name).write_text(f'#!/bin/bash\necho "{name} $*" >>"$FAKES/log"\n{body}')
        (fakes / name).chmod(0o755)
    for folder in ("security/limits.d", "sysctl.d", "profile.d"):
        (tmp_path / "etc" / folder).mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "Makefile").write_text("env:\n")
    source = tmp_path / "source.tar.gz"
    subprocess.run(["tar", "-czf", source, "-C", tmp_path / "tree", "."], check=True)
    return {
        "PATH": f"{fakes}:/usr/bin:/bin",
        "FAKES": str(fakes),
        "SOURCE": str(source),
        "STOREWISE_SHARED": str(tmp_path / "shared"),
        "STOREWISE_SCRATCH": str(tmp_path / "scratch"),
        "STOREWISE_ETC": str(tmp_path / "etc"),
        "STOREWISE_DISKS": str(tmp_path / "disks"),
        "STOREWISE_LOG": str(tmp_path / "bootstrap.log"),
    }


def bootstrap(environment, *words):
    command = ["bash", str(SCRIPT), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_bootstrap_of_the_head_node_once_and_again(host, tmp_path):
    log = tmp_path / "fakes" / "log"
    for again in (False, True):
        log.write_text("")
        done = bootstrap(host, *HEAD)
        assert done.returncode == 0, done.stderr
        assert ("installer -b -p" in log.read_text()) is not again, "what is there stays"
        assert ("aws s3 cp" in log.read_text()) is not again
    home = tmp_path / "shared" / "storewise"
    assert (home / "checkout" / "Makefile").is_file()
    script = f'. {tmp_path}/etc/profile.d/storewise.sh; echo "$PATH $AWS_DEFAULT_REGION"'
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    places = ("checkout/.venv/bin", *(f"envs/{n}/bin" for n in ("base", *SERVERS)))
    assert shown.stdout.startswith(":".join(f"{home}/{place}" for place in places))
    assert shown.stdout.endswith(" eu-north-1\n")
    assert "ubuntu:ubuntu" in log.read_text()
    assert (tmp_path / "shared" / "studies").is_dir()


def test_bootstrap_of_a_compute_host(host, tmp_path):
    done = bootstrap(host, "compute")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "scratch").stat().st_mode & 0o7777 == 0o1777
    assert (
        "nofile" in (tmp_path / "etc" / "security" / "limits.d" / "90-storewise.conf").read_text()
    )
    assert "curl" not in (tmp_path / "fakes" / "log").read_text(), "nothing is fetched"


def test_bootstrap_ends_with_a_reason(host, tmp_path):
    for words in ((), ("head",), HEAD[:2], ("worker",)):
        done = bootstrap(host, *words)
        assert done.returncode == 1 and "usage: bootstrap.sh" in done.stderr
    half = bootstrap({**host, "FAKE_INTERRUPTED": "1"}, *HEAD)
    assert half.returncode == 1 and "run again" in half.stderr
    assert (tmp_path / "shared" / "storewise" / "conda" / "bin" / "conda").exists()
    broken = bootstrap({**host, "FAKE_BROKEN": "1"}, *HEAD)
    assert broken.returncode == 1 and "not what its checksum says" in broken.stderr
    # Neither what was half installed nor what is broken is taken for whole.
    assert not (tmp_path / "shared" / "storewise" / "envs").exists()
    # A server that cannot be had is no reason to have none; the base is.
    some = bootstrap({**host, "FAKE_MISSING": "mongodb"}, *HEAD)
    assert some.returncode == 0 and "no mongodb: what conda said" in some.stdout
    # ParallelCluster keeps nothing of a head node's standard error: a file of our own has all.
    output = (tmp_path / "bootstrap.log").read_text()
    assert "not what its checksum says" in output and "no such package" in output
    assert output.endswith("storewise bootstrap (head): done\n")
    envs = tmp_path / "shared" / "storewise" / "envs"
    assert {path.parent.name for path in envs.glob("*/.made")} == {"base", *SERVERS[:2]}
    (envs / "base" / ".made").unlink()
    none = bootstrap({**host, "FAKE_MISSING": "maven"}, *HEAD)
    assert none.returncode == 1 and "an environment could not be made" in none.stderr
    shutil.rmtree(tmp_path / "shared")
    gone = bootstrap({**host, "SOURCE": "/nowhere"}, *HEAD)
    assert gone.returncode == 1 and "s3://bucket/x could not be read" in gone.stderr


def test_disks_that_are_not_mounted_end_the_bootstrap(host, tmp_path, small_disk):
    """Servers would be measured on the root volume, and nobody would know."""
    (tmp_path / "disks").mkdir()
    (tmp_path / "disks" / "nvme-Amazon_Elastic_Block_Store_vol1").touch()
    assert bootstrap(host, "compute").returncode == 0, "network disks are not the instance's own"
    (tmp_path / "disks" / "nvme-Amazon_EC2_NVMe_Instance_Storage_AWS1-ns-1").touch()
    done = bootstrap(host, "compute")
    assert done.returncode == 1 and f"not mounted at {tmp_path}/scratch" in done.stderr
    assert (
        bootstrap({**host, "STOREWISE_SCRATCH": str(small_disk("1m"))}, "compute").returncode == 0
    )
