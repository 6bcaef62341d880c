"""Riak's protocol-buffers messages, and the frames in which they travel.

A frame is a length (4 bytes, big-endian, the code counted), a code (1 byte) and a message:
https://docs.riak.com/riak/kv/latest/developing/api/protocol-buffers/
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import yaml

from storewise.engines.support.servers import resource

#: Of a frame: its length and its code.
HEADER = struct.Struct(">IB")
#: Numbers of replicas (r, w, dw, pr) by what riak.conf calls them.
QUORUMS: Mapping[str | int, int] = {1: 1, "quorum": 0xFFFFFFFD, "all": 0xFFFFFFFC}

_MESSAGES: dict[str, dict[str, Any]] = yaml.safe_load(resource(__package__, "messages.yaml"))
#: Codes of the messages by name.
CODES = {name: fields.pop("code") for name, fields in _MESSAGES.items() if "code" in fields}


class _Classes:
    """The classes of the messages by name, as protoc would generate them."""

    def __getattr__(self, name: str) -> Any:
        # Made when the first one is needed: only what speaks to a node pays for the import.
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        file = FileDescriptorProto(name="riak.proto", package="riak", syntax="proto2")
        for message_name, fields in _MESSAGES.items():
            message = file.message_type.add(name=message_name)
            for field, (number, kind, *repeated) in fields.items():
                label = "LABEL_REPEATED" if repeated else "LABEL_OPTIONAL"
                if kind in _MESSAGES:
                    of = {"type": "TYPE_MESSAGE", "type_name": f".riak.{kind}"}
                else:
                    of = {"type": f"TYPE_{kind.upper()}"}
                message.field.add(name=field, number=number, label=label, **of)
        pool = DescriptorPool()
        pool.Add(file)
        types = {of: pool.FindMessageTypeByName(f"riak.{of}") for of in _MESSAGES}
        made = {of: GetMessageClass(message_type) for of, message_type in types.items()}
        vars(self).update(made, DecodeError=DecodeError)
        return vars(self)[name]


#: ``pb.RpbGetReq(bucket=b"rna", key=key)``
pb = _Classes()


def frame(message: Any) -> bytes:
    """A message as it is sent."""
    body: bytes = message.SerializeToString()
    return HEADER.pack(len(body) + 1, CODES[type(message).__name__]) + body
