"""`storewise convert --to parquet`: what it says."""

from support.commands import storewise
from support.paths import DATA, SMALL

GOOD, OTHER = SMALL[0], SMALL[1]


def convert(place, *arguments):
    return storewise("convert", *arguments, "--to", "parquet", "-o", place, "--jobs", "1")


def test_what_it_says(tmp_path):
    place = tmp_path / "set"
    done = convert(place, GOOD, "--partitions", "1")
    assert done.returncode == 0
    assert done.stderr.startswith(f"storewise: {place}: ")
    assert "documents in 4 files" in done.stderr and "read 1 inputs now" in done.stderr
    assert convert(place, GOOD).stderr.endswith("; nothing is new\n")
    refused = convert(place, GOOD, OTHER)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"and {OTHER} is not one of them; use --update" in refused.stderr
    assert not (place / ".work").exists()
    assert convert(place, OTHER, "--update").returncode == 0
    refused = convert(place, OTHER, "--partitions", "2")
    assert "was made with partitions = 1, and 2 is asked for" in refused.stderr


def test_bad_and_equal_inputs(tmp_path):
    """Also: the data set lies in the directory of its inputs."""
    place = tmp_path / "set"
    bad, twin = tmp_path / "bad.m10", tmp_path / "twin.m10"
    bad.write_bytes((DATA / "ssearch36.m10").read_bytes()[:40_000])
    twin.write_bytes(GOOD.read_bytes())
    done = convert(place, tmp_path, GOOD)
    assert done.returncode == 2 and done.stderr.startswith(f"storewise: {bad}, line ")
    assert "on_bad_input: quarantine in the study, or --quarantine" in done.stderr
    assert not (place / ".work").exists()
    done = convert(place, tmp_path, GOOD, "--quarantine")
    assert done.returncode == 0
    assert f"storewise: left out: {bad}, line " in done.stderr
    # The first by path stays.
    first, second = sorted([str(twin), str(GOOD)])
    assert f"storewise: left out, equal to {first}: {second}" in done.stderr


def test_a_bad_output_is_told_in_the_same_way_in_all_forms(tmp_path):
    bad = tmp_path / "bad.m10"
    bad.write_bytes((DATA / "ssearch36.m10").read_bytes()[:40_000])
    for to, name in (("hits", "hits.tsv"), ("jsonl", "files"), ("parquet", "set")):
        request = ("convert", GOOD, bad, "--to", to, "-o", tmp_path / name, "--jobs", "1")
        done = storewise(*request)
        assert done.returncode == 2, to
        assert f"storewise: {bad}, line " in done.stderr and "--quarantine" in done.stderr
        assert to != "hits" or not (tmp_path / name).exists()
        done = storewise(*request, "--quarantine")
        assert done.returncode == 0, to
        assert f"storewise: left out: {bad}, line " in done.stderr
        assert (tmp_path / name).exists()


def test_options_that_are_refused(tmp_path):
    for options, says in (
        (("--target-size", "512"), "'512' is no size; expected a number and a unit"),
        (("--by", "library", "--study-fields"), "library needs the names of queries"),
    ):
        done = convert(tmp_path / "set", GOOD, *options)
        assert done.returncode == 2 and says in done.stderr
        assert not (tmp_path / "set" / "dataset.json").exists()
    done = storewise("convert", GOOD, "--to", "jsonl", "-o", tmp_path / "out", "--update")
    assert done.returncode == 2 and "is an option of --to parquet" in done.stderr
