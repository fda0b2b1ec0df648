"""Values as texts: whatever rests in columns comes back from a text, too, exactly as it was."""

import json
import math

import pytest

from panestream.engine.operators.row.codec import Codec
from panestream.engine.operators.row.tables import ValueTexts
from panestream.errors import InvalidPlanError, StateFormatError
from tests.engine.operators.row.test_codec import PLAIN, Fixed, Row, exact


def texts(*, pickled=False):
    return ValueTexts(Codec(Row, pickled), Row)


@pytest.mark.parametrize("case", PLAIN)
def test_every_value_comes_back_as_it_was(case):
    written = texts().write(PLAIN[case], "contents")
    assert list(map(exact, texts().read(written))) == list(map(exact, PLAIN[case]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, [2.5, None]), '{"$tuple": [1, [2.5, null]]}'),
        ({"n": 3, "ä": "ü"}, '{"n": 3, "ä": "ü"}'),
        ({1: {"b", "a"}}, '{"$map": [[1, {"$set": ["a", "b"]}]]}'),
        (Row("x", 1.5), '{"$row": ["x", 1.5]}'),
        (2**70, "1180591620717411303424"),
    ],
)
def test_what_json_has_can_be_read(value, text):
    assert texts().write([value], "contents") == [text]


@pytest.mark.parametrize("value", [{"$tuple": 1}, {"$x": {"$y": 2}}, {"": 1}, "$tuple", [{"$columns": ""}]])
def test_what_looks_like_a_tag_is_no_tag(value):
    (text,) = texts().write([value], "contents")
    assert texts().read([text]) == [value]


def test_what_json_lacks_is_valid_json_all_the_same():
    for value in (math.nan, -math.inf, "\ud800", 10**5000, b"\xff"):
        (text,) = texts().write([value], "contents")
        json.loads(text, parse_constant=pytest.fail)
        assert exact(texts().read([text])[0]) == exact(value) if value != 10**5000 else texts().read([text]) == [value]


def test_pickles_need_the_same_permission():
    with pytest.raises(InvalidPlanError, match="allow_pickled_state"):
        texts().write([Fixed(1)], "contents")
    written = texts(pickled=True).write([Fixed(1), [Fixed(2)]], "contents")
    assert texts(pickled=True).read(written) == [Fixed(1), [Fixed(2)]]
    with pytest.raises(InvalidPlanError, match="allow_pickled_state"):
        texts().read(written)


def test_an_unknown_tag_is_named():
    with pytest.raises(StateFormatError, match=r"'\$new'"):
        texts().read(['{"$new": 1}'])
