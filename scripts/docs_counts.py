"""Count the documentation, and how much of it was run. Build the site, follow its links, and run its pages.

    .venv/bin/python scripts/docs_counts.py [--no-spark | --only-spark]

Exit with 1 if a page's code does not give its shown output, or a link is broken.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "scripts"), str(ROOT / "src")]

import built  # noqa: E402
import make_docs  # noqa: E402
import pages  # noqa: E402
from readme_example import write_clicks  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def counted(spark: bool) -> tuple[dict[str, int], list[str]]:
    """Return the counts by name, and the faults."""
    every = [pages.read(path) for path in pages.all_pages()]
    decisions = len(list((pages.DOCS / "decisions").glob("[0-9]*.md")))
    chinese = sum(page.name.startswith("zh/") for page in every)
    numbers = {"pages": len(every) - chinese, "pages in Chinese": chinese, "decisions": decisions}
    faults: list[str] = []
    ran = compared = elsewhere = left = same = 0
    runs_on_spark = {page.name for page in pages.to_run_on_spark(every)}
    for page in every:
        blocks = [block for block in page.of("python") if block.argument != "fragment"]
        if page.needs not in ("", "spark"):
            elsewhere += len(blocks)
        elif page.needs == "spark" and page.name not in runs_on_spark:
            same += len(blocks)
        elif page.needs == "spark" and not spark:
            left += len(blocks)
        elif page.runs and not page.needs:
            try:
                outcome = pages.run(page)
            except pages.PageError as error:
                faults.append(str(error))
                continue
            ran, compared = ran + outcome.ran, compared + outcome.compared
    if spark:
        outcomes, failed = on_spark(every)
        ran, compared = ran + sum(each.ran for each in outcomes), compared + sum(each.compared for each in outcomes)
        faults += failed
    kinds = [(block.kind, block.argument == "fragment") for page in every for block in page.blocks]
    numbers |= {
        "Python blocks that ran": ran,
        "outputs that were compared": compared,
        "Python blocks that tests with connectors run": elsewhere,
        "Python blocks that need Spark, left out here": left,
        "Python blocks of Chinese pages that are those of an English page on Spark": same,
        "Python blocks that are only parsed": kinds.count(("python", True)),
        "job files that were checked": kinds.count(("toml", False)) + kinds.count(("yaml", False)),
        "blocks of commands that were checked": kinds.count(("sh", False)),
        "blocks of other languages, shown only": sum(kind in ("sql", "java", "scala", "json", "yaml") for kind, _ in kinds),
    }
    return numbers, faults


def on_spark(every: Sequence[pages.Page]) -> tuple[list[pages.Outcome], list[str]]:
    """Run the pages that need Spark with one session, in a folder that is emptied after each. Print each page's seconds."""
    needing = pages.to_run_on_spark(every)
    outcomes: list[pages.Outcome] = []
    faults: list[str] = []
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="panestream-docs-") as folder:
        os.chdir(folder)  # before the JVM starts, since Spark's relative paths start at its folder
        spark = _session()
        settings = spark.conf.getAll
        try:
            for page in needing:
                began = time.monotonic()
                if page.name == "index.md":
                    write_clicks(Path(folder) / "clicks")
                try:
                    outcomes.append(pages.run(page, spark=spark, folder=Path(folder)))
                    print(f"{page.name}: {time.monotonic() - began:.1f} s", flush=True)
                except pages.PageError as error:
                    faults.append(str(error))
                _tidy(spark, settings)
        finally:
            spark.stop()
            os.chdir(before)
    return outcomes, faults


def _session() -> SparkSession:
    from panestream.spark.session import build_session

    session = build_session(
        "panestream docs", {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}, master="local[2]"
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def _tidy(spark: SparkSession, settings: Mapping[str, str]) -> None:
    # A page that builds its own session changes the settings of this one.
    for name, value in spark.conf.getAll.items():
        if name not in settings and spark.conf.isModifiable(name):
            spark.conf.unset(name)
        elif value != settings.get(name) and spark.conf.isModifiable(name):
            spark.conf.set(name, settings[name])
    # Stop queries that a page left running, before the next page runs.
    for query in spark.streams.active:
        query.stop()
    spark.catalog.clearCache()
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--no-spark", action="store_true", help="leave out what needs a Spark session")
    asked.add_argument("--only-spark", action="store_true", help="run the pages that need a Spark session, and nothing else")
    given = asked.parse_args()
    if given.only_spark:
        _, faults = on_spark([pages.read(path) for path in pages.all_pages()])
        print("\n".join(faults))
        sys.exit(bool(faults))
    target = ROOT / "build" / "docs"
    if make_docs.build(target, fresh=True):
        sys.exit(1)
    found = built.look(target)
    numbers, faults = counted(spark=not given.no_spark)
    faults += found.faults
    numbers |= {
        "drawings": found.drawings,
        "pages of the built site": found.pages,
        "links that were followed": found.links,
        "of them to a place on a page": found.anchors,
        "links to elsewhere, not followed": found.external,
        "faults": len(faults),
    }
    for name, number in numbers.items():
        print(f"{number:>7,}  {name}")
    print("\n".join(faults))
    sys.exit(bool(faults))
