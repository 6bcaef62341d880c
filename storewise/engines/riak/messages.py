"""Riak's protocol-buffers messages, and the frames in which they travel.

A frame is a length (4 bytes, big-endian, the code counted), a code (1 byte) and a message:
https://docs.riak.com/riak/kv/latest/developing/api/protocol-buffers/
"""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import yaml
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from storewise.engines.support.servers import resource

#: Of a frame: its length and its code.
HEADER = struct.Struct(">IB")
#: Numbers of replicas (r, w, pr) that mean a quorum, and all.
QUORUM, ALL = 0xFFFFFFFD, 0xFFFFFFFC

_MESSAGES: dict[str, dict[str, Any]] = yaml.safe_load(resource(__package__, "messages.yaml"))
#: Codes of the messages by name.
CODES = {name: fields.pop("code") for name, fields in _MESSAGES.items() if "code" in fields}


def _classes() -> SimpleNamespace:
    """The classes of the messages by name, as protoc would generate them."""
    file = FileDescriptorProto(name="riak.proto", package="riak", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, *repeated) in fields.items():
            label = "LABEL_REPEATED" if repeated else "LABEL_OPTIONAL"
            if kind in _MESSAGES:
                of = {"type": "TYPE_MESSAGE", "type_name": f".riak.{kind}"}
            else:
                of = {"type": f"TYPE_{kind.upper()}"}
            message.field.add(name=field, number=number, label=label, **of)
    pool = DescriptorPool()
    pool.Add(file)
    types = {name: pool.FindMessageTypeByName(f"riak.{name}") for name in _MESSAGES}
    return SimpleNamespace(**{name: GetMessageClass(of) for name, of in types.items()})


#: ``pb.RpbGetReq(bucket=b"rna", key=key)``
pb = _classes()


def frame(message: Any) -> bytes:
    """A message as it is sent."""
    body: bytes = message.SerializeToString()
    return HEADER.pack(len(body) + 1, CODES[type(message).__name__]) + body
