"""Workers whose clients are threads, for the tests of this folder."""

from support.in_threads import server

__all__ = ["server"]
