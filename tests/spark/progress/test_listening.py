"""A progress listener gets start, micro-batches and end of each run, from events in Spark's form. Without Spark."""

import logging
from types import SimpleNamespace

from pyspark.sql import Row

from panestream.spark.progress.listening import ProgressListener, QueryRun
from panestream.spark.progress.micro_batch import BatchProgress
from tests.metrics.told import ID, RUN, counters, progress, started, terminated

CLICKS = QueryRun(ID, RUN, "clicks")


class RecordingListener(ProgressListener):
    """Record calls in order."""

    def __init__(self):
        super().__init__()
        self.all = []

    def started(self, run):
        self.all.append(("started", run))

    def batch(self, run, progress, spark):
        self.all.append(("batch", run, progress, spark))

    def ended(self, run, error):
        self.all.append(("ended", run, error))


def test_listener_gets_the_same_run_at_start_progress_and_end():
    told = RecordingListener()
    event = progress(4)
    told.onQueryStarted(started())
    told.onQueryProgress(event)
    told.onQueryIdle(SimpleNamespace())
    told.onQueryTerminated(terminated("java.lang.Error: no"))
    batch = BatchProgress.of_spark(event.progress)
    assert told.all == [
        ("started", CLICKS),
        ("batch", CLICKS, batch, event.progress),
        ("ended", CLICKS, "java.lang.Error: no"),
    ]
    assert (batch.batch_id, batch.rows, CLICKS.label, told.errors) == (4, 10, "clicks", 0)


def test_listener_has_the_name_of_a_run_without_micro_batches():
    told = RecordingListener()
    told.onQueryStarted(started())
    told.onQueryTerminated(terminated())
    assert told.all == [("started", CLICKS), ("ended", CLICKS, None)]


def test_listener_has_the_name_of_a_run_that_started_before_it():
    told = RecordingListener()
    told.onQueryProgress(progress())
    told.onQueryProgress(progress(name="others", run="another"))
    told.onQueryTerminated(terminated())
    # Ended runs are forgotten, and the end event of an unseen run has no name.
    told.onQueryTerminated(terminated())
    told.onQueryTerminated(terminated(run="another"))
    assert told.all[2:] == [
        ("ended", CLICKS, None),
        ("ended", QueryRun(ID, RUN, None), None),
        ("ended", QueryRun(ID, "another", "others"), None),
    ]
    assert QueryRun(ID, RUN, None).label == ID


def test_listener_gets_each_operator_in_order_and_one_end():
    event = progress()
    observed = event.progress["observedMetrics"]
    observed |= {"panestream_2": Row(**counters(input_rows=4)), "panestream_of_mine": Row(rows=7), "panestream_": Row(rows=8)}
    told = RecordingListener()
    told.onQueryProgress(event)
    told.onQueryTerminated(terminated())
    assert [(what, run.operator, run.label, each[0].rows) for what, run, *each in told.all[:-1]] == [
        ("batch", "", "clicks", 10),
        ("batch", "_2", "clicks_2", 4),
    ]
    assert told.all[-1] == ("ended", CLICKS, None)


def test_operator_without_counters_does_not_hide_another():
    event = progress()
    observed = event.progress["observedMetrics"]
    observed["panestream_2"] = observed.pop("panestream")
    observed["panestream"] = None
    told = RecordingListener()
    assert BatchProgress.of_spark(event.progress, "panestream") is None
    told.onQueryProgress(event)
    assert [run.label for _, run, *_ in told.all] == ["clicks_2"]


def test_error_of_a_listener_is_logged_and_the_next_event_is_handled(caplog):
    class Broken(RecordingListener):
        def batch(self, run, progress, spark):
            super().batch(run, progress, spark)
            raise ValueError("of mine")

    told = Broken()
    with caplog.at_level(logging.ERROR, "panestream.metrics"):
        told.onQueryProgress(progress())
        told.onQueryProgress(progress(1))
    assert told.errors == len(told.all) == 2
    assert caplog.messages == ["Broken could not take in an event of Spark's; the query goes on"] * 2
    told.onQueryTerminated(terminated())
    assert told.all[-1] == ("ended", CLICKS, None)
