"""Python runs this at each start where this directory is on PYTHONPATH: the Snakemakes and jobs of
the simulation know its engine then."""

from contextlib import suppress

with suppress(ImportError):
    from storewise.engines.registry import ENGINES

    ENGINES["hollow"] = "hollow_engine:HollowEngine"
