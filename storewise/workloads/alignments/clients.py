"""What the phases of the study's documents have in common: streams, shares, sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from storewise.documents import Document
from storewise.ssearch.inputs.table import InputFile
from storewise.workloads.contract import ClientContext


def client_stream(context: ClientContext, *, seed: int | None = None) -> np.random.Generator:
    """This client's own random stream: no other client, phase, step or trial has it.

    `seed` stands for the trial's where given. SeedSequence mixes its entropy well
    (numpy.random.SeedSequence), so neighbouring numbers give independent streams.
    """
    phase = int.from_bytes(hashlib.blake2b(context.phase.encode(), digest_size=8).digest(), "big")
    root = np.random.SeedSequence([context.seed if seed is None else seed, phase, context.step])
    return np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=(context.client,)))


def client_share(context: ClientContext) -> int | None:
    """This client's part of the step's operations, None where their number is open."""
    if context.params.operations is None:
        return None
    share, rest = divmod(context.params.operations, context.clients)
    return int(share + (context.client < rest))


def deal(files: Sequence[InputFile], thread: int, threads: int) -> list[InputFile]:
    """The files of one thread: the largest first, each to the thread with the fewest bytes."""
    loads = [0] * threads
    mine = []
    for file in sorted(files, key=lambda f: (-f.bytes, f.path)):
        least = loads.index(min(loads))
        loads[least] += file.bytes
        if least == thread:
            mine.append(file)
    return mine


def document_bytes(document: Document | None) -> int:
    """Payload of a document: characters of its strings, bytes of its ids, 8 for each number."""
    if document is None:
        return 0
    total = 0
    for value in document.values():
        if isinstance(value, str | bytes):
            total += len(value)
        elif value is not None:
            total += 8
    return total
