"""A local instance metadata service, version 2, for tests."""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

INTERRUPTION = "/latest/meta-data/spot/instance-action"
DOCUMENT = {
    "accountId": "123456789012",
    "instanceId": "i-0123456789abcdef0",
    "instanceType": "i4i.2xlarge",
    "availabilityZone": "eu-central-1b",
    "region": "eu-central-1",
    "imageId": "ami-0abcdef1234567890",
}


class ImdsServer:
    """Answers as an instance would; a test sets what it is, and when it is taken back.

    `requests` has method and path of each request. Tokens hold until `forget` is called.
    `ends_in`: as soon as somebody asks for an interruption, there is one in so many seconds; after
    that the host is another one, of which nothing is announced.
    `failing` is a status that is answered to each GET instead; `page` is one to each PUT.
    """

    def __init__(self, life_cycle="on-demand", document=DOCUMENT, port=0):
        self._port = port
        self.life_cycle = life_cycle
        self.document = document
        self.spot_action: str | None = None
        self.ends_in: int | None = None
        self._ends: datetime | None = None
        self.failing: int | None = None
        self.page: str | None = None
        self.tokens = 0
        self._oldest = 1
        self.requests: list[tuple[str, str]] = []

    def __enter__(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self):
                outer.requests.append(("PUT", self.path))
                seconds = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
                if self.path != "/latest/api/token" or not seconds.isdigit():
                    self._answer(400, "")
                    return
                outer.tokens += 1
                self._answer(200, f"token-{outer.tokens}" if outer.page is None else outer.page)

            def do_GET(self):
                outer.requests.append(("GET", self.path))
                token = self.headers.get("X-aws-ec2-metadata-token", "").removeprefix("token-")
                if not token.isdigit() or int(token) < outer._oldest:
                    self._answer(401, "")
                    return
                if self.path == INTERRUPTION:
                    outer._announce()
                if outer.failing is not None:
                    self._answer(outer.failing, "")
                elif (text := outer.texts().get(self.path)) is None:
                    self._answer(404, "")
                else:
                    self._answer(200, text)

            def _answer(self, status, text):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, kind, error, trace):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self):
        return int(self._server.server_port)

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self):
        """With which a process finds this service."""
        return {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.endpoint,
            "AWS_EC2_METADATA_DISABLED": "false",
        }

    def forget(self):
        """The tokens that were given do not hold any more."""
        self._oldest = self.tokens + 1

    def take_back(self, at, action="terminate"):
        """Announce an interruption."""
        self.spot_action = json.dumps({"action": action, "time": at})

    def _announce(self):
        now = datetime.now(UTC).replace(microsecond=0)
        if self._ends is None and self.ends_in is not None:
            self._ends = now + timedelta(seconds=self.ends_in)
            self.take_back(f"{self._ends:%Y-%m-%dT%H:%M:%SZ}")
        elif self._ends is not None and now >= self._ends:
            self.spot_action = None

    def texts(self):
        document = self.document if isinstance(self.document, str) else json.dumps(self.document)
        result = {
            "/latest/dynamic/instance-identity/document": document,
            "/latest/meta-data/instance-life-cycle": self.life_cycle,
        }
        if self.spot_action is not None:
            result[INTERRUPTION] = self.spot_action
        return result


def main(port, kind, life_cycle):
    """An instance of a type: until its input ends."""
    with ImdsServer(life_cycle, {**DOCUMENT, "instanceType": kind}, int(port)):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
