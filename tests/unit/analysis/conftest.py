"""What tests of the analysis share."""

from support.results.made import made

__all__ = ["made"]
