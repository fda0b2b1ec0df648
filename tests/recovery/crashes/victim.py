"""The process that is killed. It runs the queries of ``FOLDER/plan.json`` one after the other, each until it has ended.

A failed query starts again in the same session, as an orchestrator would do. The process reports to its folder. ``current`` names
the running query, ``failures.log`` lists failures, and ``rows-NAME.json`` has the rows in a query's sinks after its end. While a
file ``hold`` exists, the process does not start the next query.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.connectors import components
from tests.connectors.kills import Kill, KillingSink, strike
from tests.recovery.crashes.places import Place
from tests.recovery.crashes.queries import QUERIES, ROWS, in_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST_HOLD_SECONDS = 120
MOST_FAILURES = 40
"""Failures of one query before the process stops. Strikes are fewer."""


def session(plan: dict[str, Any], folder: Path) -> SparkSession:
    """Create a session with the components that the plan needs."""
    from panestream.spark.session import build_session

    settings = {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": str(folder / "warehouse")}
    if plan["connectors"]:
        settings = components.session_settings(folder / "warehouse")
        if plan["jars"]:
            # The jars are already resolved. Resolving them takes seconds at each start.
            del settings["spark.jars.packages"]
            settings["spark.jars"] = plan["jars"]
    settings |= {"spark.driver.memory": "1500m", **plan["settings"]}
    spark = build_session("panestream crashes", settings, master=plan["master"])
    spark.sparkContext.setLogLevel("WARN")
    # Spark then logs a line for every lost task, which shows the campaign that a kill struck.
    level = spark._jvm.org.apache.logging.log4j.Level.INFO
    spark._jvm.org.apache.logging.log4j.core.config.Configurator.setLevel("org.apache.spark.scheduler.TaskSetManager", level)
    return spark


def run(folder: Path) -> None:
    """Run all queries of the plan that do not have rows yet."""
    warnings.simplefilter("ignore")
    plan = json.loads((folder / "plan.json").read_text())
    spark = session(plan, folder)
    (folder / "jars").write_text(spark.sparkContext.getConf().get("spark.jars", "") or "")
    for cell in plan["cells"]:
        if not (folder / f"rows-{cell['name']}.json").exists():
            run_one(spark, folder, cell)
    spark.stop()


def run_one(spark: SparkSession, folder: Path, cell: dict[str, Any]) -> None:
    """Run one query to its end, and write the content of its sinks."""
    query = QUERIES[cell["operator"]]
    place = Place(cell["sink"], cell["name"], Path(cell["folder"]), cell["servers"])
    _put(folder / "current", cell["name"])
    for _ in range(MOST_FAILURES):
        try:
            result = query.build(place.source(spark, Path(cell["clicks"]), ROWS))
            sinks = place.sinks(spark, query)
            if cell.get("kill"):
                kill = Kill(**cell["kill"])
                sinks = {output: KillingSink(sink, kill.target, output, folder, (kill,)) for output, sink in sinks.items()}
            if cell.get("rename"):
                strike_at_rename(folder, cell["rename"])
            result.start(checkpoint=cell["checkpoint"], fire_at_end=query.closing, **sinks).await_termination()
            break
        except Exception as error:  # noqa: BLE001 - whatever the kill makes of it
            _fail(folder, cell["name"], error)
            _hold(folder)
    else:
        raise RuntimeError(f"{cell['name']} failed {MOST_FAILURES} times")
    rows = place.read(spark, query)
    if cell.get("batch"):
        rows["batch"] = in_batch(spark, query, Path(cell["clicks"]))
    _put(folder / f"rows-{cell['name']}.json", json.dumps(rows))


def strike_at_rename(folder: Path, when: str) -> None:
    """Kill this process at the first rename that publishes a micro-batch of files.

    Args:
        folder: The folder of the log.
        when: ``before`` or ``after`` the rename.
    """
    from panestream.spark.sinks import publication

    here = Kill("rename", when, -1, None)
    rename, exchanged = Path.rename, publication.exchanged

    def struck(source: Path, target: Any) -> Path:
        if "batch_id=" not in Path(target).name:
            return rename(source, target)
        if when == "before":
            strike(folder, here)
        done = rename(source, target)
        strike(folder, here)
        return done

    def struck_exchange(one: Path, other: Path) -> bool:
        if when == "before":
            strike(folder, here)
        done = exchanged(one, other)
        strike(folder, here)
        return done

    Path.rename = struck  # type: ignore[method-assign]
    publication.exchanged = struck_exchange


def _fail(folder: Path, name: str, error: Exception) -> None:
    causes = [error, getattr(error, "spark_error", None)]
    text = "\n".join(f"{type(one).__name__}: {one}" for one in causes if one is not None)
    with (folder / "failures.log").open("a") as log:
        log.write(json.dumps({"name": name, "at": time.time(), "error": text[:8000] + text[-8000:]}) + "\n")


def _hold(folder: Path) -> None:
    deadline = time.monotonic() + LONGEST_HOLD_SECONDS
    while (folder / "hold").exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def _put(file: Path, text: str) -> None:
    """Write a whole file or nothing."""
    part = file.with_suffix(".part")
    part.write_text(text)
    part.replace(file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="the process that is killed")
    parser.add_argument("folder", type=Path)
    given = parser.parse_args().folder
    # The process leads its own process group, so that a kill from within strikes the whole group.
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    importlib.import_module("tests.recovery.crashes.victim").run(given)
