"""Files of the bundled sample made again, with the same alignments."""

from collections import Counter

import pytest
from support.paths import SAMPLE

from storewise.ssearch.inputs.scan import scan_file
from storewise.ssearch.reader import DocumentReader
from storewise.ssearch.search.fasta import split_fasta
from storewise.ssearch.search.ssearch36 import run_search


def alignments(path):
    """What an alignment is, apart from ids and from the statistics.

    ssearch36 estimates its statistics from scores of randomly drawn and shuffled sequences: bits,
    e-values and the order of hits differ from run to run, the alignments do not.
    """
    rna, gs, result = {}, {}, Counter()
    for batch in DocumentReader(path, scan_file(path).digest):
        rna |= {document["_id"]: document for document in batch.rna}
        gs |= {document["_id"]: document for document in batch.gs}
        for align in batch.align:
            query, library = rna[align["rna"]], gs[align["gs"]]
            keys = ("q", "gene", "chr", "f", "s_w", "p", "i", "si", "o")
            ends = [one[key] for one in (query, library) for key in ("b", "e", "s")]
            result[(*(align[key] for key in keys), *ends, library["seqid"])] += 1
    return result


@pytest.mark.needs("ssearch36")
@pytest.mark.parametrize("number, library", [(1, "orchids"), (4, "yersinia"), (15, "arabidopsis")])
def test_one_file_made_again(tmp_path, number, library):
    part = split_fasta(SAMPLE / "fasta" / "queries.fa.gz", tmp_path, 4)[number - 1]
    kept = next(SAMPLE.glob(f"queries_{number:02}__{library}.m10.*"))
    made = tmp_path / "made.m10.gz"
    run_search(part, SAMPLE / "fasta" / f"{library}.fa.gz", made)
    expected = alignments(kept)
    assert sum(expected.values()) == scan_file(kept).alignments
    assert alignments(made) == expected
