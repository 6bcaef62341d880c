"""Prices and the corpus in a study and in config/prices.yaml: defaults and refusals."""

import pytest
from support.paths import ROOT

from storewise.errors import ConfigError
from storewise.study.load import load_study
from storewise.study.prices import PRICES, Prices

STUDY = "inputs: {paths: data}\nengines: [null]\nphases: [write]\n"
WHOLE = "node_hour: 0.5\nclient_hour: 0.25\ngb_month: 0.1\n"


def load(root, study=STUDY, prices=None):
    path = root / "s.yaml"
    path.write_text(study)
    if prices is not None:
        (root / PRICES).parent.mkdir(exist_ok=True)
        (root / PRICES).write_text(prices)
    return load_study(path, root=root)


def test_prices_of_a_study_replace_those_of_its_price_file(tmp_path):
    assert load(tmp_path).prices is None and load(tmp_path).corpus is None
    own = load(tmp_path, STUDY + "prices: {node_hour: 2, currency: EUR}\n", WHOLE).prices
    whole = {"node_hour": 0.5, "client_hour": 0.25, "gb_month": 0.1}
    assert own == Prices(**whole | {"node_hour": 2}, currency="EUR", by_study=True)
    assert load(tmp_path, STUDY + "prices: {}\n", WHOLE).prices == Prices(**whole)


def test_what_neither_knows_is_named(tmp_path):
    part = "node_hour: 1\nclient_hour: 1\n"
    result = load(tmp_path, STUDY + "prices: {gb_month: 0.3}\n", part).prices
    assert result == Prices(node_hour=1, client_hour=1, gb_month=0.3, by_study=True)
    with pytest.raises(ConfigError, match=r"prices.yaml: gb_month: missing; give all of node_hour"):
        load(tmp_path, STUDY, part)


def test_amounts_of_two_currencies_are_never_mixed(tmp_path):
    file = WHOLE + "currency: USD\nnote: theirs\ndate: 2026-01-01\ninstances: {a.b: {spot: 1}}\n"
    whole = "{currency: EUR, node_hour: 1, client_hour: 2, gb_month: 3}"
    result = load(tmp_path, f"{STUDY}prices: {whole}\n", file).prices
    assert result == Prices(currency="EUR", node_hour=1, client_hour=2, gb_month=3, by_study=True)
    with pytest.raises(ConfigError, match=r"s.yaml, line 4: prices.client_hour: is missing"):
        load(tmp_path, STUDY + "prices: {currency: EUR, node_hour: 1, gb_month: 0}\n", file)
    result = load(tmp_path, STUDY + "prices: {currency: USD, node_hour: 1}\n", file).prices
    assert (result.node_hour, result.note, list(result.instances)) == (1, "theirs", ["a.b"])


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("currency: EUR\nnode_hours: 1\n", 2, ["node_hours", "did you mean 'node_hour'"]),
        (WHOLE.replace("0.1", "-0.1"), 3, ["gb_month", "greater than or equal to 0", "-0.1"]),
        (WHOLE.replace("0.25", "cheap"), 2, ["client_hour", "valid number", "'cheap'"]),
        (WHOLE.replace("0.5", ".nan"), 1, ["node_hour", "nan"]),
        (WHOLE + "currency: ''\n", 4, ["currency", "at least 1 character"]),
        (WHOLE + "node_hour: 3\n", 4, ["node_hour", "given twice"]),
        ("- node_hour\n", 1, ["list of prices", "mapping"]),
        ("# nothing yet\n", None, ["the list of prices is empty"]),
        (WHOLE + "date: 2026-02-30\n", 4, ["date", "a day, such as 2026-03-31", "'2026-02-30'"]),
        (WHOLE + "instances: {a.b: {spott: 1}}\n", 4, ["instances.a.b", "did you mean 'spot'"]),
        (WHOLE + "instances: {a.b: {}}\n", 4, ["instances.a.b", "give on_demand, spot or both"]),
        (WHOLE + "instances:\n  a.b: {spot: -1}\n", 5, ["instances.a.b.spot", "-1"]),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, text, line, words):
    for own in ("", "prices: {node_hour: 1, client_hour: 1, gb_month: 1}\n"):
        with pytest.raises(ConfigError) as error:
            load(tmp_path, STUDY + own, text)
        message = str(error.value)
        place = f"{tmp_path / PRICES}, line {line}: " if line else f"{tmp_path / PRICES}: "
        assert message.startswith(place), message
        assert all(word in message for word in words), message


def test_prices_measure_nothing_again(tmp_path):
    before = load(tmp_path, STUDY, WHOLE).trials()
    dear = WHOLE.replace("0.5", "9")
    after = load(tmp_path, STUDY + "corpus: {files: 5, bytes: 9}\n", dear).trials()
    assert [one.id for one in before] == [one.id for one in after]


INSTANCES = """
date: 2026-03-31
instances:
  i4i.large: {on_demand: 0.172, spot: 0.07}
  c7i.large: {on_demand: 0.09}
"""


def test_instances_have_prices_of_their_own(tmp_path):
    study = STUDY + "prices: {instances: {c7i.large: {on_demand: 0.1}, m.x: {spot: 2}}}\n"
    result = load(tmp_path, study, WHOLE + INSTANCES).prices
    assert result.source == "prices of 2026-03-31"
    assert list(result.instances) == ["i4i.large", "c7i.large", "m.x"]
    assert result.host("node", "i4i.large", "on_demand") == (0.172, "i4i.large on demand")
    assert result.host("client", "i4i.large", "spot") == (0.07, "i4i.large spot")
    spot = "c7i.large on demand, for want of a spot price"
    assert result.host("client", "c7i.large", "spot") == (0.1, spot)
    other = "node_hour, for want of a price of m.x on demand"
    assert result.host("node", "m.x", "on_demand") == (0.5, other)
    assert result.host("client", "", "spot") == (0.25, "client_hour")
    # A spot instance costs at most what one on demand does, and not the other way round.
    known = [("c7i.large", "spot"), ("m.x", "spot"), ("i4i.large", "on_demand")]
    assert all(result.knows(name, market) for name, market in known)
    assert not result.knows("m.x", "on_demand") and not result.knows("m.y", "spot")
    assert Prices.model_validate(result.model_dump(mode="json")) == result


def test_the_prices_of_this_checkout_are_dated_examples():
    result = load_study("demo", root=ROOT).prices
    assert result.date
    assert "examples" in result.note and "config/prices.yaml" in result.note
    assert result.instances
    assert all(price.spot < price.on_demand for price in result.instances.values())
