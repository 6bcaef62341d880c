"""What tests of estimates share."""

from support.results.made import made

__all__ = ["made"]
