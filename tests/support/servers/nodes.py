"""Nodes as `launch` takes them, for tests of what an engine would start."""

from dataclasses import replace
from pathlib import Path

from storewise.engines.contract.server import Credentials, Installation, Node, Topology


def make_node(engine, name="data0", topology=None, settings=None, **changes):
    """The node of that name in such a cluster; `changes` are further values of it."""
    topology, settings = topology or Topology(), settings or {}
    spec = next(spec for spec in engine.roles(topology, settings) if spec.name == name)
    node = Node(
        spec=spec,
        topology=topology,
        settings=settings,
        consistency="durable",
        session="s-1",
        directory=Path("/scratch") / name,
        address="10.0.0.7",
        port=31000,
        installation=Installation({}, ""),
        credentials=Credentials.make(),
        ports={port: 31001 + number for number, port in enumerate(spec.ports)},
    )
    return replace(node, **changes)
