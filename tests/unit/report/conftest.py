"""What tests of the page share."""

from support.results.made import made

__all__ = ["made"]
