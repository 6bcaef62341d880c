"""Riak's frames over a socket, cut anywhere."""

import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.riak.standin import framed

from storewise.engines.contract.engine import Endpoint
from storewise.engines.riak import protocol as pb


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=5), st.integers(1, 400))
def test_frames_come_whole_however_they_are_cut(bodies, step):
    data = b"".join(framed(pb.GET_ANSWER, body) for body in bodies)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        connection = pb.Connection(
            Endpoint("data", 0, "here", *listener.getsockname()), connect=5, seconds=10
        )
        peer, _ = listener.accept()

        def send():
            with peer:
                for at in range(0, len(data), step):
                    peer.sendall(data[at : at + step])

        sender = threading.Thread(target=send)
        sender.start()
        assert [connection.receive(pb.GET_ANSWER) for _ in bodies] == bodies
        sender.join()
        with pytest.raises(pb.Broken, match="closed the connection"):
            connection.receive(pb.GET_ANSWER)
        assert connection.fileno() < 0
