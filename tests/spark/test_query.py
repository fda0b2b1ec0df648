"""The order of calls from the operator to the sinks in a micro-batch, and waiting for a query. Without Spark."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import pytest
from pyspark.errors import StreamingQueryException

from panestream.errors import CallbackError, FencedError, InvalidPlanError, OperatorError, SinkError, StateDamagedError
from panestream.spark import query as query_
from panestream.spark.progress.micro_batch import BatchProgress
from panestream.spark.query import RunningQuery, SinkWriter

SESSION = "the session"


class Steps:
    """Record calls in order. A chosen step raises."""

    def __init__(self, failing=None, error=None):
        self.done, self.failing, self.error = [], failing, error

    def __call__(self, name, *told):
        self.done.append((name, *told) if told else name)
        if name == self.failing and self.error is not None:
            error, self.error = self.error, None
            raise error


class Outputs:
    """Sinks that accept everything."""

    def __init__(self, steps):
        self.steps = steps
        self.ends = []
        self.note_end = self.ends.append
        self.epoch = SimpleNamespace(checkpoint="cp", write_first=lambda spark, batch_id: steps(f"first {batch_id}", spark))
        self.checked = 0

    def check(self, spark):
        self.checked += 1
        self.steps(f"check {self.checked}", spark)

    def deliver(self, rows, present, batch_id):
        self.steps("deliver", rows, present, batch_id)

    def check_after(self, spark, error):
        self.steps("check after", type(error).__name__)

    def fenced(self, spark):
        self.steps("fenced?", spark)


def writer_of(monkeypatch, steps, *, wakes_up=False, **more):
    computed = SimpleNamespace(rows="rows", present={"main"}, metrics=["counted"])
    monkeypatch.setattr(query_.BatchOutput, "of", lambda operated, plan: steps("compute") or computed)
    monkeypatch.setattr(query_.StateAge, "check", lambda self, metrics, batch_id: steps("groups agree", *metrics))
    monkeypatch.setattr(query_.StateAge, "advance", lambda self, metrics, batch_id: True)
    told = lambda batch_id, seconds, metrics, tags, groups, late_kept: (batch_id, metrics, late_kept)  # noqa: E731
    monkeypatch.setattr(query_.BatchProgress, "of", told)
    plan = SimpleNamespace(wakes_up=wakes_up, tags=("main",), groups=2)
    operated = SimpleNamespace(sparkSession=SESSION, persist=lambda: steps("persist"), unpersist=lambda: steps("unpersist"))
    return SinkWriter(plan, Outputs(steps), late_kept=True, **more), operated


WHOLE = [
    ("check 1", SESSION),
    "persist",
    "compute",
    ("groups agree", "counted"),
    ("deliver", "rows", {"main"}, 3),
    ("first 3", SESSION),
    ("check 2", SESSION),
    "unpersist",
]


def test_micro_batch_is_computed_once_and_delivered_between_two_fencing_checks(monkeypatch):
    steps = Steps()
    writer, operated = writer_of(monkeypatch, steps)
    assert writer(operated, 3) is None
    assert steps.done == WHOLE
    assert writer.failure == []


def test_first_micro_batch_without_rows_is_recorded_once_per_run(monkeypatch):
    steps, gaps = Steps(), []
    writer, operated = writer_of(monkeypatch, steps)
    monkeypatch.setattr(query_.StateAge, "advance", lambda self, metrics, batch_id: batch_id not in (3, 5))
    writer.outputs.epoch.write_gap = lambda *told: gaps.append(told)
    writer.age.after, writer.age.state_of = 2, 1
    for batch_id in (3, 4, 5):
        writer(operated, batch_id)
    assert gaps == [(SESSION, 1)]
    assert [step for step in steps.done if "first" in step[0]] == [("first 3", SESSION)]


@pytest.mark.parametrize(("batch_id", "asked"), [(0, True), (1, False)])
def test_start_positions_of_sources_are_checked_in_the_first_micro_batch(monkeypatch, batch_id, asked):
    steps = Steps()
    sources = SimpleNamespace(check_begun=lambda spark: steps("sources", spark))
    writer, operated = writer_of(monkeypatch, steps)
    writer.sources = sources
    writer(operated, batch_id)
    assert (("sources", SESSION) in steps.done) is asked
    assert not asked or steps.done[1] == ("sources", SESSION)


@pytest.mark.parametrize("failing", ["deliver", "check 2"])
def test_failed_step_is_stored_and_raised_and_the_cache_released(monkeypatch, failing):
    error = SinkError("no")
    steps = Steps(failing, error)
    writer, operated = writer_of(monkeypatch, steps)
    with pytest.raises(SinkError) as raised:
        writer(operated, 3)
    assert raised.value is error
    assert writer.failure == [error]
    assert steps.done[-2:] == [("check after", "SinkError"), "unpersist"]


def test_fenced_run_raises_the_fencing_error_instead_of_the_failure(monkeypatch):
    steps = Steps("deliver", SinkError("no"))
    writer, operated = writer_of(monkeypatch, steps)

    def refuse(spark, error):
        raise FencedError("another copy")

    monkeypatch.setattr(writer.outputs, "check_after", refuse, raising=False)
    with pytest.raises(FencedError):
        writer(operated, 3)
    assert [type(error) for error in writer.failure] == [FencedError]


def test_error_of_the_operator_names_the_micro_batch(monkeypatch):
    steps = Steps("compute", ValueError("odd"))
    writer, operated = writer_of(monkeypatch, steps)
    with pytest.raises(OperatorError) as raised:
        writer(operated, 3)
    assert "the windows could not be computed in micro-batch 3: " in str(raised.value)
    assert "ValueError: odd" in str(raised.value)
    assert writer.failure == [raised.value]
    assert steps.done[-2:] == [("check after", "OperatorError"), "unpersist"]


def test_keyboard_interrupt_becomes_an_ordinary_error_for_java(monkeypatch):
    steps = Steps("deliver", KeyboardInterrupt("now"))
    writer, operated = writer_of(monkeypatch, steps)
    with pytest.raises(OperatorError) as raised:
        writer(operated, 3)
    assert str(raised.value) == "micro-batch 3 failed: KeyboardInterrupt: now"
    assert raised.value.__suppress_context__
    assert writer.failure == [raised.value]
    assert steps.done[-1] == "unpersist"


def test_progress_is_reported_after_the_write_and_checked_for_notices(monkeypatch):
    steps = Steps()
    notices = SimpleNamespace(look=lambda progress: steps("notice", progress))
    writer, operated = writer_of(monkeypatch, steps, on_progress=lambda progress: steps("told", progress), notices=notices)
    writer(operated, 3)
    assert steps.done == [*WHOLE, ("told", (3, ["counted"], True)), ("notice", (3, ["counted"], True))]


@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit(2)])
def test_error_of_on_progress_names_the_callback(monkeypatch, error):
    def told(progress):
        raise error

    writer, operated = writer_of(monkeypatch, Steps(), on_progress=told)
    with pytest.raises(CallbackError, match=r"^on_progress failed in micro-batch 3, whose rows are written: "):
        writer(operated, 3)
    assert [type(one) for one in writer.failure] == [CallbackError]


# -- waiting for a query -----------------------------------------------------------------------------------------------


class Query:
    """Spark's handle. It ends after a number of waits."""

    isActive = True  # noqa: N815 (Spark's name)

    def __init__(self, ends_after=0, error=None, entries=()):
        self.waited, self.ends_after, self.error, self.recentProgress = [], ends_after, error, list(entries)

    def awaitTermination(self, timeout=None):  # noqa: N802 (Spark's name)
        self.waited.append(timeout)
        if self.error is not None:
            raise self.error
        return len(self.waited) > self.ends_after

    def stop(self):
        self.waited.append("stop")


def running(query, steps=None, **more):
    return RunningQuery(query, None, SESSION, Outputs(steps or Steps()), **more)


def test_wait_without_a_limit_is_left_to_spark():
    query = Query()
    assert running(query).await_termination() is True
    assert query.waited == [None]


def test_end_of_a_run_is_recorded_after_success_failure_and_stop():
    for query, wait in (
        (Query(), RunningQuery.await_termination),
        (Query(error=failed()), RunningQuery.await_termination),
        (Query(), RunningQuery.stop),
    ):
        one = running(query, failure=[SinkError("no")])
        with suppress(SinkError):
            wait(one)
        assert one.outputs.ends == [SESSION]
    one = running(Query(99))
    assert not one.await_termination(0)
    assert one.outputs.ends == []


@pytest.mark.parametrize(("ends_after", "ended", "waited"), [(0, True, [10]), (1, True, [10, 6]), (99, False, [10, 6, 2])])
def test_wait_with_a_limit_ends_in_time(monkeypatch, ends_after, ended, waited):
    now = [100.0]
    monkeypatch.setattr(query_.time, "monotonic", lambda: now[0])

    class Slow(Query):
        def awaitTermination(self, timeout=None):  # noqa: N802 (Spark's name)
            now[0] += 4
            return super().awaitTermination(timeout)

    query = Slow(ends_after)
    assert running(query).await_termination(10) is ended
    assert query.waited == waited


def test_wait_of_zero_asks_spark_for_one_second(monkeypatch):
    monkeypatch.setattr(query_.time, "monotonic", lambda: 100.0)
    query = Query()
    assert running(query).await_termination(0) is True
    assert running(Query(99)).await_termination(0) is False
    assert query.waited == [1]


def test_wait_on_a_server_checks_progress_every_few_seconds(monkeypatch):
    monkeypatch.setattr(BatchProgress, "of_spark", lambda entry, name: (entry, name) if entry else None)
    looked = []
    query = Query(2, entries=["a", None, "b"])
    one = running(
        query, notices=SimpleNamespace(look=looked.append), observed_as="ours", dropped=SimpleNamespace(look=lambda p: None)
    )
    assert one.await_termination() is True
    assert query.waited == [5, 5, 5]
    assert looked == [("a", "ours"), ("b", "ours")] * 3


def test_end_of_a_query_checks_rows_that_spark_dropped_and_finishes_the_watcher(monkeypatch):
    monkeypatch.setattr(BatchProgress, "of_spark", lambda entry, name: entry)
    steps = Steps()
    watcher = SimpleNamespace(finish=lambda: steps("finish"), wait=lambda: steps("wait"))
    dropped = SimpleNamespace(look=lambda progress: steps("dropped", progress))
    running(Query(entries=["a", "b"]), watcher=watcher, dropped=dropped).await_termination()
    assert steps.done == [("dropped", "a"), ("dropped", "b"), "finish"]


def test_closing_runs_replace_the_query_one_after_the_other(monkeypatch):
    monkeypatch.setattr(BatchProgress, "of_spark", lambda entry, name: entry)
    steps = Steps()
    queries = [Query(entries=[name]) for name in "abc"]
    watchers = [SimpleNamespace(finish=lambda name=name: steps("finish", name)) for name in "abc"]
    before, begun = [], iter(zip(queries[1:], watchers[1:], strict=True))

    def after(progress):
        steps("after", *progress)
        if progress == ["c"]:
            return None
        before.extend(progress)
        return lambda: next(begun)

    closing = SimpleNamespace(after=after, before=before, over=False)
    one = running(queries[0], watcher=watchers[0], closing=closing, dropped=SimpleNamespace(look=lambda p: steps("dropped", p)))
    assert one.await_termination() is True
    assert one.query is queries[2]
    assert one.watcher is watchers[2]
    assert [query.waited for query in queries] == [[None]] * 3
    assert one.recent_progress == ["a", "b", "c"]
    assert steps.done == [
        ("after", "a"), ("finish", "a"), ("after", "b"), ("finish", "b"), ("after", "c"),
        ("dropped", "a"), ("dropped", "b"), ("dropped", "c"), ("finish", "c"),
    ]  # fmt: skip


def test_stopped_query_starts_no_closing_run_and_checks_progress_again(monkeypatch):
    monkeypatch.setattr(BatchProgress, "of_spark", lambda entry, name: entry)
    looked = []
    closing = SimpleNamespace(before=["x"], over=False)
    query = Query(entries=["a"])
    running(query, closing=closing, notices=SimpleNamespace(look=looked.append)).stop()
    assert closing.over
    assert query.waited == ["stop"]
    assert looked == ["x", "a"]
    running(Query()).stop()


def failed(text="spark's own"):
    return StreamingQueryException(text)


def test_error_of_a_micro_batch_in_this_process_is_raised():
    ours, theirs = SinkError("no"), failed()
    with pytest.raises(SinkError) as raised:
        running(Query(error=theirs), failure=[ValueError("before"), ours]).await_termination()
    assert raised.value is ours
    assert ours.spark_error is theirs
    known = SinkError("no")
    known.spark_error = other = ValueError("the first")
    with pytest.raises(SinkError):
        running(Query(error=failed()), failure=[known]).await_termination()
    assert known.spark_error is other


def test_error_of_a_worker_is_found_in_sparks_message():
    steps, theirs = Steps(), failed("Traceback...\npanestream.errors.FencedError: another copy was started later")
    watcher = SimpleNamespace(wait=lambda: steps("wait"), finish=lambda: steps("finish"))
    with pytest.raises(FencedError, match=r"^another copy was started later$") as raised:
        running(Query(error=theirs), steps, watcher=watcher).await_termination()
    assert raised.value.spark_error is theirs
    assert steps.done == ["wait"]


def test_unknown_failure_becomes_fencing_error_or_stays_sparks(monkeypatch):
    steps, theirs, damage = Steps(), failed(), []
    monkeypatch.setattr(query_.spark_logs, "named", lambda *told: damage.append(told))
    one = running(Query(error=theirs), steps)
    with pytest.raises(StreamingQueryException) as raised:
        one.await_termination()
    assert raised.value is theirs
    assert steps.done == [("fenced?", SESSION)]
    assert damage == [(SESSION, "cp", theirs)]
    fenced = FencedError("another copy")
    monkeypatch.setattr(one.outputs, "fenced", lambda spark: fenced, raising=False)
    with pytest.raises(FencedError) as raised:
        one.await_termination()
    assert raised.value is fenced
    assert fenced.spark_error is theirs
    assert len(damage) == 1


def test_failure_of_spark_with_a_known_reason_becomes_an_error_of_panestream(monkeypatch):
    theirs, damaged = failed(), StateDamagedError("offsets/2 is gone")
    monkeypatch.setattr(query_.spark_logs, "named", lambda *told: damaged)
    with pytest.raises(StateDamagedError) as raised:
        running(Query(error=theirs)).await_termination()
    assert raised.value is damaged
    assert damaged.spark_error is theirs


def test_name_of_a_running_query_is_refused_before_the_start():
    session = SimpleNamespace(streams=SimpleNamespace(active=[SimpleNamespace(name=None), SimpleNamespace(name="clicks")]))
    with pytest.raises(InvalidPlanError) as refused:
        query_.start(session, None, None, query_.StartRequest({}, "cp", {}, name="clicks"))
    assert str(refused.value) == (
        "a query with name='clicks' is running in this session. Choose another name, or stop that query first: "
        "[query.stop() for query in spark.streams.active if query.name == 'clicks']"
    )


def test_end_of_java_is_explained_and_other_errors_are_raised():
    gone, other = ConnectionResetError("gone"), ValueError("odd")
    with pytest.raises(OperatorError, match=r"^Spark's Java process has ended while the query ran") as raised:
        running(Query(error=gone)).await_termination()
    assert raised.value.spark_error is gone
    with pytest.raises(ValueError, match="odd"):
        running(Query(error=other)).await_termination()


def test_running_query_shows_its_plan_and_activity():
    plan = SimpleNamespace(
        operator=SimpleNamespace(result_schema=[SimpleNamespace(name="n", type="int64")]), key_names=(), assigner=3,
        tags=("main", "late"),
    )  # fmt: skip
    one = RunningQuery(Query(), plan, SESSION, Outputs(Steps()))
    assert one._parts() == {"results": "n int64", "windows": "3", "key": "none", "outputs": "main, late"}
    plan.key_names = ("user", "page")
    assert one._parts()["key"] == "user, page"
    assert one.is_active is True


def test_time_limit_includes_the_closing_runs(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(query_.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(BatchProgress, "of_spark", lambda entry, name: entry)

    class Slow(Query):
        def awaitTermination(self, timeout=None):  # noqa: N802 (Spark's name)
            now[0] += 4
            return super().awaitTermination(timeout)

    second, third = Slow(), Slow(99)
    begun = iter([second, third])
    closing = SimpleNamespace(after=lambda progress: lambda: (next(begun), None), before=[], over=False)
    first = Slow()
    assert running(first, closing=closing).await_termination(10) is False
    assert (first.waited, second.waited, third.waited) == ([10], [6], [2])
