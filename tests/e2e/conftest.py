"""What tests of whole studies share."""

from support.results.made import made

__all__ = ["made"]
