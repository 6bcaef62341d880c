"""Hardware and file systems of the host, for the conditions of results."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from storewise.metrics.ec2_instance import instance

#: File systems that several hosts share: shared memory in files fails, attributes are cached.
NETWORK_FILE_SYSTEMS = frozenset(
    (
        *("nfs", "nfs3", "nfs4", "lustre", "beegfs", "gpfs", "cifs", "smb3", "smbfs", "ceph"),
        *("afs", "9p", "panfs", "pvfs2", "orangefs", "ncpfs", "glusterfs", "wekafs", "ocfs2"),
        *("gfs2", "davfs", "s3fs", "sshfs", "juicefs", "moosefs", "seaweedfs", "cvmfs2"),
    )
)


def host_name() -> str:
    return socket.gethostname()


def file_system(path: Path) -> str:
    """Type of the file system that holds `path` (``ext4``, ``nfs4``, ``fuse.sshfs``), or
    ``unknown`` where the system does not tell."""
    real = path.resolve()
    best: tuple[int, str] = (-1, "unknown")
    for mount in psutil.disk_partitions(all=True):
        point = Path(mount.mountpoint)
        # A later mount at the same point hides the earlier one.
        if real.is_relative_to(point) and len(point.parts) >= best[0]:
            best = (len(point.parts), mount.fstype)
    return best[1]


def is_network(fstype: str) -> bool:
    """Whether a file system type is shared over a network."""
    return fstype.lower().removeprefix("fuse.").removeprefix("fuse-") in NETWORK_FILE_SYSTEMS


def disk_of(path: Path) -> str | None:
    """Kernel name of the whole disk that holds `path` (``sda``, ``nvme0n1``), None where it is
    not one disk (tmpfs, overlay, network) or cannot be told."""
    number = path.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if os.major(number) == 0 or not device.exists():
        return None
    real = device.resolve()
    name = real.parent.name if (real / "partition").exists() else real.name
    return name if name in psutil.disk_io_counters(perdisk=True) else None


def tree_bytes(directories: Iterable[Path]) -> int:
    """Sum the bytes of all files under these directories; a missing directory counts as empty.

    Each file counts with its size, because file systems report allocated blocks late (NFS, Lustre)
    or after compression. A sparse file counts with its allocated blocks. Files that are deleted
    meanwhile (a store compacts) are not counted.
    """
    total = 0
    todo = [os.fspath(directory) for directory in directories]
    while todo:
        try:
            entries = os.scandir(todo.pop())
        except (FileNotFoundError, NotADirectoryError):
            continue
        with entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                    else:
                        status = entry.stat(follow_symlinks=False)
                        allocated = status.st_blocks * 512
                        total += min(status.st_size, allocated) if allocated else status.st_size
                except FileNotFoundError:
                    continue
    return total


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def facts() -> dict[str, Any]:
    """Processor, memory, network and boot time of this host (JSON values); `instance` on EC2."""
    on_ec2 = instance()
    return {
        "name": host_name(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=False),
        "cpus": psutil.cpu_count(),
        "cpus_allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_bytes": psutil.virtual_memory().total,
        "boot_time": psutil.boot_time(),
        "link_mbit": link_mbit(),
        **({"instance": asdict(on_ec2)} if on_ec2 is not None else {}),
    }


def link_mbit() -> int | None:
    """Total speed of all network links except loopback, in 10^6 bit/s, one direction.

    None if the speed of an active link is unknown (mostly virtual ones): traffic is summed over all
    links, so a partial sum of speeds would overestimate their utilization.
    """
    speeds = [
        link.speed for name, link in psutil.net_if_stats().items() if link.isup and name != "lo"
    ]
    # The kernel's "unknown" is -1, which some drivers hand on as a short.
    if not speeds or any(speed <= 0 or speed == 65535 for speed in speeds):
        return None
    return sum(speeds)
