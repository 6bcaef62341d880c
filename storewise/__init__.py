"""Storewise: which data store should hold my sequence-search results, on my cluster?"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("storewise")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"
