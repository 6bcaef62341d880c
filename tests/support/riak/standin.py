"""A stand-in for Riak KV: no package of Riak exists where the tests run.

It speaks Riak's frames with a codec of its own, and its start script (`make_release`) knows the
few commands that Storewise uses, with the words that a real Riak was recorded to say. It is no
Riak: what it proves is that the client and the engine do what they were written to do. Against a
real Riak the same tests run where RIAK_HOME names one.
"""

import contextlib
import hashlib
import json
import re
import signal
import socket
import socketserver
import threading
import time
from collections import Counter

RING_BITS = 160
KNOWN = re.compile(
    r"nodename|distributed_cookie|listener\.(protobuf|http)\.internal|handoff\.(ip|port)|"
    r"mdc\.cluster_manager|erlang\.(distribution\.port_range\.(min|max)imum|crash_dump)|"
    r"platform_(bin|data|etc|lib|log)_dir|storage_backend|anti_entropy|ring_size|"
    r"buckets\.default\.(n_val|r|w|dw|allow_mult|last_write_wins)|"
    r"leveldb\.(maximum_memory|sync_on_write|threads)|bitcask\.sync\.strategy|"
    r"leveled\.sync_strategy|cluster\.job\.riak_kv\.map_reduce(_js)?"
)


# -- frames -----------------------------------------------------------------------------------


def number(value):
    out = b""
    while True:
        out += bytes([value % 128 + (128 if value > 127 else 0)])
        value //= 128
        if not value:
            return out


def pack(*parts):
    return b"".join(
        number(field * 8) + number(value)
        if isinstance(value, int)
        else number(field * 8 + 2) + number(len(value)) + value
        for field, value in parts
    )


def unpack(data):
    """The last value of each field."""
    at, result = 0, {}

    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value += byte % 128 << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        field, kind = divmod(take(), 8)
        if kind == 0:
            result[field] = take()
        else:
            length = take()
            result[field] = data[at : at + length]
            at += length
    return result


def framed(code, body=b""):
    return (len(body) + 1).to_bytes(4, "big") + bytes([code]) + body


def hash_of(bucket, key):
    """SHA-1 of term_to_binary({Bucket, Key})."""
    term = b"\x83h\x02" + b"".join(b"m" + len(b).to_bytes(4, "big") + b for b in (bucket, key))
    return int(hashlib.sha1(term).hexdigest(), 16)


# -- a node -----------------------------------------------------------------------------------


class Standin:
    """A node: keeps objects, copies them to others, answers clients.

    A node that has been started answers `late` reads before it serves: until then others stand in
    for it, who know of nothing. `fault` makes it misbehave in its answers to gets and puts:
    ``slow``, ``cut`` (the connection ends within a frame), ``garbage``, ``oversized`` (a length
    without end), ``wrong`` (another code), ``siblings``, ``error``.
    """

    def __init__(
        self,
        name="riak1@127.0.0.1",
        address=("127.0.0.1", 0),
        ring_size=16,
        n_val=1,
        log=None,
        late=0,
    ):
        self.late = late
        self.name, self.ring_size, self.n_val = name, ring_size, n_val
        self.members = [name]
        self.peers = {}
        self.cookie = ""
        self.fault = ""
        self.asked = Counter()
        self.objects = {}
        self._log = log
        self._lock = threading.Lock()
        self._last = 0
        if log is not None and log.is_file():
            for line in log.read_text().splitlines():
                bucket, key, stamp, value = json.loads(line)
                self._keep(bytes.fromhex(bucket), bytes.fromhex(key), stamp, value)
        self.connections = set()
        self.server = Server(address, _Client, self)
        self.port = self.server.server_address[1]
        self.server.begin()

    def close(self):
        self.server.end()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _keep(self, bucket, key, stamp, value):
        old = self.objects.get((bucket, key), (0, None))
        if stamp >= old[0]:
            self.objects[bucket, key] = (stamp, None if value is None else bytes.fromhex(value))

    def store(self, bucket, key, stamp, value):
        text = None if value is None else value.hex()
        with self._lock:
            self._keep(bucket, key, stamp, text)
            if self._log is not None:
                with self._log.open("a") as file:
                    file.write(json.dumps([bucket.hex(), key.hex(), stamp, text]) + "\n")

    def holders(self, bucket, key):
        first = hash_of(bucket, key) // (2**RING_BITS // self.ring_size) + 1
        numbers = [(first + k) % self.ring_size for k in range(self.n_val)]
        return [(p, self.members[p % len(self.members)]) for p in numbers]

    def write(self, bucket, key, value, needed):
        with self._lock:
            self._last = stamp = max(time.time_ns(), self._last + 1)
        done = 0
        for _, node in self.holders(bucket, key):
            if node == self.name:
                self.store(bucket, key, stamp, value)
                done += 1
            else:
                text = None if value is None else value.hex()
                done += self.tell(node, "store", bucket.hex(), key.hex(), stamp, text) is not None
        return done >= needed

    def own(self, bucket, key):
        """(whether this node serves, what it or the one that stands in for it has)."""
        if self.late:
            self.late -= 1
            return False, (0, None)
        return True, self.objects.get((bucket, key), (0, None))

    def read(self, bucket, key, needed, themselves):
        """The newest copy; the error where too few nodes answer, or not themselves."""
        copies, there = [], 0
        for _, node in self.holders(bucket, key):
            if node == self.name:
                serves, copy = self.own(bucket, key)
            elif (output := self.tell(node, "fetch", bucket.hex(), key.hex())) is not None:
                serves, stamp, text = output
                copy = (stamp, None if text is None else bytes.fromhex(text))
            else:
                continue
            there += serves
            copies.append(copy)
        if there < themselves:
            return f"{{pr_val_unsatisfied,{themselves},{there}}}"
        if len(copies) < needed:
            return f"{{r_val_unsatisfied,{needed},{len(copies)}}}"
        return max(copies, key=lambda c: c[0])

    def tell(self, node, *words):
        """What another node answers; None where it does not."""
        try:
            return call(self.peers[node], self.cookie, *words)
        except OSError:
            return None

    def needed(self, value):
        words = {2**32 - 2: 1, 2**32 - 3: self.n_val // 2 + 1, 2**32 - 4: self.n_val}
        return words.get(value or 2**32 - 3, value or 0)

    def answer(self, code, body):
        self.asked[code] += 1
        if self.fault and code in (9, 11):
            yield from self._misbehave()
            return
        request = unpack(body)
        bucket, key = request.get(1, b""), request.get(2, b"")
        if code == 1:
            yield framed(2)
        elif code == 7:
            yield framed(8, pack((1, self.name.encode()), (2, b"3.2.2-standin")))
        elif code == 9:
            themselves = self.needed(request[4]) if 4 in request else 0
            result = self.read(bucket, key, self.needed(request.get(3)), themselves)
            if isinstance(result, str):
                yield framed(0, pack((1, result.encode()), (2, 0)))
            elif result[1] is None:
                yield framed(10)
            else:
                value = b"" if request.get(8) else result[1]
                content = pack((1, value), (2, b"application/json"), (5, b"tag"), (7, 1700000000))
                yield framed(10, pack((1, content), (2, number(result[0]))))
        elif code == 11:
            done = self.write(bucket, key, unpack(request[4])[1], self.needed(request.get(5)))
            yield framed(12) if done else framed(0, pack((1, b"{w_val_unsatisfied,2,1}"), (2, 0)))
        elif code == 13:
            self.write(bucket, key, None, 1)
            yield framed(14)
        elif code == 17:
            yield from self._keys(bucket)
        elif code == 33:
            yield framed(
                34,
                pack(
                    *(
                        (1, pack((1, p), (2, node.encode()), (3, 1)))
                        for p, node in self.holders(bucket, key)
                    )
                ),
            )
        else:
            yield framed(0, pack((1, f"Unknown message code: {code}".encode()), (2, 2)))

    def _keys(self, bucket):
        keys = {k for (b, k), (_, value) in self.objects.items() if b == bucket and value}
        for node in self.members:
            if node != self.name:
                keys |= {bytes.fromhex(key) for key in self.tell(node, "keys", bucket.hex()) or ()}
        yield framed(18, pack(*((1, key) for key in sorted(keys))))
        yield framed(18, pack((2, 1)))

    def _misbehave(self):
        whole = framed(10, pack((1, pack((1, b"{}")))))
        if self.fault == "slow":
            yield whole[:3]
            end = time.monotonic() + 60
            while self.fault == "slow" and time.monotonic() < end:
                time.sleep(0.05)
        elif self.fault == "cut":
            yield whole[:-2]
            raise ConnectionError
        elif self.fault == "garbage":
            yield framed(10, b"\x0a\xff\xff\x03abc")
        elif self.fault == "oversized":
            yield b"\xff\xff\xff\xff\x0a"
        elif self.fault == "wrong":
            yield framed(18)
        elif self.fault == "siblings":
            content = pack((1, b"{}"))
            yield framed(10, pack((1, content), (1, content), (2, b"v")))
        else:
            yield framed(0, pack((1, self.fault.encode()), (2, 0)))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, handler, node):
        self.node = node
        super().__init__(address, handler)

    def begin(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def end(self):
        self.shutdown()
        self.server_close()


class _Client(socketserver.StreamRequestHandler):
    def handle(self):
        node = self.server.node
        node.connections.add(self.connection)
        try:
            while len(head := self.rfile.read(4)) == 4:
                received = self.rfile.read(int.from_bytes(head, "big"))
                for part in node.answer(received[0], received[1:]):
                    self.wfile.write(part)
        except OSError:
            return
        finally:
            node.connections.discard(self.connection)


def call(where, cookie, *words):
    """One question to a node's port for other nodes."""
    with socket.create_connection(where, 5) as connection, connection.makefile("rw") as file:
        file.write(json.dumps([cookie, *words]) + "\n")
        file.flush()
        line = file.readline()
    if not line:
        raise ConnectionError("no answer")
    return json.loads(line)


def stop_at_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
