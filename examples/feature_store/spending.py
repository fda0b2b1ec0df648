"""Features of panestream in Feast: training data from Parquet files, and current values from an online store.

A query writes what each card spent in the last hour and day, with a row for each change of a value. Here it is a batch over the
history; `start` in place of `run` makes it a stream. Feast joins questions with the row of their time. The answers equal those of
tiles, which panestream computes from the same payments in another way. Then Feast loads the newest row of each card into SQLite.

    pip install 'panestream[spark]' feast
    python examples/feature_store/spending.py
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, RepoConfig, ValueType
from feast.types import Int64
from pyspark.sql import DataFrame

import panestream as pst
from panestream import agg

NINE = datetime(2026, 3, 2, 9, tzinfo=timezone.utc)


def at(minutes: float) -> datetime:
    """Return a time after nine."""
    return NINE + timedelta(minutes=minutes)


PAYMENTS = [
    ("ann", at(0.2), 20),
    ("ann", at(40), 5),
    ("bob", at(41.5), 7),
    ("bob", at(41.7), 2),
    ("ann", at(95), 1),
    ("cid", at(600), 3),
]
QUESTIONS = [("ann", at(1)), ("ann", at(60.5)), ("ann", at(300)), ("bob", at(42.5)), ("bob", at(101)), ("dan", at(60))]
WINDOWS = {"1h": "1 hour", "24h": "24 hours"}
FEATURES = [f"spent_{label}" for label in WINDOWS]


def write_values(payments: DataFrame, folder: Path) -> None:
    """Write a row for each change of a card's values. It is valid from ``as_of`` on."""
    keyed = pst.stream(payments, time="ts", out_of_orderness="10 seconds").key_by("card")
    values = keyed.rolling(WINDOWS, every="1 minute").agg(agg.sum("amount").alias("spent"))
    values.run(main=pst.ParquetSink(f"{folder}/values"))


def feature_store(folder: Path) -> FeatureStore:
    """Register the values: one feature view, with files for training and SQLite for serving."""
    card = Entity(name="card", join_keys=["card"], value_type=ValueType.STRING)
    spending = FeatureView(
        name="spending",
        entities=[card],
        schema=[Field(name=name, dtype=Int64) for name in FEATURES],
        source=FileSource(path=f"{folder}/values", timestamp_field="as_of"),
        # A value is valid until the next row of its card, however old it is.
        ttl=timedelta(0),
    )
    store = FeatureStore(
        config=RepoConfig(
            project="cards",
            provider="local",
            registry=f"{folder}/registry.db",
            online_store={"type": "sqlite", "path": f"{folder}/online.db"},
            entity_key_serialization_version=3,
        )
    )
    store.apply([card, spending])
    return store


def answers(rows: list[Mapping[str, Any]]) -> dict[Any, tuple[int | None, ...]]:
    """Return the features by card and time. pandas has NaN for a missing value."""
    return {
        (row["card"], pd.Timestamp(row["event_timestamp"]).tz_convert("UTC")): tuple(
            None if pd.isna(row[name]) else int(row[name]) for name in FEATURES
        )
        for row in rows
    }


def by_feast(store: FeatureStore) -> dict[Any, tuple[int | None, ...]]:
    """Answer the questions from Feast's files."""
    questions = pd.DataFrame(QUESTIONS, columns=["card", "event_timestamp"])
    found = store.get_historical_features(entity_df=questions, features=[f"spending:{name}" for name in FEATURES])
    return answers(found.to_df().to_dict("records"))


def by_tiles(payments: DataFrame) -> dict[Any, tuple[int | None, ...]]:
    """Answer the questions from tiles of a minute, without Feast and without rolling values."""
    spent = agg.sum("amount").alias("spent")
    keyed = pst.stream(payments, time="ts", out_of_orderness="10 seconds").key_by("card")
    tiles = keyed.window(pst.tumbling("1 minute")).panes(spent).main
    questions = payments.sparkSession.createDataFrame(QUESTIONS, "card string, event_timestamp timestamp")
    found = pst.from_panes(tiles, spent).as_of(questions, at="event_timestamp", windows=WINDOWS)
    return answers(
        found.toPandas().assign(event_timestamp=lambda rows: rows["event_timestamp"].dt.tz_localize("UTC")).to_dict("records")
    )


def online(store: FeatureStore, *cards: str) -> dict[str, tuple[int | None, ...]]:
    """Load the newest row of each card into the online store, and look up some cards."""
    store.materialize(start_date=NINE, end_date=at(601))
    names = [f"spending:{name}" for name in FEATURES]
    found = store.get_online_features(features=names, entity_rows=[{"card": card} for card in cards]).to_dict()
    return {card: tuple(found[name][number] for name in FEATURES) for number, card in enumerate(cards)}


def main() -> None:
    """Print the answers of both, and the current values."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    # Feast needs times with a zone. Spark's default type for times in Parquet has none.
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
    spark = pst.build_session("feature store", settings, master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    with TemporaryDirectory() as name:
        folder = Path(name)
        payments = spark.createDataFrame(PAYMENTS, "card string, ts timestamp, amount bigint")
        write_values(payments, folder)
        store = feature_store(folder)
        found, expected = by_feast(store), by_tiles(payments)
        for (card, time), values in sorted(found.items()):
            print(f"{card} at {time:%H:%M:%S}: {values}")
        print(
            f"{sum(found.get(question) != values for question, values in expected.items())} of {len(expected)} differ from tiles"
        )
        print(online(store, "ann", "bob", "cid"))


if __name__ == "__main__":
    main()
