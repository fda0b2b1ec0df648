"""``on_progress`` for a query on a server: each micro-batch once, in order, until the query ends. Without Spark."""

from __future__ import annotations

import threading

import pytest
from pyspark.errors import StreamingQueryException

from panestream.errors import CallbackError
from panestream.spark.progress.listening import ProgressWatcher
from tests.metrics.told import progress


class Query:
    """A query whose progress grows with every request. The arguments list the completed micro-batches at each request."""

    def __init__(self, *done, ends_with=None):
        self.done, self.ends_with, self.stopped, self.asked = list(done), ends_with, 0, 0

    def awaitTermination(self, seconds):  # noqa: N802 - Spark's name
        self.asked += 1
        if self.asked == len(self.done):
            if self.ends_with is not None:
                raise self.ends_with
            return True
        return False

    @property
    def recentProgress(self):  # noqa: N802 - Spark's name
        return [progress(number).progress for number in self.done[min(self.asked, len(self.done)) - 1]]

    def stop(self):
        self.stopped += 1


@pytest.mark.parametrize("ends_with", [None, StreamingQueryException("it failed")])
def test_watcher_reports_each_micro_batch_once_until_the_query_ends(ends_with):
    told = []
    query = Query([], [0], [0], [0, 1, 2], [2, 3], ends_with=ends_with)
    watcher = ProgressWatcher(query, lambda one: told.append((one.batch_id, threading.current_thread())), "panestream")
    watcher.finish()
    assert [number for number, _ in told] == [0, 1, 2, 3]
    (thread,) = {thread for _, thread in told}
    # The thread does not keep the process alive.
    assert (thread.daemon, thread.name, thread.is_alive(), query.stopped) == (True, "panestream on_progress", False, 0)


def test_watcher_ignores_counters_of_another_operator():
    told = []
    ProgressWatcher(Query([0]), told.append, "panestream_2").finish()
    assert told == []


def test_watcher_ends_if_the_server_does_not_answer():
    told = []
    query = Query([0], ends_with=ConnectionError())
    ProgressWatcher(query, told.append, "panestream").finish()
    assert (told, query.asked) == ([], 1)


def test_callback_that_raises_stops_the_query_and_is_not_called_again():
    told = []

    def failing(one):
        told.append(one.batch_id)
        raise ValueError("of mine")

    query = Query([0, 1], [0, 1, 2], [3])
    watcher = ProgressWatcher(query, failing, "panestream")
    for _ in range(2):
        with pytest.raises(CallbackError, match=r"on_progress failed .*micro-batch 0.*of mine"):
            watcher.finish()
    watcher.wait()
    assert (told, query.stopped, query.asked) == ([0], 1, 1)


def test_callback_may_wait_for_its_query():
    made, told = threading.Event(), []

    def waiting(one):
        made.wait(10)
        watchers[0].wait()
        told.append(one.batch_id)

    watchers = [ProgressWatcher(Query([0]), waiting, "panestream")]
    made.set()
    watchers[0].finish()
    assert told == [0]
