"""What a load of alignments will store, by the manifest and by a look at a few of the files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from storewise.documents import KINDS, Kind
from storewise.engines.contract.server import Content
from storewise.errors import InputError
from storewise.ssearch.inputs.shards import load_shard, shard_count
from storewise.ssearch.inputs.table import InputFile
from storewise.ssearch.parse.reader import DocumentReader
from storewise.ssearch.parse.stream import open_input
from storewise.workloads.alignments.mixed_phase import left_files
from storewise.workloads.contract import content_of

#: Files of which the first alignments are looked at, evenly taken, and how many of each.
_FILES, _ALIGNMENTS = 5, 200


def contents_of(shards: Path, leave: float, *, study_fields: bool) -> dict[Kind, Content]:
    """Documents of each kind and their mean size as BSON; nothing where files were not counted
    (`digest: sampled`). `leave` is the share of the files that the load leaves."""
    files: list[InputFile] = []
    for shard in range(shard_count(shards)):
        every = load_shard(shards, shard)
        left = {file.digest for file in left_files(every, leave)}
        files += [file for file in every if file.digest not in left]
    if any(file.queries is None for file in files):
        return {}
    totals = dict.fromkeys(KINDS, sum(file.alignments or 0 for file in files))
    totals[Kind.TASKS] = sum(file.queries or 0 for file in files)
    some: dict[Kind, list[bytes]] = {kind: [] for kind in KINDS}
    for file in files[:: max(1, -(-len(files) // _FILES))]:
        # A bad file is told by the load, or left out by it.
        with suppress(InputError), open_input(file.path, file) as stream:
            reader = DocumentReader(
                cast(BinaryIO, stream),
                file.digest,
                encoding="bson",
                study_fields=study_fields,
                alignments_per_batch=_ALIGNMENTS,
            )
            for kind, documents in next(iter(reader), ()):
                some[kind] += documents
    return {kind: content_of(totals[kind], packed) for kind, packed in some.items() if packed}
