"""Where results go on S3, and what tags their objects have."""

import pytest
from pydantic import ValidationError

from storewise import __version__
from storewise.study.publication import MOST_TAGS, Publish, as_publish, as_time, folder_of, tags_of

#: 2026-11-22, 8:17:21 in UTC.
TIME = 1795335441.9


def test_a_folder_is_named_by_time_study_and_name():
    assert as_publish("s3://bkt") == {"to": "s3://bkt"} and as_publish(None) is None
    assert as_time(TIME) == "2026-11-22T08:17:21Z"
    plain, named = Publish(to="s3://bkt/p"), Publish(to="s3://bkt/p/", name="my.run-1")
    assert str(folder_of(plain, "demo", TIME)) == "s3://bkt/p/20261122T081721Z-demo/"
    assert str(folder_of(named, "demo", TIME)) == "s3://bkt/p/20261122T081721Z-demo-my.run-1/"


def test_each_object_tells_what_it_is_of():
    own = {"run": "2026-11-22T08:17:21Z", "storewise": __version__}
    assert tags_of(Publish(to="s3://bkt"), "demo", TIME) == {"study": "demo", **own}
    more = Publish(to="s3://bkt", name="n", tags={"cost centre": "a+b=c"})
    assert tags_of(more, "a;b*" + "x" * 300, TIME) == {
        **{"study": "a_b_" + "x" * 252, "name": "n", **own},
        "cost centre": "a+b=c",
    }


def test_what_s3_would_not_take():
    for values, says in (
        ({"to": "bkt"}, "s3://BUCKET/PREFIX"),
        ({"name": "x" * 65}, "at most 64"),
        ({"name": "-x"}, "the first is a letter or digit"),
        *(({"tags": {key: "x"}}, f"'{key}' is not yours") for key in ("study", "name", "AWS:x")),
        *(({"tags": {key: "x"}}, "1 to 128 characters") for key in ("", "k" * 129)),
        ({"tags": {"k": "v" * 257}}, "a value at most 256"),
        ({"tags": {"k": "a;"}}, "';' is not taken by S3"),
        ({"tags": {"k?": "a"}}, "'k?': '?' is not taken by S3"),
        ({"tags": dict.fromkeys("abcdefg", "")}, "7 of them; S3 takes 10"),
    ):
        with pytest.raises(ValidationError) as error:
            Publish.model_validate({"to": "s3://bkt/p", **values})
        assert says in str(error.value)
    tags = {"k" * 128: "v" * 256, **dict.fromkeys("abcde", "é _-+=.:/@")}
    most = Publish(to="s3://bkt", name="x" * 64, tags=tags)
    assert len(tags_of(most, "s", TIME)) == MOST_TAGS
