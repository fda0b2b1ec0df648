"""The kinds of kills: how each strikes a running query, and how to see that it struck.

A kill counts only if it hit something. A driver must have been running its query. Spark's log must report that a task or the
session lost the killed Python worker or executor. A query must have met the broken disk or broker.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.recovery.crashes.disks import Disk
from tests.recovery.crashes.places import SERVING, SINKS
from tests.recovery.crashes.victims import Progress, Victim, executors, killed, wait_until

if TYPE_CHECKING:
    from scripts.kafka_broker import Broker
    from tests.connectors.serving.servers import Server

LOST_TASK = ("Lost task",)
LOST_EXECUTOR = ("Lost executor",)
LOST_BROKER = ("disconnected", "could not be established", "Connection to node")
STORE_WORDS = ("PostgreSQL table", "Redis keys")
DISK_WORDS = ("No space left on device", "Read-only file system", "mkdir of file:", "Mkdirs failed to create")


@dataclass
class Scene:
    """A running query, and what a kill can strike.

    Attributes:
        victim: The process.
        name: The name of the query.
        checkpoint: The checkpoint of the query.
        chance: Decides the moments and targets.
        disks: The disks of the query, by their use.
        broker: The broker of its topics.
        store: The server of its serving store.
        workers: The processes of a cluster's workers.
        hurry: The longest pause after the start of a micro-batch was noticed.
    """

    victim: Victim
    name: str
    checkpoint: Path
    chance: random.Random
    disks: dict[str, Disk] = field(default_factory=dict)
    broker: Broker | None = None
    store: Server | None = None
    workers: list[int] = field(default_factory=list)
    hurry: float = 0.8

    @property
    def over(self) -> bool:
        return not self.victim.running or self.victim.has_rows(self.name)

    def wait_for_work(self) -> bool:
        """Wait for a running micro-batch and then a random time. Return False if the query has ended."""
        wait_until(lambda: self.over or Progress.of(self.checkpoint).under_way, 300, 0.005)
        time.sleep(self.chance.uniform(0, self.hurry))
        return not self.over


def strike_worker(scene: Scene) -> str | None:
    """Kill one Python worker, sometimes all of them."""
    workers = scene.victim.workers()
    if not workers:
        return None
    before = scene.victim.said(*LOST_TASK)
    chosen = workers if scene.chance.random() < 0.2 else [scene.chance.choice(workers)]
    if not [one for one in chosen if killed(one)]:
        return None
    struck = wait_until(lambda: scene.victim.said(*LOST_TASK) > before, 1, 0.1)
    return ("one worker" if len(chosen) == 1 else "all workers") if struck else None


def strike_executor(scene: Scene) -> str | None:
    """Kill one of the two executors. The cluster starts another."""
    running = [one for pid in scene.workers for one in executors(pid)]
    if not running:
        return None
    lost, tasks = scene.victim.said(*LOST_EXECUTOR), scene.victim.said(*LOST_TASK)
    if not killed(scene.chance.choice(running)):
        return None
    if not wait_until(lambda: scene.victim.said(*LOST_EXECUTOR) > lost, 15, 0.1):
        return None
    # The other executor continues meanwhile. The next kill waits until two run again.
    wait_until(lambda: scene.over or sum(len(executors(pid)) for pid in scene.workers) > 1, 60, 0.2)
    return "with a task" if scene.victim.said(*LOST_TASK) > tasks else "between tasks"


def strike_disk(scene: Scene) -> str | None:
    """Fill a disk or make it read-only until the query fails. Sometimes the query restarts once before the disk is mended."""
    where = scene.chance.choice(sorted(scene.disks))
    disk, how = scene.disks[where], scene.chance.choice(["full", "read-only"])
    hold = scene.victim.folder / "hold"
    before = len(scene.victim.failures(scene.name))
    hold.touch()

    def failed(times: int) -> bool:
        return scene.over or len(scene.victim.failures(scene.name)) >= before + times

    try:
        if how == "full":
            disk.fill()
        elif not disk.refuse():
            return None
        struck = wait_until(lambda: failed(1), 20)
        if struck and scene.chance.random() < 0.25:
            hold.unlink()
            time.sleep(0.2)
            hold.touch()
            wait_until(lambda: failed(2), 15)
    finally:
        disk.mend()
        hold.unlink(missing_ok=True)
    errors = scene.victim.failures(scene.name)[before:]
    if not errors or not any(word in errors[0] for word in DISK_WORDS):
        return None
    again = ", and at the next start" if len(errors) > 1 else ""
    return f"{how}: {where}{again}"


def strike_broker(scene: Scene) -> str | None:
    """Kill the broker, and start it again."""
    if scene.broker is None:
        raise RuntimeError("there is no broker to strike at")
    before = scene.victim.said(*LOST_BROKER)
    scene.broker.kill()
    time.sleep(scene.chance.uniform(0, 2))
    scene.broker.start()
    return "broker" if wait_until(lambda: scene.victim.said(*LOST_BROKER) > before, 3, 0.1) else None


def strike_store(scene: Scene) -> str | None:
    """Kill the server of the serving store, and start it again after the query failed."""
    if scene.store is None:
        raise RuntimeError("there is no store to strike at")
    hold, before = scene.victim.folder / "hold", len(scene.victim.failures(scene.name))
    hold.touch()
    scene.store.kill()
    try:
        wait_until(lambda: scene.over or len(scene.victim.failures(scene.name)) > before, 20)
    finally:
        scene.store.start()
        hold.unlink()
    errors = scene.victim.failures(scene.name)[before:]
    return "server" if errors and any(word in errors[0] for word in STORE_WORDS) else None


@dataclass(frozen=True)
class Kind:
    """A kind of kill that leaves the driver alive, so that one session runs all queries.

    Attributes:
        strike: Strikes once and returns a description, or None if nothing was struck.
        share: Its share of all kills.
        each: How many kills a cell gets if there are enough. Cheap kills get more.
        master: The master of the session, or None for a cluster of two workers.
        sinks: The sinks that the kind suits.
        disks: True if the query writes to separate disks.
        says: A description for the report.
    """

    strike: Callable[[Scene], str | None]
    share: float
    each: int = 2
    master: str | None = "local[2,4]"
    sinks: tuple[str, ...] = SINKS
    disks: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    says: str = ""


KINDS = {
    "broker": Kind(
        strike_broker, 0.06, sinks=("kafka",), says="`kill -9` of the Kafka broker, for source and sink, and its restart"
    ),
    "store": Kind(
        strike_store,
        0.06,
        master="local[2,1]",
        sinks=SERVING,
        says="`kill -9` of the PostgreSQL or Redis server until the query has failed, and its restart",
    ),
    "executor": Kind(strike_executor, 0.11, master=None, says="`kill -9` of one of two executors of a standalone cluster"),
    "disk": Kind(
        strike_disk,
        0.14,
        master="local[2,1]",
        disks=True,
        says="the disk of the checkpoint or of the sink is full, or takes no write, until the query has failed",
    ),
    "worker-fails": Kind(
        strike_worker, 0.12, master="local[2,1]", says="the same with one attempt: the query fails, and is started again"
    ),
    "worker": Kind(strike_worker, 0.45, each=6, says="`kill -9` of Python workers; Spark tries the task again"),
}
"""The kinds in the order of their turns, the rarest first."""
DRIVER, DRIVER_SHARE, DRIVER_EACH = "driver", 0.12, 3
DRIVER_SAYS = "`kill -9` of the driver and of everything that it started; a new process goes on"
