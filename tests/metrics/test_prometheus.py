"""The Prometheus endpoint, scraped by a real HTTP client, after events in Spark's form."""

import errno
import logging
import threading
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import Row

import panestream as pst
from panestream.metrics.table import ALL
from tests.metrics.told import HOUR, ID, NO_COUNTERS, progress, started, terminated


@pytest.fixture
def metrics():
    with pst.metrics.PrometheusMetrics(registry=CollectorRegistry()) as made:
        yield made


@pytest.fixture
def endpoint():
    """Metrics with an endpoint, which takes half a second to close."""
    with pst.metrics.PrometheusMetrics(port=0) as made:
        yield made


def values_of(text):
    """Return the values by name and label values, in the order of the table."""
    order = {metric.shown: metric.all_labels for metric in ALL}
    return {
        (sample.name, *(sample.labels[label] for label in order[sample.name])): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(metrics):
    if metrics.url is None:
        return values_of(generate_latest(metrics.registry).decode())
    with urllib.request.urlopen(metrics.url, timeout=30) as answer:
        assert answer.status == 200
        return values_of(answer.read().decode())


def check_sum(values, query="clicks"):
    parts = [values[f"panestream_{kind}_rows_total", query] for kind in ("windowed", "late", "invalid", "outside")]
    assert values["panestream_rows_total", query] == sum(parts)


def test_endpoint_shows_all_metrics_of_a_micro_batch(endpoint):
    endpoint.onQueryProgress(progress())
    values = scrape(endpoint)
    check_sum(values)
    said = {(name.removeprefix("panestream_"), *labels[1:]): value for (name, *labels), value in values.items() if labels}
    assert said["rows_total",] == 10
    assert said["dropped_rows_total",] == 2
    assert said["spark_dropped_rows_total",] == 3
    assert [said["firings_total", kind] for kind in ("early", "on_time", "late")] == [0, 4, 1]
    assert (said["output_rows_total", "main"], said["output_rows_total", "late"]) == (5, 0)
    assert said["open_windows",] == 3
    assert (said["watermark_event_lag_seconds",], said["watermark_clock_lag_seconds",]) == (3600, 7200)
    assert (said["partition_event_lag_seconds", "a"], said["partition_event_lag_seconds", "b"]) == (3600, 1e-6)
    assert (said["partition_idle", "a"], said["partition_idle", "b"], said["idle_partitions",]) == (0, 1, 1)
    assert said["key_group_skew_ratio", "rows"] == pytest.approx(6 * 4 / 9)
    assert (said["key_group_skew_ratio", "bytes"], said["largest_key_group", "bytes"]) == (3, 1)
    assert (said["key_group_skew_ratio", "time"], said["largest_key_group", "time"]) == (2, 3)
    assert (said["stage_seconds_total", "addBatch"], said["stage_seconds_total", "walCommit"]) == (1.5, 0.1)
    assert (said["micro_batch_seconds",], said["slowest_key_group_seconds",]) == (2, 4)
    assert said["micro_batch_timestamp_seconds",] == 3 * 3600
    # The endpoint shows the metrics of the table and no others.
    assert {name for name, *_ in values} == {metric.shown for metric in ALL}


def test_metrics_have_help_text_type_and_conventional_name(endpoint):
    endpoint.onQueryProgress(progress())
    with urllib.request.urlopen(endpoint.url, timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    assert len(families) == len(ALL)
    for family, metric in zip(families, ALL, strict=True):
        assert (family.type, family.documentation) == (metric.kind, metric.text)
        assert metric.text.endswith(".")
        assert metric.shown.startswith("panestream_")
        base = metric.name.removesuffix("_total")
        assert not metric.unit or base.endswith(metric.unit), f"{metric.name} is in {metric.unit}"
        assert metric.unit or not base.endswith(("seconds", "bytes", "ratio"))


def test_counters_add_up_and_gauges_show_the_last_micro_batch(metrics):
    metrics.onQueryStarted(started())
    for number in range(3):
        metrics.onQueryProgress(progress(number, state_bytes=1000 * number))
    values = scrape(metrics)
    check_sum(values)
    assert values["panestream_rows_total", "clicks"] == 30
    assert values["panestream_micro_batches_total", "clicks"] == 3
    assert values["panestream_state_bytes", "clicks"] == 2000
    assert values["panestream_query_active", "clicks"] == 1


def test_counters_survive_the_end_and_restart_of_a_query(metrics):
    metrics.onQueryProgress(progress())
    metrics.onQueryTerminated(terminated("java.lang.Error: no"))
    values = scrape(metrics)
    assert (values["panestream_query_active", "clicks"], values["panestream_query_failures_total", "clicks"]) == (0, 1)
    assert ("panestream_open_windows", "clicks") not in values
    assert values["panestream_rows_total", "clicks"] == 10
    metrics.onQueryProgress(progress(1, run="another run"))
    metrics.onQueryTerminated(terminated())  # The first run ends again, although it is already over.
    values = scrape(metrics)
    assert (values["panestream_query_active", "clicks"], values["panestream_query_failures_total", "clicks"]) == (1, 1)
    assert values["panestream_rows_total", "clicks"] == 20


def test_each_query_has_separate_series_under_its_name_or_id(metrics):
    metrics.onQueryProgress(progress())
    metrics.onQueryProgress(progress(name=None, run="another run", input_rows=6, windowed_rows=2))
    values = scrape(metrics)
    check_sum(values)
    check_sum(values, ID)
    assert (values["panestream_rows_total", "clicks"], values["panestream_rows_total", ID]) == (10, 6)


def test_only_the_last_ended_queries_are_kept():
    with pst.metrics.PrometheusMetrics(port=0, most_ended=2) as metrics:
        for name in ("one", "two", "three", "four"):
            metrics.onQueryProgress(progress(name=name, run=name))
            if name != "four":
                metrics.onQueryTerminated(terminated(run=name))
        metrics.onQueryTerminated(terminated(run="four"))
        assert {key[1] for key in scrape(metrics) if key[0] == "panestream_rows_total"} == {"three", "four"}


def test_queries_are_forgotten_in_the_order_of_their_end():
    with pst.metrics.PrometheusMetrics(port=0, most_ended=2) as metrics:
        metrics.onQueryProgress(progress(name="old", run="old"))
        for name in ("one", "two", "three"):
            metrics.onQueryProgress(progress(name=name, run=name))
            metrics.onQueryTerminated(terminated(run=name))
        metrics.onQueryTerminated(terminated("java.lang.Error: no", run="old"))
        values = scrape(metrics)
        assert {key[1] for key in values if key[0] == "panestream_rows_total"} == {"three", "old"}
        assert values["panestream_query_failures_total", "old"] == 1


def test_runs_that_fail_before_their_first_micro_batch_are_counted(metrics):
    metrics.onQueryProgress(progress())
    metrics.onQueryTerminated(terminated("java.lang.Error: no"))
    for run in ("second", "third"):
        metrics.onQueryStarted(started(run=run))
        metrics.onQueryTerminated(terminated("java.lang.Error: still not", run=run))
    metrics.onQueryStarted(started(run="fourth"))
    metrics.onQueryTerminated(terminated(run="fourth"))
    # Another user's query.
    other = terminated("java.lang.Error: no", run="other")
    other.id = "33333333-3333-3333-3333-333333333333"
    metrics.onQueryTerminated(other)
    values = scrape(metrics)
    assert {key[1]: value for key, value in values.items() if key[0] == "panestream_query_failures_total"} == {"clicks": 3}
    assert values["panestream_query_active", "clicks"] == 0


def test_user_observations_are_ignored(metrics):
    event = progress()
    event.progress["observedMetrics"]["panestream_of_mine"] = Row(rows=7)
    event.progress["observedMetrics"]["panestream_2"] = event.progress["observedMetrics"]["panestream"]
    metrics.onQueryProgress(event)
    values = scrape(metrics)
    assert {key[1] for key in values if key[0] == "panestream_rows_total"} == {"clicks", "clicks_2"}
    assert values["panestream_listener_errors_total",] == 0


def test_only_the_slowest_source_partitions_have_series():
    with pst.metrics.PrometheusMetrics(port=0, most_partitions=1) as metrics:
        metrics.onQueryProgress(progress())
        assert [key[2] for key in scrape(metrics) if key[0] == "panestream_partition_idle"] == ["a"]
        metrics.onQueryProgress(progress(1, partitions=[["b", HOUR, HOUR, False]]))
        values = scrape(metrics)
        assert [key[2] for key in values if key[0] == "panestream_partition_idle"] == ["b"]
        assert values["panestream_partitions", "clicks"] == 2


def test_gauges_stay_if_only_some_key_groups_report(metrics):
    metrics.onQueryProgress(progress())
    metrics.onQueryProgress(
        progress(1, input_rows=0, windowed_rows=0, late_rows=0, invalid_rows=0, outside_rows=0, groups=1, state_bytes=7)
    )
    values = scrape(metrics)
    assert values["panestream_state_bytes", "clicks"] == 4000
    assert values["panestream_micro_batches_total", "clicks"] == 2


def test_unknown_values_have_no_series(metrics):
    metrics.onQueryProgress(progress(kept_windows=None, watermark=None, max_event_time=None, partitions=[]))
    values = scrape(metrics)
    for name in ("open_windows", "watermark_timestamp_seconds", "watermark_clock_lag_seconds", "newest_event_timestamp_seconds"):
        assert (f"panestream_{name}", "clicks") not in values


def test_foreign_queries_and_triggers_without_a_micro_batch_are_ignored(metrics):
    event = progress()
    event.progress["observedMetrics"] = {}
    metrics.onQueryProgress(event)
    event = progress()
    del event.progress["durationMs"]["addBatch"]
    metrics.onQueryProgress(event)
    assert set(scrape(metrics)) == {("panestream_listener_errors_total",)}


def test_error_in_the_listener_is_logged_and_counted(metrics, caplog):
    event = progress()
    event.progress["timestamp"] = "no time"
    with caplog.at_level(logging.ERROR, "panestream.metrics"):
        metrics.onQueryProgress(event)
    assert "PrometheusMetrics could not take in an event" in caplog.text
    metrics.onQueryProgress(progress(1))
    values = scrape(metrics)
    assert values["panestream_listener_errors_total",] == 1
    assert values["panestream_rows_total", "clicks"] == 10


def test_concurrent_scrape_sees_whole_micro_batches():
    metrics = pst.metrics.PrometheusMetrics(registry=CollectorRegistry())

    def tell(name):
        for number in range(50):
            metrics.onQueryProgress(progress(number, name=name, run=name))

    threads = [threading.Thread(target=tell, args=(name,)) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    seen = set()
    while any(thread.is_alive() for thread in threads):
        values = values_of(generate_latest(metrics.registry).decode())
        for name in {key[1] for key in values if key[0] == "panestream_rows_total"}:
            check_sum(values, name)
            seen.add(name)
    for thread in threads:
        thread.join()
    values = values_of(generate_latest(metrics.registry).decode())
    assert [values["panestream_rows_total", name] for name in ("one", "two", "three")] == [500, 500, 500]
    assert metrics.errors == 0


def test_existing_registry_is_used_and_left_on_close():
    registry = CollectorRegistry()
    metrics = pst.metrics.PrometheusMetrics(registry=registry)
    assert (metrics.port, metrics.url) == (None, None)
    metrics.onQueryProgress(progress())
    assert registry.get_sample_value("panestream_rows_total", {"query": "clicks"}) == 10
    with pytest.raises(ValueError, match="panestream_"):
        pst.metrics.PrometheusMetrics(registry=registry)
    metrics.close()
    metrics.close()
    assert b"panestream" not in generate_latest(registry)
    pst.metrics.PrometheusMetrics(registry=registry).close()


def test_port_in_use_is_an_error_and_leaves_nothing_registered(endpoint):
    registry = CollectorRegistry()
    with pytest.raises(OSError, match=rf"port {endpoint.port} of 127\.0\.0\.1: .*in use; .*0 for any that is free") as raised:
        pst.metrics.PrometheusMetrics(endpoint.port, registry=registry)
    assert raised.value.errno == errno.EADDRINUSE
    with pytest.raises(OSError, match=r"port 0 of 192\.0\.2\.1: [^;]*$"):
        pst.metrics.PrometheusMetrics(0, address="192.0.2.1")
    assert not generate_latest(registry)


def test_closed_endpoint_refuses_connections():
    metrics = pst.metrics.PrometheusMetrics(port=0)
    url = metrics.url
    metrics.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=5)


def test_gauges_stay_if_spark_dropped_all_rows_of_a_micro_batch(metrics):
    metrics.onQueryProgress(progress())
    before = scrape(metrics)
    # No row reached a key group, so no group reported anything.
    metrics.onQueryProgress(progress(1, observed=NO_COUNTERS))
    after = scrape(metrics)
    assert after["panestream_spark_dropped_rows_total", "clicks"] == 2 * before["panestream_spark_dropped_rows_total", "clicks"]
    assert after["panestream_rows_total", "clicks"] == before["panestream_rows_total", "clicks"]
    for gauge in ("watermark_timestamp_seconds", "state_bytes", "key_groups"):
        assert after[f"panestream_{gauge}", "clicks"] == before[f"panestream_{gauge}", "clicks"]


def test_micro_batch_without_rows_in_windows_is_counted(metrics):
    metrics.onQueryProgress(progress())
    before = scrape(metrics)
    event = progress(1, observed=NO_COUNTERS)
    event.progress |= {"stateOperators": [], "timestamp": "1970-01-01T04:00:00.000Z"}
    metrics.onQueryProgress(event)
    after = scrape(metrics)
    assert after["panestream_micro_batches_total", "clicks"] == before["panestream_micro_batches_total", "clicks"] + 1
    # An alert needs this timestamp to see that the query is alive.
    assert after["panestream_micro_batch_timestamp_seconds", "clicks"] == 4 * 3600
    assert after["panestream_open_windows", "clicks"] == before["panestream_open_windows", "clicks"]
    check_sum(after)
    told = pst.BatchProgress.of_spark(event.progress)
    assert (told.rows, told.watermark, told.open_windows, told.groups_reporting, told.most_rows_group) == (0, None, None, 0, -1)
