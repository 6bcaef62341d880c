"""An S3 to test against: moto's server in a process of its own.

Run as a program (``s3_server.py HOST``) it is that server: it prints its port and serves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from storewise.processes import dies_with_parent

# As a program it is not told where the tests are.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from support.s3.faults import environment

#: Keys of a page of a listing: so few that tests meet second pages (S3: 1,000).
PAGE = 25


class S3Server:
    """moto's S3 on a free port of `host`; it ends with its parent, however that ends."""

    def __init__(self, host="127.0.0.1"):
        self._host = host
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), self._host],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a line for each request
            env={**os.environ, "MOTO_S3_DEFAULT_MAX_KEYS": str(PAGE)},
            text=True,
            preexec_fn=dies_with_parent(),
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()  # it is printed once the socket listens
        assert line, "moto's server did not start"
        self.port = int(line)
        return self

    def __exit__(self, *_):
        assert self._process is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    @property
    def endpoint(self):
        host = "127.0.0.1" if self._host == "0.0.0.0" else self._host
        return f"http://{host}:{self.port}"

    @property
    def environment(self):
        """What makes every AWS tool use this server and nothing of the user's."""
        return environment(self.endpoint)

    def client(self):
        """A client of the test's own: no part of what is tested."""
        return boto3.session.Session(
            aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1"
        ).client(
            "s3",
            endpoint_url=self.endpoint,
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 3}),
        )

    def bucket(self, name=None):
        """Makes a bucket (with a name of its own where none is given); its name."""
        name = name or f"test-{uuid.uuid4().hex}"
        self.client().create_bucket(Bucket=name)
        return name


@dataclass(frozen=True)
class Bucket:
    """A bucket of one test: `faults` is what the tested code talks to, `client` goes around it."""

    client: Any
    name: str
    faults: Any

    @property
    def uri(self):
        return f"s3://{self.name}"

    def put(self, key, data):
        """Writes an object; its URI."""
        self.client.put_object(Bucket=self.name, Key=key, Body=data)
        return f"{self.uri}/{key}"

    def get(self, key):
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def keys(self, prefix=""):
        """All keys that begin with `prefix`, sorted."""
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=prefix
        )
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def delete(self, key):
        self.client.delete_object(Bucket=self.name, Key=key)

    def tags(self, key):
        tags = self.client.get_object_tagging(Bucket=self.name, Key=key)["TagSet"]
        return {tag["Key"]: tag["Value"] for tag in tags}

    def uploads(self):
        """Keys of uploads in parts that have not ended."""
        page = self.client.list_multipart_uploads(Bucket=self.name)
        return [item["Key"] for item in page.get("Uploads", ())]


def _serve(host):
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    class Handler(MotoRequestHandler):
        def log(self, *_):
            return

    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(host, 0, application, threaded=True, request_handler=Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve(sys.argv[1])
