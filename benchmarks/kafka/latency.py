"""From a row in Kafka to the row in the sink, another topic: ``python -m benchmarks.kafka.latency --write``.

A producer writes events at a steady rate, with the clock as event time. Counts of keys in windows of a second go to another topic
in each micro-batch while the windows are open. For this, panestream uses ``ContinuousEventTimeTrigger``, and Spark's own windows
use update mode. Micro-batches follow one another without pause. A consumer notes the arrival of each result. The latency of an
event ends with the first result of its key and window that counts it. A key's events are in one partition, so a count of n
contains the first n of them.

Broker, producer, consumer and Spark share the machine. A figure is valid only if all rows of the measured time arrive.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import panestream as pst
from benchmarks.harness import SETTINGS
from benchmarks.run import machine
from panestream import agg
from panestream.spark.kafka.source import PACKAGE
from panestream.spark.session import BIRTH_SETTINGS, STREAM_SETTINGS
from scripts.kafka_broker import Broker, make_topics

ROOT = Path(__file__).resolve().parents[2]
CONTESTANTS = ("panestream", "native")
PARTITIONS, KEYS = 4, 1_000
EVENT = "key BIGINT, at BIGINT"
SIZE = "1 second"
WARM_UP_SECONDS = 70
READY = "the first micro-batch is done"


def query(contestant: str, servers: str, topics: Sequence[str], folder: str, cores: int) -> None:
    """Run the query in this process until it is killed."""
    settings = {**SETTINGS, **STREAM_SETTINGS, **BIRTH_SETTINGS, "spark.sql.shuffle.partitions": str(cores)}
    settings["spark.jars.packages"] = f"{PACKAGE}:{pyspark.__version__}"
    builder = SparkSession.builder.master(f"local[{cores}]").appName("latency")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    source, sink = topics
    if contestant == "panestream":
        events = pst.from_kafka(spark, servers, source, schema=EVENT)
        timed = events.assign_timestamps("at", pst.WatermarkStrategy.for_monotonous_timestamps(), unit="microseconds")
        windows = timed.key_by("key").window(pst.TumblingEventTimeWindows.of(SIZE))
        early = windows.trigger(pst.ContinuousEventTimeTrigger.of("1 millisecond"))
        result = early.aggregate(agg.count().alias("events"))
        running = result.start(
            checkpoint=folder, main=pst.KafkaSink(servers, sink, ["key"]), trigger={"processingTime": "0 seconds"}
        ).query
    else:
        given = {"kafka.bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest"}
        records = spark.readStream.format("kafka").options(**given).load()
        fields = records.select(F.from_json(F.col("value").cast("string"), EVENT).alias("event")).select("event.*")
        stamped = fields.withColumn("time", F.timestamp_micros("at")).withWatermark("time", "1 second")
        counts = stamped.groupBy("key", F.window("time", SIZE)).agg(F.count(F.lit(1)).alias("events"))
        named = counts.select("key", F.col("window.start").alias("window_start"), "events")
        text = F.to_json(F.struct("*"), {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timeZone": "UTC"})
        writer = named.select(text.alias("value")).writeStream.format("kafka").outputMode("update")
        writer = writer.option("kafka.bootstrap.servers", servers).option("topic", sink)
        running = writer.option("checkpointLocation", folder).start()
    while running.lastProgress is None and running.isActive:
        time.sleep(0.1)
    print(READY, flush=True)
    running.awaitTermination()


def produce(servers: str, topic: str, rate: int, seconds: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Write events at that rate, and return their keys and times (microseconds)."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 2, "queue.buffering.max.messages": 1_000_000})
    begun, number, keys, times = time.time(), 0, [], []
    while (passed := time.time() - begun) < seconds:
        for _ in range(int(passed * rate) - number):
            key, at = number % KEYS, time.time_ns() // 1000
            producer.produce(topic, f'{{"key": {key}, "at": {at}}}'.encode(), partition=key % PARTITIONS)
            keys.append(key)
            times.append(at)
            number += 1
        producer.poll(0)
        time.sleep(0.002)
    producer.flush()
    return np.array(keys), np.array(times)


class Consumer(threading.Thread):
    """Record the messages of a topic with their arrival in microseconds."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.servers, self.topic, self.over = servers, topic, threading.Event()
        self.came: list[tuple[int, bytes]] = []

    def run(self) -> None:
        from confluent_kafka import Consumer as Client

        client = Client({"bootstrap.servers": self.servers, "group.id": self.topic, "auto.offset.reset": "earliest"})
        client.subscribe([self.topic])
        while not self.over.is_set():
            for message in client.consume(10_000, timeout=0.02):
                if message.error() is None:
                    self.came.append((time.time_ns() // 1000, message.value()))
        client.close()


def latencies(keys: Any, times: Any, came: Sequence[tuple[int, bytes]], since: int, until: int) -> tuple[Any, int]:
    """Return the microseconds from event to result between two moments, and the number of events without a result."""
    events: dict[tuple[int, int], list[int]] = {}
    for key, at in zip(keys.tolist(), times.tolist(), strict=True):
        events.setdefault((key, at // 1_000_000), []).append(at)
    seen: dict[tuple[int, int], int] = {}
    found = []
    for arrived, value in came:
        row = json.loads(value)
        start = np.datetime64(row["window_start"].removesuffix("Z").removesuffix("+00:00"), "us").astype(np.int64)
        place = row["key"], int(start) // 1_000_000
        before = seen.get(place, 0)
        if row["events"] > before:
            found += [arrived - at for at in events.get(place, [])[before : row["events"]] if since <= at < until]
            seen[place] = row["events"]
    return np.array(found), int(((times >= since) & (times < until)).sum()) - len(found)


def run_once(contestant: str, broker: Broker, rate: int, options: argparse.Namespace, number: int) -> dict[str, float]:
    """Run once, and return the milliseconds from event to result.

    Raises:
        RuntimeError: the query failed, or events did not arrive.
    """
    topics = f"events-{number}", f"results-{number}"
    make_topics(broker, [f"{topics[0]}:{PARTITIONS}", f"{topics[1]}:1"])
    folder = tempfile.mkdtemp(prefix="latency-")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "benchmarks.kafka.latency", "--run", contestant, broker.servers, *topics]
    command += [f"{folder}/checkpoint", str(options.cores)]
    consumer = Consumer(broker.servers, topics[1])
    # Send a first row, because a query without rows does not report that it is ready.
    produce(broker.servers, topics[0], 1_000, 1)
    with Path(folder, "log").open("w") as log:
        running = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
        try:
            for line in running.stdout or ():
                if line.strip() == READY:
                    break
            consumer.start()
            begun = time.time()
            keys, times = produce(broker.servers, topics[0], rate, WARM_UP_SECONDS + options.seconds)
            time.sleep(options.wait)
            if running.poll() is not None:
                raise RuntimeError(f"{contestant} failed:\n{Path(folder, 'log').read_text()[-3000:]}")
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            consumer.over.set()
            consumer.join()
    # The last results wait for time to advance.
    span = int((begun + WARM_UP_SECONDS) * 1e6), int(times.max()) - 1_000_000
    found, missing = latencies(keys, times, consumer.came, *span)
    shutil.rmtree(folder, ignore_errors=True)
    if missing:
        raise RuntimeError(f"{contestant}, {rate:,} a second: {missing:,} events were in no result {options.wait} s later")
    p50, p99 = np.percentile(found, [50, 99]) / 1000
    return {"p50": float(p50), "p99": float(p99), "events": len(found)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and with ``--write`` save the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.kafka.latency", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 50_000], help="events a second")
    parser.add_argument("--seconds", type=int, default=30, help="that count (default: %(default)s)")
    parser.add_argument("--wait", type=int, default=15, help="seconds for the last results (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--write", action="store_true", help="keep the table in benchmarks/results/kafka-latency.md")
    parser.add_argument("--run", nargs=6, metavar="WORD", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        contestant, servers, source, sink, folder, cores = options.run
        query(contestant, servers, (source, sink), folder, int(cores))
        return
    about, number = machine(), 0
    lines = [
        "# From a row in Kafka to the row in the sink",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB; load before the start",
        f"  {about['load_at_start']}. Python {about['python']}, Spark {about['pyspark']}. Broker, producer, consumer and Spark",
        f"  share it. Counts of {KEYS:,} keys in windows of {SIZE}, told in each micro-batch.",
        f"- {options.seconds} s after {WARM_UP_SECONDS} s",
        f"  of warm-up, {options.rounds} rounds in turns: median of the rounds (least to most). All events arrived.",
        "- See `benchmarks/kafka/latency.py`.",
        "",
        "| events a second | contestant | p50 ms | p99 ms |",
        "|---:|---|---:|---:|",
    ]
    with tempfile.TemporaryDirectory(prefix="kafka-", ignore_cleanup_errors=True) as folder:
        broker = Broker(Path(folder), memory="512m")
        broker.start()
        try:
            for rate in options.rates:
                rounds: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
                for _ in range(options.rounds):
                    for name, each in rounds.items():
                        number += 1
                        each.append(run_once(name, broker, rate, options, number))
                        print(f"  {rate:,} a second, {name}: {each[-1]}", flush=True)
                for name, each in rounds.items():
                    cells = []
                    for what in ("p50", "p99"):
                        values = sorted(figures[what] for figures in each)
                        cells.append(f"{values[len(values) // 2]:,.0f} ({values[0]:,.0f} to {values[-1]:,.0f})")
                    lines.append(f"| {rate:,} | {name} | {' | '.join(cells)} |")
        finally:
            broker.stop()
    print("\n".join(lines))
    if options.write:
        (ROOT / "benchmarks" / "results" / "kafka-latency.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
