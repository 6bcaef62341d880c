"""Parameters of `alignments` and `measures` that are refused."""

import pytest

from storewise.errors import ConfigError
from storewise.study.load import load_study

ALIGNMENTS = """\
inputs: {paths: data}
engines: [files, sqlite]
indexes: [align.q, align.gene]
phases:
  - write: {leave: 0.4}
  - query: {operations: 10}
  - mixed: {operations: 12, writes: 0.5, batch_size: 100}
"""


def refused(tmp_path, text, says):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_study(path)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("{leave: 0.4}", "{leave: 1.0}", "less than 1"),
        ("{leave: 0.4}", "{leave: -0.1}", "greater than or equal to 0"),
        ("{leave: 0.4}", "{}", "leaves nothing"),
        ("{operations: 10}", "{operations: 10, questions: [best_hit]}", "best_hit"),
        ("{operations: 10}", "{operations: 10, questions: []}", "at least 1"),
        ("{operations: 10}", "{operations: 10, questions: [top_genes, top_genes]}", "twice"),
        ("{operations: 10}", "{operations: 10, limit: 0}", "greater than or equal to 1"),
        ("{operations: 10}", "{operations: 10, width: 0}", "greater than 0"),
        ("{operations: 10}", "{operations: 10, width: .inf}", "finite"),
        ("{operations: 10}", "{operations: 10, ident_share: 2}", "less than or equal to 1"),
        ("{operations: 10}", "{limit: 3}", "`operations`"),
        ("writes: 0.5", "writes: 1.5", "less than or equal to 1"),
        ("operations: 12, ", "", "`operations`"),
        ("batch_size: 100", "batch: 100", "did you mean 'batch_size'"),
    ],
)
def test_of_alignments(tmp_path, old, new, says):
    assert ALIGNMENTS.count(old) == 1
    path = tmp_path / "good.yaml"
    path.write_text(ALIGNMENTS)
    assert len(load_study(path).trials()) == 2
    refused(tmp_path, ALIGNMENTS.replace(old, new), says)


@pytest.mark.parametrize(
    ("phases", "says"),
    [
        ("[load: {rows: 10}]", "100"),
        ("[load: {rows: 1000, seconds: 3}]", "rows"),
        ("[load: {rows: 1000}, q1: {}]", "operations"),
        ("[load: {rows: 1000}, q2: {selectivity_pct: 0}]", "between 0 and 100"),
        ("[load: {rows: 1000}, q2: {selectivity_pct: [1, 1]}]", "twice"),
        ("[load: {rows: 1000}, q3: {selectivity: 1}]", "selectivity_pct"),
        ("[load: {how: slowly}]", "bulk"),
        ("[load: {machines: 70000}]", "65535"),
        ("[load: {machines: 60000, sensors: 60000}]", "16,384 series"),
        ("[load: {rows: 1000}, q4: {}]", "q4"),
    ],
)
def test_of_measures(tmp_path, phases, says):
    refused(tmp_path, f"workload: measures\nengines: [sqlite]\nphases: {phases}\n", says)
