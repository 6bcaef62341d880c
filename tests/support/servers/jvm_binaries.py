"""Cassandra's and HBase's jars for the tests, fetched once as `storewise install` does it, into the
cache of `mongodb_binaries` under a name that changes with the list of jars."""

import hashlib

from support.servers.mongodb_binaries import Unavailable, cached, installed

from storewise.run.install.recipes import RECIPES

__all__ = ["Unavailable", "jars"]


def jars(name):
    """The directory of an engine's jars (they are in its ``lib``); raises Unavailable."""
    checksums = "".join(artefact.sha256 for artefact in RECIPES[name].artefacts)
    place = f"jars-{hashlib.sha256(checksums.encode()).hexdigest()[:8]}"
    return cached(place, lambda directory: installed(name, directory)) / name
