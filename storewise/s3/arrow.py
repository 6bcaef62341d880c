"""Arrow's own way to S3, for what reads Parquet files there."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlsplit

from storewise.s3.client import CONNECT_SECONDS, READ_SECONDS, explained, s3

_AMAZON = (".amazonaws.com", ".amazonaws.com.cn")


@cache
def file_system() -> Any:
    """Arrow's file system for S3: endpoint, region and credentials are those of `client.s3`.

    Paths are BUCKET/KEY. Raises ObjectError where there are no credentials, or no region.
    """
    import boto3
    from pyarrow import fs

    with explained("S3"):
        meta = s3().meta
        credentials = boto3.session.Session().get_credentials()
    keys: dict[str, Any] = {}
    # Arrow renews those of roles by itself; it does not know all of the ways in which boto3 finds
    # keys that do not change.
    if credentials is not None and credentials.method in ("env", "shared-credentials-file"):
        frozen = credentials.get_frozen_credentials()
        keys = {"access_key": frozen.access_key, "secret_key": frozen.secret_key}
        keys["session_token"] = frozen.token
    endpoint = urlsplit(meta.endpoint_url)
    if not (endpoint.hostname or "").endswith(_AMAZON):
        keys |= {"endpoint_override": endpoint.netloc, "scheme": endpoint.scheme}
    return fs.S3FileSystem(
        region=meta.region_name,
        connect_timeout=CONNECT_SECONDS,
        request_timeout=READ_SECONDS,
        **keys,
    )
