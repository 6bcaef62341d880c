"""Storewise: which data store should hold my sequence-search results, on my cluster?"""


def __getattr__(name: str) -> str:
    # When it is asked for: commands that start for each job of a cluster do not ask.
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("storewise")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0+unknown"
