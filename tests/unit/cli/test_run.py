"""What `storewise run` refuses before anything starts."""

import pytest
from support.commands import storewise
from support.inputs.small_studies import GOOD


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--core", "2"), ("No such option: --core", "--cores")),
        (("--omit-from", "analyse"), ("No such option: --omit-from", "-- ARGUMENT")),
        (("--profile", "slrum"), ("no profile is called 'slrum' (did you mean 'slurm'?)",)),
        (("--profile", "./elsewhere"), ("no profile is called './elsewhere'",)),
    ],
)
def test_what_is_not_known_is_refused(tmp_path, arguments, words):
    (tmp_path / "s.yaml").write_text(GOOD)
    done = storewise("run", "s.yaml", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    for text in words:
        assert text in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]
