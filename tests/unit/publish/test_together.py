"""Two that publish to one folder at a time, and results that change meanwhile."""

import shutil

import pytest
from support.results.published import FOLDER, publish, pull, quiet, write_results

from storewise.publish.pull import publication
from storewise.publish.push import carry_out, plan_of
from storewise.publish.results import write_config
from storewise.s3.client import ObjectError
from storewise.s3.uri import parse
from storewise.study.publication import Publish


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path)


def planned(results, s3):
    write_config(results)
    return plan_of(results, Publish(to=f"{s3.uri}/p", name="first"), quiet)


def content_of(s3):
    keys = s3.keys()
    return {key: s3.get(key) for key in keys}


def with_report(results, where, text):
    """The results of the same run with a report of their own."""
    shutil.copytree(results, where)
    (where / "report.html").write_text(text)
    return where


def test_the_later_of_two_that_know_nothing_of_each_other_writes_nothing(results, s3, tmp_path):
    other = with_report(results, tmp_path / "other", "other")
    for _ in ("a new folder", "one that is renewed"):
        first, second = planned(results, s3), planned(other, s3)
        carry_out(first, quiet)
        before = content_of(s3)
        with pytest.raises(ObjectError, match=r"MANIFEST\.json was written or deleted by another"):
            carry_out(second, quiet)
        assert content_of(s3) == before
        pull(first.folder, tmp_path / "pulled")
        (results / "report.html").write_text("renewed")


def test_who_is_overtaken_says_so(results, s3, tmp_path):
    """Whoever begins while another is at it wins: the other one may have been killed."""
    other = with_report(results, tmp_path / "other", "other")
    first = planned(results, s3)
    overtaken = False

    def overtake(done, total):
        nonlocal overtaken
        if done == total and not overtaken:
            overtaken = True
            carry_out(planned(other, s3), quiet)

    with pytest.raises(ObjectError, match="written or deleted by another process meanwhile"):
        carry_out(first, overtake)
    assert overtaken
    pull(first.folder, tmp_path / "pulled")
    assert (tmp_path / "pulled" / "report.html").read_text() == "other"


def test_of_two_that_begin_in_the_same_moment_one_goes_on(results, s3, tmp_path):
    """Their first manifests differ by nothing but the writer."""
    both = planned(results, s3)

    def begin(done, total):
        with pytest.raises(ObjectError, match=r"MANIFEST\.json was written or deleted by another"):
            carry_out(both, quiet)

    carry_out(both, begin)
    pull(both.folder, tmp_path / "pulled")


@pytest.mark.parametrize("replaced", [True, False])
def test_objects_that_change_meanwhile(results, s3, replaced):
    publish(results, s3)
    (results / "report.html").write_text("new")
    key = f"{FOLDER}/study.json"

    def meddle(*_):
        if replaced:
            s3.put(key, b"{}")
        else:
            s3.delete(key)

    with pytest.raises(ObjectError, match=r"study\.json was written or deleted by another"):
        carry_out(planned(results, s3), meddle)
    with pytest.raises(ObjectError, match="half a publication"):
        publication(parse(f"{s3.uri}/{FOLDER}"))
    assert publication(publish(results, s3)).complete


def test_results_that_are_analysed_meanwhile_are_not_mixed(results, s3):
    """A file that had gone up, or was there, is another one when the manifest is to be written."""
    publish(results, s3)
    (results / "summary.csv").write_text("new,b\n")

    def analyse(done, total):
        (results / "report.html").write_text("<p>another</p>")

    with pytest.raises(ObjectError, match=r"report\.html: changed while it was published"):
        carry_out(planned(results, s3), analyse)
    with pytest.raises(ObjectError, match="half a publication"):
        publication(parse(f"{s3.uri}/{FOLDER}"))
    publish(results, s3)
    assert s3.get(f"{FOLDER}/report.html") == b"<p>another</p>"
