"""Names of datasets: by the conventions, equal for the reader and the writer of the same data, and without passwords."""

from __future__ import annotations

import pytest

from panestream.spark.open_lineage.datasets import (
    Dataset,
    dataset_of_path,
    dataset_of_sink,
    datasets_of_source,
    servers_in_plan,
    without_secrets,
)
from panestream.spark.sinks.files import ParquetSink
from panestream.spark.sinks.kafka import KafkaSink

# Recorded with Spark 4.1 and its Kafka source.
PLAN = (
    "+- ~StreamingRelationV2 org.apache.spark.sql.kafka010.KafkaSourceProvider@23d3f351, kafka, "
    "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@6156ca3a, [kafka.sasl.jaas.config=*********(redacted), "
    "kafka.bootstrap.servers=h1:9092,h2:9093, subscribe=a,b], [key#9, value#10, topic#11], StreamingRelation kafka, [key#2], "
    "name=<Unassigned>, name=<Unassigned>"
)


def source(description, end="null"):
    return {"description": description, "endOffset": end, "numInputRows": 1}


@pytest.mark.parametrize(
    ("path", "dataset"),
    [
        ("file:/data/clicks", ("file", "/data/clicks")),
        ("file:///data/clicks/", ("file", "/data/clicks")),
        ("/data/clicks", ("file", "/data/clicks")),
        ("s3://bucket/shop/clicks", ("s3://bucket", "shop/clicks")),
        ("s3a://bucket", ("s3://bucket", "/")),
        ("gs://bucket/clicks", ("gs://bucket", "clicks")),
        ("hdfs://host:8020/clicks", ("hdfs://host:8020", "/clicks")),
        ("abfss://box@account.dfs.core.windows.net/clicks", ("abfss://box@account.dfs.core.windows.net", "clicks")),
        ("dbfs:/clicks", ("dbfs", "/clicks")),
        ("s3a://KEY:SECRET@bucket/clicks", ("s3://bucket", "clicks")),
        ("wasbs://box@a.net/clicks?sig=SECRET", ("wasbs://box@a.net", "clicks")),
        ("postgres://me:SECRET@db:5432/shop", ("postgres://db:5432", "shop")),
    ],
)
def test_path_becomes_a_dataset_without_login(path, dataset):
    assert dataset_of_path(path) == dataset


def test_kafka_source_gets_a_dataset_per_topic_of_its_offsets():
    end = '{"b":{"0":3},"a":{"0":1,"1":2}}'
    servers = servers_in_plan(PLAN)
    assert servers == {"Subscribe[a, b]": "h1:9092,h2:9093"}
    found = datasets_of_source(source("KafkaV2[Subscribe[a, b]]", end), servers, "shop")
    assert found == [("kafka://h1:9092", "a"), ("kafka://h1:9092", "b")]
    # A KafkaSink of the same topic has the same name.
    assert dataset_of_sink(KafkaSink("H1:9092,h2:9093", "a"), None) == found[0]


def test_kafka_source_without_known_servers_is_named_in_the_namespace_of_the_job():
    assert datasets_of_source(source("KafkaV2[SubscribePattern[a.*]]", '{"a1":{"0":3}}'), {}, "shop") == [("shop", "a1")]


def test_pattern_and_list_of_two_clusters_have_their_own_servers():
    pattern = PLAN.replace("h1:9092,h2:9093, subscribe=a,b", "other:9, subscribePattern=a.*")
    servers = servers_in_plan(f"{PLAN}\n{pattern}")
    assert servers == {"Subscribe[a, b]": "h1:9092,h2:9093", "SubscribePattern[a.*]": "other:9"}
    found = datasets_of_source(source("KafkaV2[SubscribePattern[a.*]]", '{"a1":{"0":3}}'), servers, "shop")
    assert found == [("kafka://other:9", "a1")]


@pytest.mark.parametrize(
    ("description", "datasets"),
    [
        ("FileStreamSource[file:/data/clicks]", [("file", "/data/clicks")]),
        ("DeltaSource[s3a://bucket/clicks]", [("s3://bucket", "clicks")]),
        ("FileStreamSource[file:/checkpoint/panestream/signals]", []),
        ("RateStreamV2[rowsPerSecond=5, rampUpTimeSeconds=0, numPartitions=default", [("shop", "RateStreamV2")]),
        ("MySource[url=jdbc:x://h/db?password=SECRET]", [("shop", "MySource")]),
        ("org.example.Stream@1f2e3d", [("shop", "org.example.Stream")]),
        ("", [("shop", "")]),
    ],
)
def test_source_of_spark_becomes_datasets(description, datasets):
    assert datasets_of_source(source(description), {}, "shop") == datasets


def test_file_sink_and_file_source_of_one_folder_have_the_same_name(tmp_path):
    (mine,) = datasets_of_source(source(f"FileStreamSource[file:{tmp_path}/out]"), {}, "shop")
    assert dataset_of_sink(ParquetSink(tmp_path / "out"), None) == mine == Dataset("file", f"{tmp_path}/out")


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:postgresql://me:SECRET@db/shop failed",
        "https://h/x?api_key=SECRET&b=1",
        'org.x.Login required username="u" password="SECRET SECRET";',
        "{'kafka.ssl.key.password': 'SECRET'}",
        "fs.azure.account token: SECRET",
    ],
)
def test_secrets_are_removed_from_texts(text):
    assert "SECRET" not in without_secrets(text)
