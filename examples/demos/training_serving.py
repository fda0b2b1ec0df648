"""Training equals serving: features of 1, 7 and 30 days from hourly tiles, compared with SQL over the rows.

Run it with ``make demo-training``. The features of the past, for training, equal those of a query that reads each row, and
those that a server would have computed with only the data of that time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from demos.shared import OUTPUT, Output, label_end, save_picture, say, time_axis, workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START, DAYS = int(datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp()), 45
WINDOWS = {"1d": "1 day", "7d": "7 days", "30d": "30 days"}
SERVED = "timestamp'2026-02-08 09:41:07'"
SHOWN = "user7"
USERS = 100
BY_ROWS = """
SELECT q.user, q.at,
  sum(CASE WHEN p.ts >= q.at - INTERVAL '1' DAY THEN p.cents END) AS spent_1d,
  sum(CASE WHEN p.ts >= q.at - INTERVAL '7' DAY THEN p.cents END) AS spent_7d,
  sum(p.cents) AS spent_30d
FROM {questions} q LEFT JOIN {payments} p ON p.user = q.user AND p.ts < q.at AND p.ts >= q.at - INTERVAL '30' DAY
GROUP BY q.user, q.at
"""


def payments_of(spark: SparkSession, rows: int) -> DataFrame:
    """Return made-up payments of 45 days."""
    step = DAYS * 86_400_000_000 // rows
    return spark.range(rows).selectExpr(
        f"concat('user', pmod(hash(id), {USERS})) AS user",
        f"timestamp_micros({START}000000 + id * {step}) AS ts",
        # Each user has quiet and busy days.
        f"pmod(hash(id, 1), 300) * (1 + pmod(hash(pmod(hash(id), {USERS}), id * 15 div {rows}), 9)) AS cents",
    )


def questions_of(spark: SparkSession, number: int) -> DataFrame:
    """Return instants of users: random ones for training, one instant that is served, and each eight hours of one user."""
    chosen = spark.range(number).selectExpr(
        f"concat('user', pmod(hash(id, 3), {USERS})) AS user",
        f"timestamp_millis({START}000 + pmod(hash(id, 4), {DAYS * 86_400_000})) AS at",
    )
    served = spark.range(USERS).selectExpr("concat('user', id) AS user", f"{SERVED} AS at")
    shown = spark.range(DAYS * 3).selectExpr(f"'{SHOWN}' AS user", f"timestamp_seconds({START} + id * 28800 + 1234) AS at")
    return chosen.union(served).union(shown).distinct()


def features_of(tiles: DataFrame, payments: DataFrame, questions: DataFrame) -> DataFrame:
    """Return the features: the same call for training and serving."""
    import panestream as pst
    from panestream import agg

    stored = pst.from_panes(tiles, agg.sum("cents").alias("spent"), rows=payments, event_time="ts")
    answers = stored.as_of(questions, at="at", windows=WINDOWS)
    return answers.select("user", "at", *(f"spent_{label}" for label in WINDOWS))


def different(one: DataFrame, other: DataFrame) -> int:
    """Return the number of rows that only one of two tables has."""
    return one.exceptAll(other).count() + other.exceptAll(one).count()


def draw(by_tiles: Sequence[Any], by_rows: Sequence[Any], axes: Any) -> None:
    """Draw the features of one user over time: a broad line by rows, and points by tiles on top."""
    from panestream.insight.drawing import BAR, INK, LINE, MARK

    for label, length in WINDOWS.items():
        line, points = (
            ([row["at"] for row in rows], [(row[f"spent_{label}"] or 0) / 100 for row in rows]) for rows in (by_rows, by_tiles)
        )
        axes.plot(*line, color=BAR, linewidth=5, alpha=0.4, solid_capstyle="round", label="SQL over the rows")
        axes.plot(*points, color=MARK, marker=".", markersize=3.5, linestyle="none", label="tiles, as of that time")
        label_end(axes, line[0][-1], line[1][-1], length, INK)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[:2], labels[:2], loc="upper left", frameon=False, labelcolor=INK)
    axes.set_title(f"What {SHOWN} spent in the last 1, 7 and 30 days, computed in two ways", loc="left", color=INK)
    time_axis(axes, "%-d %b")
    axes.set_ylim(0)
    axes.margins(x=0.01)
    axes.grid(axis="y", color=LINE, linewidth=0.6)


def show(spark: SparkSession, work: Path, picture: Path, *, rows: int = 400_000, questions: int = 4_000) -> int:
    """Run the demo and return the number of different rows."""
    import panestream as pst
    from panestream import agg

    def kept(name: str, table: DataFrame) -> tuple[DataFrame, float]:
        began = time.perf_counter()
        table.write.parquet(str(work / name))
        return spark.read.parquet(str(work / name)), time.perf_counter() - began

    payments, _ = kept("payments", payments_of(spark, rows))
    asked, _ = kept("questions", questions_of(spark, questions))
    began = time.perf_counter()
    keyed = pst.stream(payments, time="ts", out_of_orderness="1 minute").key_by("user")
    keyed.window(pst.tumbling("1 hour")).panes(agg.sum("cents").alias("spent")).run(main=pst.ParquetSink(str(work / "tiles")))
    tiles = spark.read.parquet(str(work / "tiles"))
    say("input", f"{rows:,} payments of {USERS} users in {DAYS} days; {tiles.count():,} hourly tiles")
    say("tiles", f"written in {time.perf_counter() - began:.1f} s, once for all questions")
    by_tiles, seconds = kept("by-tiles", features_of(tiles, payments, asked))
    by_rows, other = kept("by-rows", spark.sql(BY_ROWS, questions=asked, payments=payments))
    say("times", f"features by tiles {seconds:.1f} s, by SQL over the rows {other:.1f} s")
    wrong, compared = different(by_tiles, by_rows), by_tiles.count()
    say("training", f"{compared:,} rows of {len(WINDOWS)} features: {wrong} differ from SQL over the rows")
    known, past = tiles.where(f"window_end <= {SERVED}"), payments.where(f"ts < {SERVED}")
    served = features_of(known, past, asked.where(f"at = {SERVED}"))
    odd = different(served, by_tiles.where(f"at = {SERVED}"))
    say("serving", f"{served.count():,} rows with only the data before {SERVED[10:-1]}: {odd} differ from training")
    one, two = (each.where(f"user = '{SHOWN}'").orderBy("at").collect() for each in (by_tiles, by_rows))
    save_picture(picture, lambda axes, _: draw(one, two, axes), f"Features of {SHOWN} over time, by tiles and by rows")
    return wrong + odd


def main(output: Output = OUTPUT) -> None:
    """Compare features from tiles with SQL over the rows, for training and for serving."""
    with workshop("training equals serving") as (spark, work):
        wrong = show(spark, work, output / "training-serving.svg")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
