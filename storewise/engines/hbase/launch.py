"""How HBase's servers are started, beside `server.yaml`: their Java, and where their data lie.

The class path is that of HBase's own ``bin/hbase``.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from storewise.engines.contract.server import Launch, Node
from storewise.engines.hbase.settings import SPEC, HbaseSettings
from storewise.engines.support.java import heap_mb

#: Heap of nodes that hold no documents, MiB.
_SMALL_HEAP_MB = 256
_NO_ROOT = (
    'test -d "$1" || { echo "there is no $1 on this host: HBase\'s servers keep their data in one '
    "place; name a directory that all their hosts share, or one in HDFS, in the setting "
    '\\`rootdir\\`"; exit 1; }'
)


def class_path(jars: Path) -> str:
    """The jars of an installation, for the variable CLASSPATH."""
    places = (jars, jars / "client-facing-thirdparty", jars / "jdk11")
    return ":".join(f"{place}/*" for place in places if place.is_dir())


def launch_of(node: Node, settings: HbaseSettings) -> Launch:
    """How a node of any role is started."""
    role = node.spec.role
    distributed = settings.is_distributed(node.topology)
    standalone = role == "master" and not distributed
    peers: dict[str, Any] = {peer.role: peer for peer in node.peers}
    if standalone:
        # HBase looks for the ZooKeeper of a standalone server at localhost only.
        peers["zookeeper"] = {"address": "127.0.0.1", "port": node.ports["zookeeper"]}
    elif role == "zookeeper":
        peers["zookeeper"] = node
    root = _root_of(node, settings)
    hadoop = node.installation.environment.get("HADOOP_CONF_DIR")
    jars = node.installation.environment["CLASSPATH"]
    launch = SPEC.launch(
        node,
        settings,
        root=root,
        distributed=distributed,
        standalone=standalone,
        master=peers.get("master"),
        zookeeper=peers.get("zookeeper"),
        class_path=":".join(filter(None, (str(node.directory), hadoop, jars))),
    )
    java, *arguments = launch.command
    data = role == "regionserver" or standalone
    options = _java_options(node, settings, data=data)
    launch = replace(launch, command=(java, *options, *arguments))
    if settings.rootdir is None:
        needs_root = distributed and role in ("master", "regionserver")
        step = ("sh", "-c", _NO_ROOT, "sh", root.removeprefix("file://"))
        return replace(launch, steps=(step,) if needs_root else ())
    if role not in ("master", "zookeeper"):
        return launch
    # They outlive the others: should one of them be killed, the other does it.
    shell = (java, "-Xmx128m", "-XX:-UsePerfData", "org.apache.hadoop.fs.FsShell")
    # The shell does not start without a core-site.xml.
    more = {} if hadoop else {"core-site.xml": "<configuration/>\n"}
    return replace(
        launch,
        files={**launch.files, **more},
        cleanup=((*shell, "-rm", "-r", "-f", "-skipTrash", root),),
    )


def _java_options(node: Node, settings: HbaseSettings, *, data: bool) -> tuple[str, ...]:
    heap = heap_mb(node.spec.memory_mb, settings.heap_share) if data else _SMALL_HEAP_MB
    java_8 = node.installation.version.endswith("Java 8")
    return (
        f"-Xmx{heap}m",
        "-XX:+ExitOnOutOfMemoryError",
        # No files in /tmp.
        "-XX:-UsePerfData",
        f"-XX:ErrorFile={node.directory / 'hs_err.log'}",
        f"-Djava.io.tmpdir={node.directory / 'tmp'}",
        f"-Djava.net.preferIPv4Stack={'false' if ':' in node.address else 'true'}",
        *(() if java_8 or SPEC.jar is None else SPEC.jar.options_from_java_11),
        *(settings.jvm_options if data else ()),
    )


def _root_of(node: Node, settings: HbaseSettings) -> str:
    """HBase's root directory as a URI."""
    if settings.rootdir is not None:
        place = settings.rootdir.rstrip("/")
        place = place if "://" in place else f"file://{place}"
        # The secret's digest: another run of the same trial must not share the place.
        mark = hashlib.sha256(node.credentials.key.encode()).hexdigest()[:8]
        return f"{place}/storewise-{node.session}-{mark}"
    directory, name = node.directory, node.spec.name
    if settings.is_distributed(node.topology):
        # Directories of nodes lie side by side and end with their names.
        directory = directory.with_name(directory.name.removesuffix(name) + "zookeeper0")
    return f"file://{directory / 'root'}"
