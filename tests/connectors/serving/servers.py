"""Real servers of PostgreSQL and Redis for tests. Each keeps its data in a temporary folder and listens on this machine only."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

PASSWORD = "a-password-of-a-test"
START_SECONDS = 60


class NoServerError(RuntimeError):
    """A server is not available on this machine. The message has the reason."""


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Server:
    """A process with a folder and a port, which can be killed and started again."""

    def __init__(self, name: str) -> None:
        self.folder, self.port = Path(tempfile.mkdtemp(prefix=f"panestream-{name}-")), free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def user(self) -> str | None:
        return None

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, user=self.user(), cwd="/")
        until = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise NoServerError(f"the server did not start: {(self.folder / 'server.log').read_text()[-800:]}")
            time.sleep(0.1)

    @property
    def address(self) -> str:
        """How a sink connects: a DSN or a URL, without the password."""
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError

    def kill(self) -> None:
        """Kill the server and all its processes with ``kill -9``."""
        if self.process is None:
            raise RuntimeError("the server does not run")
        one = psutil.Process(self.process.pid)
        for each in (one, *one.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Postgres(Server):
    """PostgreSQL with the user and database ``etl``. As root it runs as the user ``postgres``, because it refuses root."""

    def __init__(self) -> None:
        self.binaries = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
        if self.binaries is None and (found := shutil.which("initdb")):
            self.binaries = Path(found).parent
        if self.binaries is None:
            raise NoServerError("there is no PostgreSQL server here (Debian: apt-get install postgresql)")
        super().__init__("postgres")
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if self.user() is not None:
            number = pwd.getpwnam("postgres").pw_uid
            for path in (self.folder, password):
                os.chown(path, number, -1)
        words = ["-D", str(self.folder / "data"), "-U", "etl", "--auth=scram-sha-256", f"--pwfile={password}", "--no-sync"]
        subprocess.run(
            [str(self.binaries / "initdb"), *words, "--encoding=UTF8", "--locale=C"],
            check=True, capture_output=True, user=self.user(), cwd="/",
        )  # fmt: skip

    def user(self) -> str | None:
        return "postgres" if os.geteuid() == 0 else None

    def command(self) -> list[str]:
        data, words = str(self.folder / "data"), ["-h", "127.0.0.1", "-k", str(self.folder)]
        return [str(self.binaries / "postgres"), "-D", data, "-p", str(self.port), *words]  # type: ignore[operator]

    @property
    def address(self) -> str:
        return f"host=127.0.0.1 port={self.port} dbname=postgres user=etl"

    def answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address, password=PASSWORD, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def rows(self, question: str) -> list[tuple]:
        import psycopg

        with psycopg.connect(self.address, password=PASSWORD, autocommit=True) as connection:
            cursor = connection.execute(question)
            return cursor.fetchall() if cursor.description else []


class Redis(Server):
    """Redis that writes each change to its log before it answers."""

    def __init__(self) -> None:
        if shutil.which("redis-server") is None:
            raise NoServerError("there is no Redis server here (Debian: apt-get install redis-server)")
        super().__init__("redis")

    def command(self) -> list[str]:
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        return [
            "redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), *durable,
            "--requirepass", PASSWORD,
        ]  # fmt: skip

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self):
        import redis

        return redis.Redis.from_url(self.address, password=PASSWORD, decode_responses=True)

    def answers(self) -> bool:
        import redis

        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False
