"""The partition on which Spark places each integer. The expected hashes come from ``SELECT hash(...)``."""

from __future__ import annotations

import pytest

from panestream.spark.compat import group_values, spark_hash_of_int


@pytest.mark.parametrize(
    ("value", "hashed"),
    [(0, 933211791), (1, -559580957), (2, 1765031574), (-1, -1604776387), (42, 29417773), (2**31 - 1, 133916647)],
)
def test_an_integer_is_hashed_as_spark_hashes_it(value, hashed):
    assert spark_hash_of_int(value) == hashed


@pytest.mark.parametrize("groups", [1, 2, 7, 32])
def test_each_key_group_has_the_smallest_integer_that_spark_places_there(groups):
    values = group_values(groups)
    assert [spark_hash_of_int(value) % groups for value in values] == list(range(groups))
    assert all(spark_hash_of_int(less) % groups != group for group, value in enumerate(values) for less in range(value))
