"""Classes of hosts as a profile writes them."""

import pytest

from storewise.errors import ConfigError
from storewise.study.host_classes import NodeClass, class_named, parse_classes, text_of

TEXT = "data=data/i4i.2xlarge, large=data-large/i4i.8xlarge,work = work/c7i.4xlarge/spot, old=batch"


def test_each_class_has_a_partition_and_may_have_an_instance_and_a_market():
    assert parse_classes(TEXT) == {
        "data": NodeClass("data", "i4i.2xlarge", "on_demand"),
        "large": NodeClass("data-large", "i4i.8xlarge", "on_demand"),
        "work": NodeClass("work", "c7i.4xlarge", "spot"),
        "old": NodeClass("batch"),
    }
    assert parse_classes("  ") == {}
    # A queue may be one of another server.
    for queue in ("work@server", "@server.site:15001", "_work"):
        assert parse_classes(f"data={queue}/i4i.large")["data"].partition == queue
    # As Snakemake hands a text over.
    assert [text_of(text) for text in ("'data=a, large=b'", "data=a")] == [
        "data=a, large=b",
        "data=a",
    ]
    assert parse_classes(text_of("''")) == {}
    assert list(parse_classes(TEXT)) == ["data", "large", "work", "old"]


def test_a_bad_text_is_one_error_that_names_its_part():
    for text, *words in (
        ("data", "'data'", "cannot be read", "CLASS=PARTITION"),
        ("a=b, data=data/i4i.large/spot/x", "'data=data/i4i.large/spot/x'", "cannot be read"),
        ("data=", "'data='", "a name is missing"),
        ("=data", "a name is missing"),
        ("data=data//spot", "a name is missing"),
        ("data=da ta", "'da ta' is no name"),
        ("data=a/b, data=c/d", "'data=c/d'", "given twice"),
        ("data=a/b/ondemand", "'ondemand'", "did you mean 'on_demand'"),
    ):
        with pytest.raises(ConfigError) as error:
            parse_classes(text)
        for word in ["node_classes", *words]:
            assert word in str(error.value)


def test_an_unknown_class_names_the_nearest_known_one():
    classes = parse_classes(TEXT)
    assert class_named("large", classes).partition == "data-large"
    with pytest.raises(ConfigError, match=r"'larg' is not .*did you mean 'large'.* data, large"):
        class_named("larg", classes)
    with pytest.raises(ConfigError, match=r"'data' is not .* known in .* none"):
        class_named("data", {})
