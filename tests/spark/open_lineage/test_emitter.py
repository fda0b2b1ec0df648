"""Events of a run, from recorded progress: kinds, totals, schemas, and receivers that fail. Without Spark."""

from __future__ import annotations

import json
import logging
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
from pyspark.errors import StreamingQueryException

from panestream.errors import InvalidPlanError
from panestream.spark.open_lineage import emitter
from panestream.spark.open_lineage.datasets import Dataset
from panestream.spark.open_lineage.emitter import LineageOutput, LineageWatcher, OpenLineage
from panestream.spark.open_lineage.events import LineageRun
from panestream.spark.sinks.base import Sink
from panestream.spark.sinks.files import ParquetSink
from panestream.spark.sinks.kafka import KafkaSink
from panestream.spark.sinks.tables import TableSink
from tests.metrics.told import ID, RUN, progress
from tests.spark.open_lineage.validation import faults

SOURCES = [
    {"description": "FileStreamSource[file:/data/clicks]", "endOffset": "{}", "numInputRows": 7},
    {"description": "KafkaV2[Subscribe[views]]", "endOffset": '{"views":{"0":3}}', "numInputRows": 3},
]
SERVERS = {"Subscribe[views]": "h1:9092"}
COLUMNS = [("user", "bigint"), ("clicks", "bigint")]


class Query:
    """A query whose progress grows with every request. The arguments list the known micro-batches at each request."""

    def __init__(self, *done, ends_with=None):
        self.done, self.ends_with, self.asked = list(done), ends_with, 0

    def awaitTermination(self, seconds):  # noqa: N802 - Spark's name
        self.asked += 1
        if self.asked < len(self.done):
            return False
        if self.ends_with is not None:
            raise self.ends_with
        return True

    @property
    def recentProgress(self):  # noqa: N802 - Spark's name
        numbers = self.done[min(self.asked, len(self.done)) - 1]
        return [{**progress(number, outputs={"main": 5, "late": 2}).progress, "sources": SOURCES} for number in numbers]

    @property
    def lastProgress(self):  # noqa: N802 - Spark's name
        return next(iter(self.recentProgress[-1:]), None)


class Unaddressed(Sink):
    """A sink of a user, whose text contains a password."""

    def write(self, df, batch_id):
        raise NotImplementedError

    def __repr__(self):
        return "Unaddressed(password='SECRET')"


def watched(query, receiver, *, ends=True, every=0, parent=None, spark=None, **sinks):
    run = LineageRun("shop", "clicks", RUN, ID, "tumbling(1 minute)", ends, every or receiver.every, "4.1.0", "0.1.0", parent)
    sinks = sinks or {"main": ParquetSink("/out/main"), "late": KafkaSink("h1:9092", "late")}
    outputs = [LineageOutput(tag, sink, None, COLUMNS, counted=True) for tag, sink in sinks.items()]
    return LineageWatcher(query, spark, receiver, run, SERVERS, outputs, "panestream")


def events_of(query, **how):
    events = []
    watched(query, OpenLineage(events.append), **how).wait()
    assert [fault for event in events for fault in faults(event)] == []
    return events


def test_events_have_totals_of_the_run_and_follow_the_published_schemas():
    start, complete = events_of(Query([], [0], [0, 1, 2]), parent=("airflow", "dag.task", RUN))
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert [event["run"]["runId"] for event in (start, complete)] == [RUN, RUN]
    assert (start["inputs"], start["run"]["facets"]["panestream_windows"]["rows"]) == ([], 0)
    windows = complete["run"]["facets"]["panestream_windows"]
    assert {
        name: windows[name] for name in ("microBatches", "missedMicroBatches", "batchId", "rows", "lateRows", "invalidRows")
    } == {
        "microBatches": 3,
        "missedMicroBatches": 0,
        "batchId": 2,
        "rows": 30,
        "lateRows": 6,
        "invalidRows": 3,
    }
    assert (windows["watermark"], windows["onTimeFirings"], windows["outputRows"]) == (
        "1970-01-01T01:00:00Z",
        12,
        {"main": 15, "late": 6},
    )
    inputs = {
        (each["namespace"], each["name"]): each["inputFacets"]["inputStatistics"]["rowCount"] for each in complete["inputs"]
    }
    assert inputs == {("file", "/data/clicks"): 21, ("kafka://h1:9092", "views"): 9}
    outputs = {
        each["outputFacets"]["panestream_output"]["output"]: (
            each["namespace"],
            each["name"],
            each["outputFacets"]["outputStatistics"]["rowCount"],
        )
        for each in complete["outputs"]
    }
    assert outputs == {"main": ("file", "/out/main", 15), "late": ("kafka://h1:9092", "late", 6)}
    assert complete["run"]["facets"]["parent"]["job"] == {"namespace": "airflow", "name": "dag.task"}


def test_schema_check_finds_planted_faults():
    (event, _) = events_of(Query([]))
    event["eventType"] = "GONE"
    event["run"]["facets"]["panestream_windows"]["rows"] = -1
    event["job"]["facets"]["jobType"].pop("integration")
    event["outputs"][0].pop("name")
    assert {fault.partition(":")[0] for fault in faults(event)} == {"event", "panestream_windows", "jobType"}


def test_running_events_come_at_most_once_per_interval_and_only_after_a_micro_batch(monkeypatch):
    now = iter([*range(0, 1000, 7)])
    monkeypatch.setattr(emitter, "time", SimpleNamespace(monotonic=lambda: next(now)))
    every = [[0], [0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
    events = events_of(Query(*every), every=10)
    assert [event["eventType"] for event in events][0::2][:1] == ["START"]
    assert [event["eventType"] for event in events] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert [event["run"]["facets"]["panestream_windows"]["microBatches"] for event in events] == [0, 2, 4, 5]


@pytest.mark.parametrize(("ends", "stopped", "kind"), [(True, False, "COMPLETE"), (True, True, "ABORT"), (False, False, "ABORT")])
def test_end_is_complete_only_if_the_query_ended_by_itself(ends, stopped, kind):
    events, go = [], threading.Event()
    query = Query([0])
    await_end = query.awaitTermination
    query.awaitTermination = lambda seconds: go.wait(10) and await_end(seconds)
    watcher = watched(query, OpenLineage(events.append), ends=ends)
    watcher.stopped = stopped
    go.set()
    watcher.wait()
    assert events[-1]["eventType"] == kind
    assert events[-1]["job"]["facets"]["jobType"]["processingType"] == ("BATCH" if ends else "STREAMING")


def test_failure_is_reported_with_its_first_line_and_without_secrets():
    error = StreamingQueryException("no route to jdbc:x://me:SECRET@db, password=SECRET\n  a row of the input")
    *_, fail = events_of(Query([0], ends_with=error))
    assert fail["eventType"] == "FAIL"
    assert fail["run"]["facets"]["errorMessage"]["message"].startswith("no route to jdbc:x://db, password=***")
    assert "SECRET" not in json.dumps(fail)
    assert "a row of the input" not in json.dumps(fail)


def test_no_end_is_reported_if_spark_is_gone():
    assert [event["eventType"] for event in events_of(Query([0], ends_with=ConnectionError()))] == ["START"]


def test_forgotten_micro_batches_are_counted_as_missed():
    *_, end = events_of(Query([0], [5, 6]))
    windows = end["run"]["facets"]["panestream_windows"]
    assert (windows["microBatches"], windows["missedMicroBatches"], windows["rows"]) == (3, 4, 30)


def test_sink_without_address_is_named_after_job_and_output():
    *_, end = events_of(Query([0]), main=Unaddressed())
    assert [(each["namespace"], each["name"]) for each in end["outputs"]] == [("shop", "clicks.main")]
    assert "SECRET" not in json.dumps(end)


def catalog(location):
    """Return a session whose table has a location from the second request on."""
    asked = []

    def sql(text, **_):
        asked.append(text)
        if len(asked) == 1:
            raise ValueError("no such table")
        return SimpleNamespace(collect=lambda: [("user", "bigint"), *([("Location", location)] if location else [])])

    names = SimpleNamespace(currentDatabase=lambda: "default", currentCatalog=lambda: "spark_catalog")
    return SimpleNamespace(sql=sql, catalog=names)


@pytest.mark.parametrize(
    ("location", "dataset"), [("file:/warehouse/t", ("file", "/warehouse/t")), (None, ("shop", "spark_catalog.default.t"))]
)
def test_table_is_named_by_its_location_once_it_exists(location, dataset):
    start, end = events_of(Query([0]), spark=catalog(location), main=TableSink("t"))
    assert start["outputs"] == []
    assert [(each["namespace"], each["name"]) for each in end["outputs"]] == [dataset]


def test_failing_receiver_is_logged_once_and_counted(caplog):
    def refuse(event):
        raise ValueError("token=SECRET is refused")

    receiver = OpenLineage(refuse)
    with caplog.at_level(logging.WARNING, "panestream.spark.open_lineage"):
        watched(Query([0], [0, 1]), receiver).wait()
    assert receiver.errors == 2
    (record,) = caplog.records
    assert "event of the job clicks was lost (ValueError: token=*** is refused)" in record.getMessage()


def test_file_gets_a_line_per_event(tmp_path):
    receiver = OpenLineage(tmp_path / "new" / "events.jsonl")
    watched(Query([0]), receiver).wait()
    lines = [json.loads(line) for line in (tmp_path / "new" / "events.jsonl").read_text("utf-8").splitlines()]
    assert [event["eventType"] for event in lines] == ["START", "COMPLETE"]


@contextmanager
def server(status, location=None):
    """A receiver that answers every request with a status, and its requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append((self.path, dict(self.headers), body))
            self.send_response(status)
            if location is not None:
                self.send_header("Location", location)
            self.end_headers()

        do_GET = do_POST  # noqa: N815 - Python's name

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=lambda: found.serve_forever(0.01))
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.server_port}", requests
        finally:
            found.shutdown()
            thread.join()


def test_events_are_posted_with_headers_to_the_path_of_marquez(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with server(201) as (url, requests):
        receiver = OpenLineage(url, headers={"Authorization": "Bearer SECRET"})
        watched(Query([0]), receiver).wait()
    assert [(path, json.loads(body)["eventType"]) for path, _, body in requests] == [
        ("/api/v1/lineage", "START"),
        ("/api/v1/lineage", "COMPLETE"),
    ]
    assert {headers["Authorization"] for _, headers, _ in requests} == {"Bearer SECRET"}
    assert receiver.errors == 0
    assert "SECRET" not in repr(receiver)


@pytest.mark.parametrize("status", [302, 404, 500])
def test_answer_other_than_success_is_an_error_and_no_redirect_is_followed(monkeypatch, status):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with server(201) as (other, redirected), server(status, other) as (url, requests):
        receiver = OpenLineage(url, headers={"Authorization": "Bearer SECRET"})
        watched(Query([0]), receiver).wait()
    assert (receiver.errors, len(requests), redirected) == (2, 2, [])


def test_receiver_that_does_not_answer_delays_only_the_end(monkeypatch):
    monkeypatch.setattr(emitter, "_WAIT", 0.05)
    hung = threading.Event()
    query = Query([0])
    watched(query, OpenLineage(lambda event: hung.wait(10))).wait()
    assert query.asked == 0
    hung.set()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"to": "http://me:SECRET@host"}, "the address contains a login"),
        ({"to": "s3://me:SECRET@bucket/events"}, "http, https, a local file or a function, got 's3://bucket/events'"),
        ({"to": 7}, "to must be an address, a file or a function, got 7"),
        ({"to": print, "namespace": ""}, "namespace must be a text"),
        ({"to": print, "job": 3}, "job must be a text, got 3"),
        ({"to": print, "every": "10 milliseconds"}, "every must be at least a second"),
        ({"to": print, "parent": ("airflow", "task", "no-uuid")}, "with a UUID as the run id"),
    ],
)
def test_wrong_argument_is_refused_without_showing_a_password(arguments, message):
    with pytest.raises(InvalidPlanError, match=message) as error:
        OpenLineage(**arguments)
    assert "SECRET" not in str(error.value)


def test_lineage_needs_a_job_and_known_outputs():
    with pytest.raises(InvalidPlanError, match="needs a name for the job"):
        OpenLineage(print).prepared(None, None, ["main"])
    with pytest.raises(InvalidPlanError, match="datasets names the output 'lat', but the outputs are main, late"):
        OpenLineage(print, job="j", datasets={"lat": ("a", "b")}).prepared(None, None, ["main", "late"])


def test_name_of_the_query_is_the_default_job_and_given_datasets_lose_their_login():
    lineage = OpenLineage(print, datasets={"main": ("postgres://me:SECRET@db:5432", "shop.public.a")}).prepared(
        None, "q", ["main"]
    )
    assert lineage.job == "q"
    assert lineage._named("main") == Dataset("postgres://db:5432", "shop.public.a")
