"""The data frames of Spark 4.0's stateful operator give the same results as the rows of later versions."""

import pickle

import pandas as pd
import pytest
from pyspark.sql import Row

from panestream.errors import EnvironmentNotReadyError
from panestream.spark import compat
from panestream.spark.operator import dataflow
from panestream.spark.operator.processor import DataFrameWindowProcessor, WindowProcessor
from panestream.spark.session import check_version
from tests.engine.exchange.test_exchange import plan

PARTS = [
    {"group": 3, "origin": 0, "sequence": 1, "parts_left": 0, "body": b"\x00a"},
    {"group": 3, "origin": 2, "sequence": 0, "parts_left": 1, "body": b""},
    {"group": 3, "origin": 2, "sequence": 1, "parts_left": 0, "body": b"\xff"},
]


def test_input_data_frames_give_the_same_parts_as_rows():
    frames = [pd.DataFrame(PARTS[:1]), pd.DataFrame(PARTS[1:]).astype({"origin": "int32", "sequence": "int32"})]
    found = DataFrameWindowProcessor(plan(groups=4)).parts_of(iter(frames))
    assert found == WindowProcessor(plan(groups=4)).parts_of(Row(**part) for part in PARTS)
    # Payloads are sealed with these numbers, and numpy integers would have other bytes.
    assert {type(value) for part in found for value in part} == {int, bytes}


def test_output_data_frames_have_the_same_values_as_rows():
    output = [("main", b"\x00"), ("late", b"")]
    frames = list(DataFrameWindowProcessor(plan(groups=4)).rows_of(iter(output)))
    assert [tuple(frame.iloc[0]) for frame in frames] == output
    assert [list(frame.columns) for frame in frames] == 2 * [["tag", "body"]]
    assert [tuple(row) for row in WindowProcessor(plan(groups=4)).rows_of(iter(output))] == output


def test_processor_of_either_kind_can_be_pickled():
    for kind in (WindowProcessor, DataFrameWindowProcessor):
        assert type(pickle.loads(pickle.dumps(kind(plan(groups=2))))) is kind


class Frame:
    """The parts of a DataFrame of Spark 4.0 that the code uses."""

    def __init__(self, grouped, version="4.0.1"):
        self.grouped, self.sparkSession = grouped, self
        self.version, self.conf = version, {}

    def range(self, rows):
        return self

    def groupBy(self, name):  # noqa: N802 - Spark's name
        assert name in ("group", "id")
        return self.grouped


class Grouped:
    def transformWithStateInPandas(self, **given):  # noqa: N802 - Spark's name
        return given


def test_spark_4_0_gets_the_processor_with_data_frames():
    given = dataflow.transform(Frame(Grouped()), plan(groups=2), data_frames=True)
    assert type(given["statefulProcessor"]) is DataFrameWindowProcessor
    assert (given["outputMode"], given["timeMode"]) == ("append", "None")


def test_stream_through_connect_of_spark_4_0_is_refused():
    with pytest.raises(EnvironmentNotReadyError, match=r"Spark Connect of Spark 4\.0 does not support stateful operators"):
        dataflow.transform(Frame(object()), plan(groups=2), data_frames=True)


def test_stream_on_spark_4_0_without_pandas_is_refused(monkeypatch):
    monkeypatch.setattr(compat, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentNotReadyError, match=r"streams on Spark 4\.0, and checkpoints .* need pandas"):
        dataflow.transform(Frame(Grouped()), plan(groups=2), data_frames=True)


def test_spark_3_is_refused():
    check_version(type("Session", (), {"version": "4.0.0"})())
    with pytest.raises(EnvironmentNotReadyError, match=r"needs Spark 4\.0 or later, this session runs 3\.5\.7"):
        check_version(type("Session", (), {"version": "3.5.7"})())


@pytest.mark.parametrize(
    ("version", "setting", "wanted"), [("4.0.4", {}, True), ("4.1.0", {}, False), ("4.3.0", {compat.DATA_FRAMES: "true"}, True)]
)
def test_data_frames_are_used_on_spark_4_0_and_by_setting(version, setting, wanted):
    frame = Frame(Grouped(), version)
    frame.conf = setting
    assert compat.wants_data_frames(frame) is wanted


def test_checkpoint_of_a_later_spark_is_refused_on_spark_4_0():
    compat.check_rows(Frame(Grouped(), "4.1.0"), "ckpt")
    with pytest.raises(
        EnvironmentNotReadyError, match=r"the checkpoint ckpt started with Spark 4\.1 or later, and Spark 4\.0\.1"
    ):
        compat.check_rows(Frame(Grouped()), "ckpt")
