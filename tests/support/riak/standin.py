"""A stand-in for Riak KV: no package of Riak exists where the tests run.

It answers Riak's messages, and its release (`make_release`) knows the few commands that Storewise
uses, in the words that a real Riak was recorded to say. It is no Riak: what it proves is that the
client and the engine do what they were written to do. Against a real Riak the same tests run where
RIAK_HOME names one.
"""

import contextlib
import socket
import socketserver
import threading
import time
from collections import Counter

from storewise.engines.riak.messages import CODES, HEADER, frame, pb
from storewise.engines.riak.ring import partition_of

REQUESTS = {code: name for name, code in CODES.items()}


class Objects:
    """Values by bucket and key: a file each, which all nodes of a cluster share."""

    def __init__(self, directory):
        self.directory = directory

    def path(self, bucket, key):
        return self.directory / f"{bucket.decode()}-{key.hex()}"

    def put(self, bucket, key, value):
        self.directory.mkdir(exist_ok=True)
        path = self.path(bucket, key)
        new = path.with_name(f".{path.name}.{threading.get_ident()}")
        new.write_bytes(value)
        new.rename(path)

    def get(self, bucket, key):
        with contextlib.suppress(FileNotFoundError):
            return self.path(bucket, key).read_bytes()

    def delete(self, bucket, key):
        self.path(bucket, key).unlink(missing_ok=True)

    def keys(self, bucket):
        names = (path.name.rpartition("-") for path in self.directory.glob(f"{bucket.decode()}-*"))
        return [bytes.fromhex(key) for _, _, key in names]


class Standin:
    """A node that answers clients.

    A node that has been started answers `late` reads before it serves: until then others stand in
    for it, who know of nothing. `fault` makes it misbehave in its answers to gets and puts:
    ``slow``, ``cut`` (the connection ends within a frame), ``garbage``, ``oversized`` (a length
    without end), ``wrong`` (another code); any other is the message of an error.
    """

    def __init__(
        self, directory, name="riak1@127.0.0.1", address=("127.0.0.1", 0), ring_size=16, late=0
    ):
        self.objects = Objects(directory / "objects")
        self.name, self.ring_size, self.late, self.n_val = name, ring_size, late, 1
        self.members = lambda: [name]
        self._answers = {
            "RpbPingReq": lambda _: pb.RpbPingResp(),
            "RpbGetReq": self._get,
            "RpbPutReq": self._put,
            "RpbDelReq": self._delete,
            "RpbListKeysReq": self._list_keys,
            "RpbGetBucketKeyPreflistReq": self._preflist,
        }
        self.fault = ""
        self.asked = Counter()
        self.connections = set()
        self.server = Server(address, _Client)
        self.server.node = self
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.fault = ""
        self.server.shutdown()
        self.server.server_close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def holders(self, bucket, key):
        first, members = partition_of(bucket, key, self.ring_size), self.members()
        numbers = [(first + k) % self.ring_size for k in range(self.n_val)]
        return [(number, members[number % len(members)]) for number in numbers]

    def answer(self, code, body):
        """The bytes of the answer to a request."""
        name = REQUESTS[code]
        request = getattr(pb, name).FromString(body)
        self.asked[name] += 1
        if self.fault and name in ("RpbGetReq", "RpbPutReq"):
            return self._misbehave()
        answer = self._answers[name](request)
        return frame(pb.RpbErrorResp(errmsg=answer) if isinstance(answer, bytes) else answer)

    def _get(self, request):
        if self.late:
            self.late -= 1
            return b"{pr_val_unsatisfied,1,0}" if request.pr else pb.RpbGetResp()
        value = self.objects.get(request.bucket, request.key)
        if value is None:
            return pb.RpbGetResp()
        content = pb.RpbContent(value=b"" if request.head else value)
        return pb.RpbGetResp(content=[content], vclock=b"clock")

    def _put(self, request):
        self.objects.put(request.bucket, request.key, request.content.value)
        return pb.RpbPutResp()

    def _delete(self, request):
        self.objects.delete(request.bucket, request.key)
        return pb.RpbDelResp()

    def _list_keys(self, request):
        return pb.RpbListKeysResp(keys=self.objects.keys(request.bucket), done=True)

    def _preflist(self, request):
        item = pb.RpbBucketKeyPreflistItem
        holders = self.holders(request.bucket, request.key)
        items = [item(partition=p, node=node.encode(), primary=True) for p, node in holders]
        return pb.RpbGetBucketKeyPreflistResp(preflist=items)

    def _misbehave(self):
        content = pb.RpbContent(value=b"{}")
        if self.fault == "slow":
            while self.fault == "slow":
                time.sleep(0.02)
            raise ConnectionError
        whole = frame(pb.RpbGetResp(content=[content]))
        answers = {
            "cut": whole[:-2],
            "garbage": HEADER.pack(7, 10) + b"\x0a\xff\xff\x03ab",
            "oversized": b"\xff\xff\xff\xff\x0a",
            "wrong": HEADER.pack(1, 18),
        }
        return answers.get(self.fault) or frame(pb.RpbErrorResp(errmsg=self.fault.encode()))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


class _Client(socketserver.StreamRequestHandler):
    def handle(self):
        node = self.server.node
        node.connections.add(self.connection)
        try:
            while len(head := self.rfile.read(HEADER.size)) == HEADER.size:
                length, code = HEADER.unpack(head)
                self.wfile.write(node.answer(code, self.rfile.read(length - 1)))
                if node.fault == "cut":
                    return
        except OSError:
            return
        finally:
            node.connections.discard(self.connection)
