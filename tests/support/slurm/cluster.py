"""A real Slurm on this machine: its own munge, a controller, and hosts that are namespaces.

Each host (``sw1``, ``sw2``, ...) has its own network, process, mount and host name namespace, and
is joined to the others by a bridge. So jobs on different hosts talk over a network, listen at
addresses of their own, do not see each other's processes, and have a node-local disk (`scratch`, a
small tmpfs of the same path everywhere). The rest of the file system is shared, as on a cluster.

By hand: ``python tests/support/slurm/cluster.py DIRECTORY`` prints what to export and runs
until Ctrl-C.

Nothing outlives the process that started it, not even after ``kill -9``: all daemons die with
their parent, a host's processes with its first one, and the next start removes the bridge. Several
clusters on one machine take different slots (names, addresses, ports).

Sources: slurm.conf(5) and cgroup.conf(5) of Slurm 22.05, munged(8), unshare(1), ip-link(8).
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from storewise.processes import dies_with_parent

# As a program it is not told where the tests are.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from support.needs import missing, unavailable
from support.slurm.view import NETWORK, SlurmCluster
from support.waiting import wait_until

#: Of each package first the program by which it is known.
NEEDS = (
    *("root", "munged", "mungekey", "slurmctld", "slurmd", "sbatch", "squeue", "scancel"),
    *("sinfo", "scontrol", "ip", "nsenter", "unshare", "ss"),
)
SLOTS = 32
START_TIMEOUT = 60.0
STOP_TIMEOUT = 10.0
INTERFACE = "fast0"

#: More processors than there are (config_overrides): what is tested is the order of things.
#: A batch job is looked at when it comes, not three seconds later. MinJobAge as Slurm's default;
#: a job that has ended must stay visible to a polling squeue.
SLURM_CONF = """\
ClusterName=storewise
SlurmctldHost={controller}({network}.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge/socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool.%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.%n.log
PlugStackConfig={directory}/plugstack.conf
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=5
ReturnToService=2
MinJobAge=300
KillWait={kill_wait}
SlurmdTimeout=30
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=10 State=UP
{partitions}
"""

#: The first process of a host. bash, because it also waits for processes that it adopts.
HOST_INIT = """\
set -eu
echo unshared
read -r go
hostname {name}
mount --bind {directory}/hosts /etc/hosts
mount --bind {directory} /etc/slurm
mount -t tmpfs -o size={scratch_size},mode=1777 {name} {directory}/scratch
ip link set lo up
ip address add {address}/24 dev {interface}
ip link set {interface} up
slurmd -D -N {name} &
wait $!
"""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{shlex.join(command)}: {done.stderr.strip()}")


def _bridge(slot: int) -> str:
    return f"storewise{slot}"


def _remove_network(slot: int) -> None:
    """The bridge, and the hosts' ends of a run that was killed."""
    links = Path("/sys/class/net")
    for link in (*links.glob(_bridge(slot)), *links.glob(f"sw{slot}x*")):
        try:
            _run("ip", "link", "delete", link.name)
        except OSError:
            # The kernel removes a host's end with the host's namespace, a moment after its end.
            if link.exists():
                raise


def _take_slot(stack: ExitStack) -> int:
    """A slot that no living process has: it holds a socket's name, of the same network as the
    links, whatever directory its temporary files are in."""
    for slot in range(SLOTS):
        holder = stack.enter_context(socket.socket(socket.AF_UNIX))
        try:
            holder.bind(f"\0storewise-slurm-{slot}")
        except OSError:
            continue
        _remove_network(slot)
        return slot
    raise OSError(f"all {SLOTS} slots for a Slurm of tests are taken")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _daemon(
    command: Sequence[str], environment: Mapping[str, str], log: Path, *, piped: bool = False
) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as file:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else file,
            stderr=file,
            start_new_session=True,
            preexec_fn=dies_with_parent(),
            text=True,
        )
    try:
        yield process
    finally:
        # In order first: slurmctld then waits for its helper process.
        process.terminate()
        try:
            process.communicate(timeout=STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextmanager
def _killed(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()


@contextmanager
def _host(
    cluster: SlurmCluster, name: str, number: int, scratch_size: str
) -> Iterator[psutil.Process]:
    """A host with its slurmd; ends with all its processes."""
    script = HOST_INIT.format(
        name=name,
        directory=shlex.quote(str(cluster.directory)),
        address=f"{NETWORK}.{cluster.slot}.{10 + number}",
        interface=INTERFACE,
        scratch_size=scratch_size,
    )
    namespaces = ["--net", "--uts", "--pid", "--mount", "--mount-proc"]
    command = ["unshare", *namespaces, "--fork", "--kill-child", "bash", "-c"]
    with (
        _daemon(
            [*command, script],
            cluster.environment(),
            cluster.directory / f"host.{name}.log",
            piped=True,
        ) as process,
        _killed(process),
    ):
        assert process.stdout is not None and process.stdin is not None
        if process.stdout.readline() != "unshared\n":
            raise OSError((cluster.directory / f"host.{name}.log").read_text())
        (first,) = psutil.Process(process.pid).children()
        end = f"sw{cluster.slot}x{number}"
        peer = f"peer name {INTERFACE} netns {first.pid}".split()
        _run("ip", "link", "add", end, "type", "veth", *peer)
        _run("ip", "link", "set", end, "master", _bridge(cluster.slot), "up")
        process.stdin.write("go\n")
        process.stdin.flush()
        yield first


def _write_files(
    cluster: SlurmCluster,
    names: Sequence[str],
    cpus: int,
    kill_wait: int,
    partitions: Mapping[str, Sequence[str]],
) -> None:
    directory = cluster.directory
    for name in ("munge", "state", "scratch", *(f"spool.{name}" for name in names)):
        (directory / name).mkdir(mode=0o700)
    key = directory / "munge" / "key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
    network = f"{NETWORK}.{cluster.slot}"
    addresses = {name: f"{network}.{10 + k}" for k, name in enumerate(names)}
    nodes = "\n".join(
        f"NodeName={name} NodeAddr={address} CPUs={cpus} RealMemory=200000 State=UNKNOWN"
        for name, address in addresses.items()
    )
    (directory / "slurm.conf").write_text(
        SLURM_CONF.format(
            controller=socket.gethostname().partition(".")[0],
            network=network,
            port=_free_port(),
            directory=directory,
            nodes=nodes,
            kill_wait=kill_wait,
            partitions="\n".join(
                f"PartitionName={name} Nodes={','.join(own)} MaxTime=INFINITE State=UP"
                for name, own in partitions.items()
            ),
        )
    )
    (directory / "cgroup.conf").write_text("CgroupAutomount=no\n")
    (directory / "plugstack.conf").write_text("")
    hosts = [f"{address} {name}" for name, address in addresses.items()]
    (directory / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(hosts) + "\n")


def _wait(process: subprocess.Popen[str], log: Path, result: Callable[[], bool], what: str) -> None:
    def ready() -> bool:
        if process.poll() is not None:
            raise OSError(f"{what} ended: {log.read_text()[-2000:]}")
        return result()

    wait_until(ready, START_TIMEOUT, what)


def why_not() -> str:
    """What this machine lacks for a Slurm of tests, empty if nothing."""
    return next(filter(None, map(missing, NEEDS)), "")


@contextmanager
def slurm_cluster(
    directory: Path | None = None,
    *,
    hosts: int = 4,
    cpus: int = 64,
    scratch_size: str = "2g",
    kill_wait: int = 30,
    partitions: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[SlurmCluster]:
    """A Slurm with so many hosts, whose state is in `directory` (default: a temporary one).

    `kill_wait` is Slurm's time between SIGTERM and SIGKILL, in seconds; `partitions` are further
    ones and their hosts (``sw1``, ...), beside `main` and `short`, which have all. A given
    directory is made if need be, must be empty and stays; a temporary one is removed.
    """
    names = [f"sw{number}" for number in range(1, hosts + 1)]
    with ExitStack() as stack:
        slot = _take_slot(stack)
        if directory is None:
            # Short: a socket's path has 108 bytes at most.
            directory = Path(tempfile.mkdtemp(prefix="storewise-slurm-"))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
        else:
            directory = directory.resolve()
            directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        cluster = SlurmCluster(directory, slot)
        _write_files(cluster, names, cpus, kill_wait, partitions or {})
        stack.callback(_remove_network, slot)
        _run("ip", "link", "add", _bridge(slot), "type", "bridge")
        _run("ip", "address", "add", f"{cluster.login_address}/24", "dev", _bridge(slot))
        _run("ip", "link", "set", _bridge(slot), "up")
        munge = directory / "munge"
        files = [f"--{what}-file={munge / what}" for what in ("key", "pid", "log", "seed")]
        munged = stack.enter_context(
            _daemon(
                ["munged", "--foreground", "--force", f"--socket={munge / 'socket'}", *files],
                os.environ,
                directory / "munged.out",
            )
        )
        _wait(munged, directory / "munged.out", (munge / "socket").exists, "munged")
        controller = stack.enter_context(
            _daemon(["slurmctld", "-D"], cluster.environment(), directory / "slurmctld.out")
        )
        for number, name in enumerate(names):
            cluster.hosts[name] = stack.enter_context(_host(cluster, name, number, scratch_size))

        def idle() -> bool:
            try:
                states = cluster.command("sinfo", "--noheader", "--Node", "--format=%N %t")
            except AssertionError:
                return False  # the controller does not answer yet
            return {f"{name} idle" for name in names} <= set(states.splitlines())

        _wait(controller, directory / "slurmctld.log", idle, "slurmctld with all hosts idle")
        yield cluster


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """One Slurm for all tests of a directory whose conftest.py imports this."""
    if why := why_not():
        unavailable(why)
    with slurm_cluster() as cluster:
        yield cluster
        cluster.command("scancel", "--user=root")


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        sys.exit("usage: python tests/support/slurm/cluster.py DIRECTORY")
    if why := why_not():
        sys.exit(why)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    directory = Path(arguments[0])
    if directory.exists() and any(directory.iterdir()):
        sys.exit(f"{directory} is not empty; name a new directory")
    with slurm_cluster(directory) as cluster:
        for name, value in cluster.exports().items():
            print(f"export {name}={shlex.quote(value)}")
        for host, first in cluster.hosts.items():
            print(
                f"# {host}: {cluster.address(host)}, enter with: nsenter -t {first.pid} -n -u -p -m"
            )
        print(f"# node-local disk: {cluster.scratch}", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
