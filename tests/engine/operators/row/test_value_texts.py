"""Values as texts: all values that can be stored in columns are read back exactly."""

import json
import math

import pytest

from panestream.engine.operators.row.codec import Codec
from panestream.engine.operators.row.tables import ValueTexts
from panestream.errors import InvalidPlanError, StateFormatError
from tests.engine.operators.row.test_codec import PLAIN, Fixed, Row, exact_text


def texts(*, pickled=False):
    return ValueTexts(Codec(Row, pickled), Row)


@pytest.mark.parametrize("case", PLAIN)
def test_every_value_is_read_back_exactly(case):
    texts_written = texts().write(PLAIN[case], "contents")
    assert list(map(exact_text, texts().read(texts_written))) == list(map(exact_text, PLAIN[case]))


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
def test_values_that_json_supports_are_plain_json(value, text):
    assert texts().write([value], "contents") == [text]


@pytest.mark.parametrize("value", [{"$tuple": 1}, {"$x": {"$y": 2}}, {"": 1}, "$tuple", [{"$columns": ""}]])
def test_value_that_looks_like_a_tag_is_read_back(value):
    (text,) = texts().write([value], "contents")
    assert texts().read([text]) == [value]


def test_values_that_json_lacks_are_written_as_valid_json():
    for value in (math.nan, -math.inf, "\ud800", 10**5000, b"\xff"):
        (text,) = texts().write([value], "contents")
        json.loads(text, parse_constant=pytest.fail)
        assert exact_text(texts().read([text])[0]) == exact_text(value) if value != 10**5000 else texts().read([text]) == [value]


def test_texts_of_pickled_values_need_the_permission_to_pickle():
    with pytest.raises(InvalidPlanError, match="allow_pickled_state"):
        texts().write([Fixed(1)], "contents")
    texts_written = texts(pickled=True).write([Fixed(1), [Fixed(2)]], "contents")
    assert texts(pickled=True).read(texts_written) == [Fixed(1), [Fixed(2)]]
    with pytest.raises(InvalidPlanError, match="allow_pickled_state"):
        texts().read(texts_written)


def test_error_names_an_unknown_tag():
    with pytest.raises(StateFormatError, match=r"'\$new'"):
        texts().read(['{"$new": 1}'])
