"""Names of datasets by OpenLineage's naming conventions, without passwords."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from panestream.spark.checkpoint.control_messages import FOLDER
from panestream.spark.compat import silence_analysis_errors
from panestream.spark.places import file_place
from panestream.spark.session import explained
from panestream.spark.sinks.base import Sink
from panestream.spark.sinks.kafka import KafkaSink
from panestream.spark.sinks.table_formats.names import quoted_name
from panestream.spark.sinks.tables import CatalogTableSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/.*", re.DOTALL)
_SOURCE = re.compile(r"([\w.$]+)(?:\[(.*)\])?", re.DOTALL)
_LOGIN = re.compile(r"(?<=//)[^/@\s]*:[^/@\s]*@")
_SECRET = re.compile(
    r"([\w.-]*(?:passw|secret|token|credential|signature|access.?key|api.?key)[\w.-]*[\"']?\s*[=:]\s*)"
    r"(?:\"[^\"]*\"|'[^']*'|[^\s,;&]+)",
    re.IGNORECASE,
)
_RELATION = re.compile(r"StreamingRelationV2 [^\n]*?\[([^\n]*?kafka\.bootstrap\.servers=[^\n]*?)\](?=, \[)")


class Dataset(NamedTuple):
    """The name of a dataset; two producers that use the same name mean the same data."""

    namespace: str
    name: str


def without_login(address: str) -> str:
    """Return an address without a user and a password."""
    return _LOGIN.sub("", address)


def without_secrets(text: str) -> str:
    """Return a text without the logins of addresses and the values of passwords, tokens and keys.

    >>> without_secrets("no route to https://me:pw@host/a?token=abc, password='x y' and user=me")
    'no route to https://host/a?token=***, password=*** and user=me'
    """
    return _SECRET.sub(r"\1***", without_login(text))


def dataset_of_path(path: str) -> Dataset:
    """Return the dataset of a folder or an address.

    >>> dataset_of_path("file:///data//clicks/"), dataset_of_path("s3a://bucket/shop/clicks")
    (Dataset(namespace='file', name='/data/clicks'), Dataset(namespace='s3://bucket', name='shop/clicks'))
    >>> dataset_of_path("hdfs://me:pw@host:8020/clicks?sig=secret")
    Dataset(namespace='hdfs://host:8020', name='/clicks')
    """
    place = file_place(re.sub(r"\?[^/]*=.*", "", without_login(path)))
    scheme, _, rest = place.partition(":")
    authority, _, inner = rest.removeprefix("//").partition("/")
    scheme = {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
    # Paths of file systems begin with a slash, and keys of object stores do not.
    absolute = not authority or scheme == "hdfs" or not inner
    return Dataset(f"{scheme}://{authority}" if authority else scheme, f"/{inner}" if absolute else inner)


def dataset_of_topic(servers: str, topic: str) -> Dataset:
    """Return the dataset of a topic, by the first server.

    >>> dataset_of_topic("broker-1:9092,broker-2:9092", "clicks")
    Dataset(namespace='kafka://broker-1:9092', name='clicks')
    """
    return Dataset(f"kafka://{servers.split(',', maxsplit=1)[0].strip().rpartition('@')[2].lower()}", topic)


def datasets_of_source(source: Mapping[str, object], servers: Mapping[str, str], namespace: str) -> list[Dataset]:
    """Return the datasets of a source in Spark's progress. ``servers`` is by the topics in a Kafka source's description.

    Sources without an address, e.g. Spark's ``rate``, get their kind as the name, in ``namespace``. panestream's own source of
    signals is left out.
    """
    description = str(source["description"])
    found = _SOURCE.match(description)
    kind, inner = (found[1], found[2] or "") if found else (description.partition("[")[0], "")
    if kind.startswith("KafkaV2"):
        topics: object = None
        with suppress(ValueError):
            topics = json.loads(str(source["endOffset"]))
        known = servers.get(inner) or next(iter(servers.values()), None)
        names = sorted(topics) if isinstance(topics, dict) else [inner]
        return [Dataset(namespace, name) if known is None else dataset_of_topic(known, name) for name in names]
    if inner.rstrip("/").endswith(f"/{FOLDER}"):
        return []
    return [dataset_of_path(inner) if _ADDRESS.fullmatch(inner) else Dataset(namespace, kind)]


def kafka_servers(df: DataFrame) -> dict[str, str]:
    """Return the servers of the Kafka sources of a stream, by the topics as the progress describes them.

    Spark's progress does not name the servers. Its plan does, with passwords replaced.
    """
    try:
        with silence_analysis_errors():
            plan = explained(df, extended=True)
    except Exception:  # noqa: BLE001 - lineage must not fail a query: the topics then lack their servers
        return {}
    return servers_in_plan(plan)


def servers_in_plan(plan: str) -> dict[str, str]:
    """Return the servers by the topics, from the text of a plan."""
    found = {}
    for options in _RELATION.findall(plan):
        given = dict(part.partition("=")[::2] for part in re.split(r", (?=[\w.]+=)", options))
        given = {name.lower(): value for name, value in given.items()}
        for option, kind in (("subscribe", "Subscribe"), ("subscribepattern", "SubscribePattern"), ("assign", "Assign")):
            if option in given:
                topics = re.sub(r"\s*,\s*", ", ", given[option]) if option == "subscribe" else given[option]
                found[f"{kind}[{topics}]"] = given["kafka.bootstrap.servers"]
    return found


def dataset_of_sink(sink: Sink, spark: SparkSession) -> Dataset | None:
    """Return the dataset of a sink that has an address, or None. A table is named by :func:`dataset_of_table`."""
    if isinstance(sink, KafkaSink):
        return dataset_of_topic(sink.servers, sink.topic)
    place = sink.place(spark)
    return dataset_of_path(place) if place is not None and _ADDRESS.fullmatch(place) else None


def dataset_of_table(sink: CatalogTableSink, spark: SparkSession) -> Dataset | None:
    """Return the dataset of a table, by its location as Spark's readers of its files name it, or None if that is unknown."""
    try:
        with silence_analysis_errors():
            rows = spark.sql(f"DESCRIBE TABLE EXTENDED {quoted_name(sink.name)}").collect()
    except Exception:  # noqa: BLE001 - the table may not exist yet
        return None
    location = next((row[1] for row in rows if row[0] == "Location"), None)
    return dataset_of_path(location) if location else None
