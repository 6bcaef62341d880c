"""Arrow's own way to S3, for what reads Parquet files there."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlsplit

from storewise.s3.client import CONNECT_SECONDS, READ_SECONDS, explained, s3

_AMAZON = (".amazonaws.com", ".amazonaws.com.cn")
#: Ways of boto3 to keys that do not change. Arrow finds those of roles, and renews them.
_LASTING = ("env", "shared-credentials-file")


def file_system() -> Any:
    """Arrow's file system for S3: endpoint, region and credentials are those of `client.s3`.

    Paths are BUCKET/KEY. Raises ObjectError where there are no credentials, or no region.
    """
    import boto3

    with explained("S3"):
        meta = s3().meta
        credentials = boto3.session.Session().get_credentials()
    keys: tuple[str | None, ...] | None = None
    if credentials is not None and credentials.method in _LASTING:
        frozen = credentials.get_frozen_credentials()
        keys = frozen.access_key, frozen.secret_key, frozen.token
    return _file_system(meta.endpoint_url, meta.region_name, keys)


@cache
def _file_system(endpoint: str, region: str, keys: tuple[str | None, ...] | None) -> Any:
    """One file system for each endpoint, region and user: it keeps connections."""
    from pyarrow import fs

    more: dict[str, Any] = {}
    if keys is not None:
        more = dict(zip(("access_key", "secret_key", "session_token"), keys, strict=True))
    url = urlsplit(endpoint)
    if not (url.hostname or "").endswith(_AMAZON):
        more |= {"endpoint_override": url.netloc, "scheme": url.scheme}
    return fs.S3FileSystem(
        region=region, connect_timeout=CONNECT_SECONDS, request_timeout=READ_SECONDS, **more
    )
