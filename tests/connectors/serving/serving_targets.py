"""Targets of the kills: a table of PostgreSQL and keys of Redis, whose addresses are in the environment."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import panestream as pst
from tests.connectors.kills import Target
from tests.connectors.serving.servers import PASSWORD

SECRET = "SERVING_PASSWORD"


class Paused:
    """A sink that stops its process once, at the last moment: its run may still write, and the store has not changed yet.

    It stops if the file that ``SERVING_PAUSE`` names exists, and deletes the file.
    """

    def apply(self, changes, batch_id):
        marker = Path(os.environ["SERVING_PAUSE"])
        if batch_id == 3 and marker.exists():
            marker.unlink()
            os.killpg(0, signal.SIGSTOP)
        super().apply(changes, batch_id)


class PausedPostgres(Paused, pst.sinks.PostgresSink):
    pass


class PausedRedis(Paused, pst.sinks.RedisSink):
    pass


def postgres_sink(spark, folder, kind=pst.sinks.PostgresSink):
    main = kind(os.environ["SERVING_DSN"], f"clicks_{folder.name}", keys=["user"], password_variable=SECRET)
    return {"main": main, "late": pst.ParquetSink(str(folder / "late_postgres"))}


def postgres_rows(spark, folder):
    import psycopg

    with psycopg.connect(os.environ["SERVING_DSN"], password=PASSWORD) as connection:
        question = f'SELECT "user", window_start, window_end, clicks, revenue FROM clicks_{folder.name}'
        return connection.execute(question).fetchall()


def redis_sink(spark, folder, kind=pst.sinks.RedisSink):
    main = kind(os.environ["SERVING_URL"], f"clicks_{folder.name}", keys=["user"], password_variable=SECRET)
    return {"main": main, "late": pst.ParquetSink(str(folder / "late_redis"))}


def redis_rows(spark, folder):
    import redis

    with redis.Redis.from_url(os.environ["SERVING_URL"], password=PASSWORD, decode_responses=True) as client:
        keys = [key for key in client.scan_iter(f"clicks_{folder.name}:*") if not key.endswith("#fence")]
        return [(key.split(":", 1)[1], *sorted(json.loads(client.get(key)).items())) for key in sorted(keys)]


# A late row merges sessions, so rows are inserted, updated and deleted.
POSTGRES = Target(postgres_sink, postgres_rows, changes=True, sessions=True)
REDIS = Target(redis_sink, redis_rows, changes=True, sessions=True)
PAUSED_POSTGRES = replace(POSTGRES, sinks=lambda spark, folder: postgres_sink(spark, folder, PausedPostgres))
PAUSED_REDIS = replace(REDIS, sinks=lambda spark, folder: redis_sink(spark, folder, PausedRedis))
