"""Kill queries hundreds of times, with every kind of kill, at every operator and sink, from one command with a seed.

    make crash ARGS="--kills 300 --seed 1"
    make crash ARGS="--kills 300 --seed 1 --only driver/panes/delta"     # one cell again, with the same kills

Each cell of the table is one query: one operator that writes to one sink, struck by one kind of kill until the query ends. The
kinds take turns, a few cells at a time. All operators come first, then the next sink for each. So an interrupted run has struck
all of them about equally often.

The rows of each query, with their firing numbers, are compared with those of an undisturbed run, and with the answer of a batch.
The result is written to benchmarks/results/crashes.md and .json, or to the folder of ``--results``. If a cell differs or a query
cannot resume, the command exits with status 1 and prints how to repeat that cell.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.connectors.serving.servers import PASSWORD, Postgres, Redis
from tests.recovery.crashes import disks as disk_space
from tests.recovery.crashes.cells import Cell, cells_of, in_turns, prepare_topics
from tests.recovery.crashes.drivers import kill_drivers
from tests.recovery.crashes.places import SECRET, SERVING, SINKS, suits
from tests.recovery.crashes.queries import QUERIES, clicks, ordered, settled, write_clicks
from tests.recovery.crashes.report import save, write_report
from tests.recovery.crashes.strikes import DRIVER, DRIVER_EACH, DRIVER_SHARE, KINDS, Kind, Scene
from tests.recovery.crashes.victims import Victim, wait_until
from tests.recovery.kill_loop import ROOT

SESSION_SECONDS = 2400
TOGETHER = {DRIVER: 1, **dict.fromkeys(KINDS, 6)}
"""How many cells run in one turn. With larger numbers, an interrupted run covers fewer kinds."""
_TASKS = {"spark.task.maxFailures": "8", "spark.stage.maxConsecutiveAttempts": "20"}


@dataclass
class Campaign:
    """One run of the command.

    Attributes:
        folder: The folder of all files that the run writes.
        seed: Decides the clicks and the moments of kills.
        cells: The cells of every kind.
        skipped: The kinds that cannot run on this machine, each with the reason.
        expected: The expected rows by operator.
        jars: The jars of the connectors, after the first lookup.
        files: The number of micro-batches of each query.
        broker: The Kafka broker of all kinds that do not strike it.
        stores: The PostgreSQL and Redis servers by sink.
        deadline: After this time no kill strikes and no cell starts.
        save: Writes the results so far. Called after each cell.
    """

    folder: Path
    seed: int
    cells: list[Cell]
    skipped: dict[str, str] = field(default_factory=dict)
    expected: dict[str, dict[str, Any]] = field(default_factory=dict)
    jars: str = ""
    files: int = 6
    broker: Any = None
    stores: dict[str, Any] = field(default_factory=dict)
    deadline: float = math.inf
    save: Callable[[], object] = lambda: None

    @property
    def clicks(self) -> Path:
        return self.folder / "clicks"

    @property
    def rows(self) -> list[list[tuple[Any, ...]]]:
        return clicks(self.files, self.seed)

    def session(self, cells: Sequence[Cell], plans: Sequence[dict[str, Any]], master: str, **settings: str) -> dict[str, Any]:
        """Return a plan for a victim process, with the jars of the connectors if one of these cells needs them."""
        connectors = any(cell.sink in ("delta", "iceberg", "kafka") for cell in cells)
        return {"master": master, "connectors": connectors, "jars": self.jars, "settings": settings, "cells": list(plans)}

    def find_what_is_expected(self) -> None:
        """Run every query undisturbed into files, and as a batch.

        Raises:
            AssertionError: The stream and the batch differ.
        """
        work = self.folder / "undisturbed"
        struck = {cell.operator for cell in self.cells}
        told = [Cell("undisturbed", operator, "files", 0) for operator in QUERIES if operator in struck]
        done = work / f"seed-{self.seed}-{self.files}-{'-'.join(cell.operator for cell in told)}"
        # Write them even if they exist: Spark orders files by age, and a copied folder has lost their ages.
        write_clicks(self.clicks, self.rows)
        if not done.exists():
            work.mkdir(exist_ok=True)
            plans = [{**cell.plan(work, self.clicks, ""), "batch": True} for cell in told]
            plan = self.session(self.cells, plans, "local[2,4]")
            victim = Victim.start(work, plan)
            victim.process.wait(SESSION_SECONDS)
            if victim.process.returncode:
                raise RuntimeError(f"the undisturbed run ended with {victim.process.returncode}:\n{victim.tail()}")
            done.touch()
        for cell in told:
            rows = json.loads((work / f"rows-{cell.name}.json").read_text())
            self.expected[cell.operator] = rows
            if settled(QUERIES[cell.operator], rows["main"]) != ordered(rows["batch"]) or not rows["batch"]:
                raise AssertionError(f"{cell.operator}: the undisturbed run differs from the batch")
        self.jars = (work / "jars").read_text()

    @contextmanager
    def servers(self) -> Generator[None]:
        """Run the servers that the cells need. Cells whose kind strikes brokers get a broker for each session."""
        sinks = {cell.sink for cell in self.cells if cell.wanted}
        with ExitStack() as stack:
            if "kafka" in sinks:
                from scripts.kafka_broker import Broker

                self.broker = Broker(self.folder / "kafka")
                self.broker.start()
                stack.callback(self.broker.stop)
            os.environ[SECRET] = PASSWORD
            for sink, make in (("postgres", Postgres), ("redis", Redis)):
                if sink in sinks:
                    self.stores[sink] = make()
                    stack.callback(self.stores[sink].stop)
                    self.stores[sink].start()
            yield

    def plan(self, cell: Cell, work: Path, broker: Any) -> dict[str, Any]:
        """Prepare the sink of a cell, and return the victim's instructions."""
        address = self.stores[cell.sink].address if cell.sink in SERVING else broker.servers if broker else ""
        prepare_topics(cell, work, address, self.rows)
        return cell.plan(work, self.clicks, address)

    def strike(self, cells: Sequence[Cell]) -> None:
        """Strike some cells of one kind."""
        kind = cells[0].kind
        if time.monotonic() > self.deadline or kind in self.skipped:
            return
        try:
            if kind == DRIVER:
                self._strike_drivers(cells)
            else:
                self._strike_in_one_session(KINDS[kind], cells)
        except disk_space.NoDiskError as error:
            self.skipped[kind] = str(error)
        except Exception:  # noqa: BLE001 - the other kinds go on
            traceback.print_exc()
            # The cells after this one were not compared.
            broken = next((cell for cell in cells if cell.difference is None), cells[-1])
            broken.difference = "the query did not come to its end"

    def _strike_drivers(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            if time.monotonic() > self.deadline:
                break
            work = self.folder / cell.name
            work.mkdir()
            plan = self.session([cell], [self.plan(cell, work, self.broker)], "local[2,4]")
            try:
                # Continue with the aims after those of the last operator on this sink, so that each sink meets every aim.
                turn = DRIVER_EACH * (list(QUERIES).index(cell.operator) // len(SINKS))
                kill_drivers(cell, work, plan, turn, cell.chance(self.seed), self.deadline)
            except RuntimeError as error:
                cell.difference = f"the query did not come to its end: {error}"
                print(cell.difference, flush=True)
                continue
            self._compare(cell, work)

    def _strike_in_one_session(self, kind: Kind, cells: Sequence[Cell]) -> None:
        work = self.folder / f"session-{cells[0].name}"
        work.mkdir()
        with ExitStack() as stack:
            broker = self.broker
            if cells[0].kind == "broker":
                from scripts.kafka_broker import Broker

                broker = Broker(work / "kafka")
                broker.start()
                stack.callback(broker.stop)
            plans = {cell.name: self.plan(cell, work, broker) for cell in cells}
            disks: dict[str, dict[str, disk_space.Disk]] = {}
            if kind.disks:
                for cell in cells:
                    places = ["checkpoint"] if cell.sink in ("kafka", *SERVING) else ["checkpoint", "sink"]
                    mounts = stack.enter_context(disk_space.mounted([work / cell.name / place for place in places]))
                    disks[cell.name] = dict(zip(places, mounts, strict=True))
            master, workers, settings = kind.master, [], dict(_TASKS if kind.master is None else {})
            if master is None:
                from tests.spark.clusters import cluster

                path = f"{ROOT / 'src'}:{ROOT}"
                master, processes = stack.enter_context(cluster(work, sys.executable))
                workers = [process.pid for process in processes]
                settings |= {"spark.executor.memory": "700m", "spark.executor.cores": "1", "spark.executorEnv.PYTHONPATH": path}
                settings |= {"spark.executor.instances": "2"}
            victim = Victim.start(work, self.session(cells, list(plans.values()), master, **settings))
            try:
                for cell in cells:
                    if time.monotonic() > self.deadline:
                        return
                    checkpoint = Path(plans[cell.name]["checkpoint"])
                    scene = Scene(
                        victim, cell.name, checkpoint, cell.chance(self.seed), disks.get(cell.name, {}), broker,
                        self.stores.get(cell.sink), workers,
                    )  # fmt: skip
                    self._strike_one(kind, cell, scene)
                    self._compare(cell, work)
                victim.process.wait(60)
            finally:
                if victim.running:
                    victim.kill()

    def _strike_one(self, kind: Kind, cell: Cell, scene: Scene) -> None:
        """Strike one cell until its query has ended."""
        wait_until(lambda: scene.over or scene.victim.current == cell.name, SESSION_SECONDS, 0.02)
        while len(cell.struck) < cell.wanted and time.monotonic() < self.deadline and scene.wait_for_work():
            struck = kind.strike(scene)
            if struck is not None:
                cell.struck.append(struck)
        wait_until(lambda: scene.over, SESSION_SECONDS, 0.05)
        if not scene.victim.has_rows(cell.name):
            raise RuntimeError(f"{cell.title}: the session ended with {scene.victim.process.returncode}:\n{scene.victim.tail()}")

    def _compare(self, cell: Cell, work: Path) -> None:
        cell.compare(json.loads((work / f"rows-{cell.name}.json").read_text()), self.expected[cell.operator])
        said = "identical" if cell.difference == "" else cell.difference
        print(f"{time.strftime('%H:%M:%S')} {cell.title}: {len(cell.struck)} of {cell.wanted} kills struck, {said}", flush=True)
        self.save()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="make crash", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300, help="of all kinds together (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="draws the rows and the moments (default: %(default)s)")
    parser.add_argument("--kinds", nargs="+", choices=[DRIVER, *KINDS], default=[DRIVER, *KINDS], help="default: all")
    parser.add_argument(
        "--operators",
        nargs="+",
        choices=list(QUERIES),
        default=list(QUERIES),
        help="among which kills are dealt out (default: all)",
    )
    parser.add_argument("--sinks", nargs="+", choices=SINKS, default=list(SINKS), help="as for operators (default: all)")
    parser.add_argument("--files", type=int, default=6, help="micro-batches of each query (default: %(default)s)")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="KIND/OPERATOR/SINK",
        help="some cells, with as many kills as each has in the whole",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="after that nothing is struck, and no cell begun (default: no limit)",
    )
    parser.add_argument("--lanes", type=int, default=2, help="cells that run beside one another (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", help="a folder (default: %(default)s)")
    parser.add_argument("--name", default="crashes", help="the name of the result's files (default: %(default)s)")
    parser.add_argument(
        "--keep",
        type=Path,
        help="a folder for everything that is written meanwhile, which stays; what an undisturbed run of this seed gave is found there again",
    )
    return parser.parse_args(arguments)


def planned(options: argparse.Namespace) -> list[Cell]:
    """Return the cells of a command line, each with its number of kills."""
    deals: dict[str, tuple[float, int, tuple[str, ...]]]
    # Drivers come last in each turn. Each of their kills costs the start of a process, so an interrupted run has more kills this way.
    deals = {
        **{name: (one.share, one.each, one.sinks) for name, one in KINDS.items()},
        DRIVER: (DRIVER_SHARE, DRIVER_EACH, SINKS),
    }
    whole = sum(share for share, _, _ in deals.values())
    cells = [
        cell
        for kind, (share, each, sinks) in deals.items()
        if (chosen := [sink for sink in sinks if sink in options.sinks])
        for cell in cells_of(kind, round(options.kills * share / whole), each, chosen, options.operators, suits)
    ]
    unknown = set(options.only) - {cell.title for cell in cells}
    if unknown:
        raise SystemExit(f"there is no cell {min(unknown)!r}: they are called like {cells[0].title!r}")
    return [cell for cell in cells if cell.kind in options.kinds and (not options.only or cell.title in options.only)]


def run(options: argparse.Namespace, folder: Path, began: float) -> Campaign:
    """Run all cells of a command line."""
    deadline = time.monotonic() + 60 * options.minutes
    campaign = Campaign(folder, options.seed, planned(options), files=options.files, deadline=deadline)
    campaign.save = lambda: save(options, campaign.cells, campaign.skipped, began, ended=False)
    campaign.find_what_is_expected()
    print(f"{time.strftime('%H:%M:%S')} undisturbed runs and batches agree; now the kills", flush=True)
    with campaign.servers(), ThreadPoolExecutor(max_workers=options.lanes) as lanes:
        list(lanes.map(campaign.strike, in_turns(campaign.cells, TOGETHER)))
    return campaign


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the campaign, then print and write the table."""
    options = parse(arguments)
    began = time.time()
    with ExitStack() as stack:
        # Until the run ends, this folder contains tmpfs mounts.
        given = partial(tempfile.TemporaryDirectory, prefix="panestream-crashes-", ignore_cleanup_errors=True)
        folder = options.keep or Path(stack.enter_context(given()))
        folder.mkdir(parents=True, exist_ok=True)
        campaign = run(options, folder, began)
    failed = write_report(options, campaign.cells, campaign.skipped, began)
    # If no kill struck, the run proves nothing.
    sys.exit(1 if failed or not any(cell.struck for cell in campaign.cells) else 0)


if __name__ == "__main__":
    disk_space.as_root("tests.recovery.crashes.campaign")
    main()
