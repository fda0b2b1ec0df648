"""Features compared with their best peers, in turns, in one session: ``python -m benchmarks.features.run --write``.

Every contestant writes Parquet files. After its turn, outside of the measured time, its rows are counted and hashed; all
contestants must have the same. The first turn of each is for warming up.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import panestream as pst
from benchmarks.features import aggregates, asof, batch, contest, fill, process, rolling
from benchmarks.run import machine

RESULTS = Path(__file__).resolve().parent.parent / "results"
CONTESTS = {one.name: one for module in (rolling, asof, process, fill, aggregates, batch) for one in module.CONTESTS}
PEERS = sorted({name for one in CONTESTS.values() for name in one.contestants} - {contest.OURS})


def heading(options: argparse.Namespace) -> list[str]:
    """Return a description of the machine and the method."""
    about = machine()
    return [
        "# Features and their best peers",
        "",
        f"- Machine: {about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']};",
        f"  load {about['load_at_start']}. Python {about['python']}, Spark {about['pyspark']}, pyarrow {about['pyarrow']}.",
        f"- {options.rounds} rounds in turns after one of warming up, in one session; {options.scale:g} of the full size.",
        "  A turn is a whole query, which reads and writes Parquet files. All contestants gave the same rows.",
        f"- Spark: `local[{contest.CORES}]`, {contest.CORES} shuffle partitions, the settings of `pst.build_session` for all.",
        f"  DuckDB and Polars: {contest.CORES} threads.",
        "- Seconds by the clock. A ratio is of one round: above 1, panestream is faster. Median (lowest to highest).",
        "  `processor` is the same for the time of the processors, which a busy machine disturbs less.",
        "",
    ]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.features.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--contests", nargs="+", choices=list(CONTESTS), default=list(CONTESTS))
    parser.add_argument("--without", nargs="+", choices=PEERS, default=[], help="peers that do not run, since they take long")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the full size (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a short look: a twentieth of the rows, one round")
    parser.add_argument("--write", action="store_true", help="keep the table, in results/features.md")
    options = parser.parse_args(arguments)
    if options.quick:
        options.scale, options.rounds = min(options.scale, 0.05), 1
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the contests and print the table."""
    options = parse(arguments)
    lines = [*heading(options), *contest.HEADING]
    settings = {"spark.sql.shuffle.partitions": str(contest.CORES), "spark.ui.enabled": "false", "spark.driver.memory": "4g"}
    spark = pst.build_session("features", settings, master=f"local[{contest.CORES}]")
    spark.sparkContext.setLogLevel("ERROR")
    for name in options.contests:
        chosen = CONTESTS[name].without(options.without)
        rows, turns = contest.run(chosen, spark, options.scale, options.rounds)
        lines += contest.table(chosen, rows, turns)
        print("\n".join(lines[-len(turns) :]), flush=True)
    spark.stop()
    if options.write:
        (RESULTS / "features.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
