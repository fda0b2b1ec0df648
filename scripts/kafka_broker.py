"""A real Kafka broker of one node from Maven Central, for tests, benchmarks, and experiments.

    python scripts/kafka_broker.py [--port 9092] [--topic clicks:4 ...]

It runs with any Python that has PySpark, whose Ivy fetches the jars (once, about 60 MB, into .kafka). It listens on this machine
only, keeps its data in a temporary folder, and ends with Ctrl+C.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

VERSION = "4.1.2"
PACKAGES = (("org.apache.kafka", "kafka_2.13", VERSION), ("org.slf4j", "slf4j-simple", "1.7.36"))
"""The broker, and the library that it needs for logging."""
ROOT = Path(__file__).resolve().parent.parent
JARS = ROOT / ".kafka" / f"jars-{VERSION}"
START_SECONDS = 120

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
num.partitions=1
num.network.threads=2
num.io.threads=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
log.cleaner.backoff.ms=500
# Records may be of any year: as it was, one of long ago was gone when the broker next looked for what is too old.
log.retention.ms=-1
"""
_LOGGING = {"defaultLogLevel": "warn", "log.kafka.server.KafkaRaftServer": "info", "showDateTime": "true"}


class NoBrokerError(RuntimeError):
    """A broker is not available on this machine. The message has the reason."""


def java() -> str:
    """Return the Java that runs the broker, which is Spark's."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise NoBrokerError("there is no Java here: set JAVA_HOME")
    return found


def jars() -> Path:
    """Return the folder with all jars of the broker, and fetch them if they are missing.

    Raises:
        NoBrokerError: Maven Central cannot be reached, or PySpark is not here.
    """
    if JARS.is_dir():
        return JARS
    spec = importlib.util.find_spec("pyspark")
    ivy = sorted(Path(str(spec.origin)).parent.glob("jars/ivy-*.jar")) if spec is not None else []
    if not ivy:
        raise NoBrokerError("PySpark is not here, whose Ivy fetches the broker's jars")
    JARS.parent.mkdir(exist_ok=True)
    # Move the folder into place when it is complete, so that an interrupted download does not look like a complete one.
    with tempfile.TemporaryDirectory(dir=JARS.parent) as folder:
        for package in PACKAGES:
            command = [java(), "-jar", str(ivy[-1]), "-dependency", *package, "-types", "jar", "bundle", "-retrieve"]
            command.append(f"{folder}/jars/[artifact]-[revision].[ext]")
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode or not list(Path(folder, "jars").glob(f"{package[1]}-*.jar")):
                words = (done.stdout + done.stderr)[-500:]
                raise NoBrokerError(f"{' '.join(package)} cannot be had from Maven Central: {words}")
        if not JARS.is_dir():
            Path(folder, "jars").rename(JARS)
    return JARS


def free_ports(count: int) -> list[int]:
    """Return free ports of this machine."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


@dataclass
class Broker:
    """A broker. After a kill it can start again on the same ports with its data.

    Attributes:
        folder: the folder of its data and log.
        port: its port for clients, or 0 for a free port.
        memory: the heap of its Java, in Java's syntax.
    """

    folder: Path
    port: int = 0
    memory: str = "384m"
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        controller, free = free_ports(2)
        self.port = self.port or free
        data = self.folder / "data"
        self._settings.write_text(_PROPERTIES.format(port=self.port, controller=controller, data=data))
        if not data.exists():
            # An id that starts with a dash would be an option.
            identity = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")
            self._run_tool("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._settings))

    @property
    def servers(self) -> str:
        """Return the address for ``bootstrap.servers`` of clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "broker.log"

    def start(self) -> None:
        """Start it, and wait until it accepts requests.

        Raises:
            RuntimeError: it ended, or was not ready in time. The message has the end of its log.
        """
        known = self._times_started()
        with self.log.open("ab") as log:
            command = self._command("kafka.Kafka", str(self._settings))
            # Use a separate session, so that Ctrl+C in a terminal goes only to the caller.
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
        deadline = time.monotonic() + START_SECONDS
        while self._times_started() == known:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the broker did not start: {self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it normally."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """``kill -9``."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(how)
            self.process.wait(timeout=60)

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    def _times_started(self) -> int:
        return self.log.read_text(errors="replace").count("Kafka Server started") if self.log.exists() else 0

    def _command(self, program: str, *arguments: str) -> list[str]:
        logging = [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in _LOGGING.items()]
        # Use only the first tier of the compiler, which halves the start time. The broker's speed is not measured.
        tuning = [f"-Xmx{self.memory}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *logging]
        return [java(), *tuning, "-cp", f"{jars()}/*", program, *arguments]

    def _run_tool(self, program: str, *arguments: str) -> None:
        done = subprocess.run(self._command(program, *arguments), capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise RuntimeError(f"{program} failed: {(done.stdout + done.stderr)[-2000:]}")


def make_topics(broker: Broker, topics: Sequence[str]) -> None:
    """Make topics, each ``NAME:PARTITIONS``. This needs the package confluent-kafka."""
    from confluent_kafka.admin import AdminClient, NewTopic

    wanted = [NewTopic(name, int(count or 1), 1) for name, _, count in (topic.partition(":") for topic in topics)]
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for made in admin.create_topics(wanted).values():
        made.result(timeout=60)


def main() -> None:
    """Run a broker until Ctrl+C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="where it listens (default: a free port)")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME:PARTITIONS", help="a topic to make")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafka-", ignore_cleanup_errors=True) as folder:
        try:
            broker = Broker(Path(folder), options.port)
            broker.start()
        except RuntimeError as error:
            sys.exit(str(error))
        # React to `kill` in the same way, so that the broker ends with this process.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            if options.topic:
                make_topics(broker, options.topic)
            print(f"Kafka {VERSION} at {broker.servers} (Ctrl+C ends it and deletes its data)", flush=True)
            broker.process.wait()  # type: ignore[union-attr]
        except KeyboardInterrupt:
            pass
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
