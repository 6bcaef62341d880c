"""What tests of estimates share."""

import boto3  # noqa: F401 - it opens a socket where it is imported first, which is in no test
from support.results.made import made

__all__ = ["made"]
