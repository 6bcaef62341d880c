"""A first look at a directory of outputs."""

import shutil

import pytest
from support.inputs.ssearch import DATA, content

from storewise.ssearch.inputs.survey import Survey, survey

#: By size; documents of each.
FILES = {
    **{"lalign36_protein.m10": 10, "ssearch36_nohits.m10": 9, "ssearch36_nostats.m10": 37},
    "ssearch36.m10": 111,
}


@pytest.fixture
def outputs(tmp_path):
    for name in FILES:
        shutil.copy(DATA / name, tmp_path)
    return tmp_path


def test_all_of_a_directory(outputs):
    (outputs / "cut.m10").write_bytes(content(DATA / "ssearch36.m10")[:30_000])
    (outputs / "empty.m10").touch()
    told = []
    found = survey(outputs, lambda *now: told.append(now), clock=lambda: 0.0)
    assert (found.files, found.read, found.documents) == (6, 4, sum(FILES.values()))
    assert found.bytes == sum(path.stat().st_size for path in outputs.iterdir())
    assert [line.split(":")[0].split(",")[0] for line in found.incomplete] == [
        str(outputs / name) for name in ("empty.m10", "cut.m10")
    ]
    assert told == [(number, 6) for number in range(1, 7)]
    # Those without statistics have no e-values; of the cut one no hit was given out.
    assert (found.looked, found.with_scores, found.with_genes) == (4, 3, 0)
    gene = content(DATA / "ssearch36.m10").replace(b" Bovine GST", b" [gene=x]")
    (outputs / "gene.m10").write_bytes(gene)
    found = survey(str(outputs), clock=lambda: 0.0)
    assert (found.looked, found.with_scores, found.with_genes) == (5, 4, 1)


def test_small_files_first_until_the_time_is_over(outputs):
    """The clock goes on by one second at each look: at a batch, and at the end of each file. Of
    the file in which the time ended it is known whether it has hits."""
    for seconds, read, looked in ((0, 0, 1), (1, 1, 1), (2, 1, 2), (3, 2, 2), (6, 3, 4), (9, 4, 4)):
        now = iter(range(100))
        found = survey(outputs, seconds=seconds, clock=lambda now=now: float(next(now)))
        assert (found.files, found.read, found.looked) == (4, read, looked)
        assert found.documents == sum(list(FILES.values())[:read])


def test_what_most_files_have():
    assert Survey().scores and not Survey().genes
    for looked, having, most in ((1, 0, False), (2, 1, False), (3, 2, True), (1, 1, True)):
        found = Survey(looked=looked, with_genes=having, with_scores=having)
        assert (found.genes, found.scores) == (most, most)
