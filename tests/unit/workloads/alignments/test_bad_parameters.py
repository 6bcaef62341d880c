"""Parameters of mixed phases and questions that are refused."""

import pytest

from storewise.errors import ConfigError
from storewise.study.load import load_study

STUDY = """\
inputs: {paths: data}
engines: [ENGINES]
indexes: [align.q, align.gene]
factors: {index: [none, before]}
exclude: [{engine: files, index: before}]
repeats: 1
verify: 20
phases:
  - write: {leave: 0.4}
  - query: {operations: 10}
  - mixed: {operations: 12, writes: 0.5, batch_size: 100}
"""


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
        ("exclude: [{engine: files, index: before}]\n", "", "no secondary indexes"),
    ],
)
def test_bad_parameters_are_refused(tmp_path, old, new, says):
    good = STUDY.replace("ENGINES", "files, sqlite")
    assert good.count(old) == 1
    path = tmp_path / "s.yaml"
    path.write_text(good)
    assert len(load_study(path).trials()) == 3
    path.write_text(good.replace(old, new))
    with pytest.raises(ConfigError) as error:
        load_study(path)
    assert says in str(error.value)
