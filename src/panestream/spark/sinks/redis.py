"""Upsert outputs into Redis: one JSON value per key, written by a script that checks the fence in the same step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from panestream.errors import SinkError
from panestream.spark.failures import first_sentence
from panestream.spark.sinks.serving import (
    Fence,
    ServingChanges,
    ServingSink,
    as_json,
    as_record,
    check_address,
    fenced,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHUNK = 1000
"""The maximum number of keys of one script, which takes about a millisecond and blocks Redis that long."""
_SWAP = """
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[1] then return found end
redis.call('SET', KEYS[1], ARGV[2])
return false
"""
"""Replace a fence if it is still the one that was read. Returns nil, or the fence that is there."""
_APPLY = """
local found = redis.call('GET', KEYS[1]) or ''
if found == '' then return found end
local fence = cjson.decode(found)
if fence.query ~= ARGV[1] or tostring(fence.run) ~= ARGV[2] or fence.name ~= ARGV[3] then return found end
for i = 2, #KEYS do
    local value = ARGV[4 + i]
    if value == '' then
        redis.call('DEL', KEYS[i])
    elseif ARGV[5] == '0' then
        redis.call('SET', KEYS[i], value)
    else
        redis.call('SET', KEYS[i], value, 'EX', ARGV[5])
    end
end
if ARGV[4] ~= '' then
    fence.batch = tonumber(ARGV[4])
    redis.call('SET', KEYS[1], cjson.encode(fence))
end
return false
"""
"""Write or delete keys if the run holds the place. Returns nil, or the fence that is there."""


@dataclass(frozen=True)
class RedisSink(ServingSink):
    """Upserts into Redis by key and window: the row of a key is one JSON value.

    The key of card ``ann`` with the prefix ``spending`` is ``spending:ann``, and ``GET`` returns all columns as JSON. Times are
    ISO 8601 in UTC, decimals are strings. A key with several columns joins them by ``:``; in the values ``:`` and other special
    characters are percent-encoded.

    Redis runs a script per 1,000 rows. The script checks the fence (``spending`` followed by ``:#fence``) and writes in one
    atomic step, so a copy of the query that another copy has replaced gets FencedError and changes nothing. A micro-batch of
    more rows is several steps: in between a reader finds some keys with new values and others with the previous ones, but never
    half a row. A micro-batch that is run again writes the same values.

    Rows are plain results, or rows of ``.changelog()``: ``delete`` removes the key. Of rolling values the latest row stays.
    Results of windows have the window's start and end in their key, so give them an ``expire_seconds``.

    Redis keeps what the sink wrote only as its own settings promise. With ``appendfsync everysec`` a crash of the server loses
    up to a second, which no restart of the query writes again. ``appendfsync always`` loses nothing. In a cluster all keys of
    a script must be in one slot: put the prefix in braces, ``{spending}``.

    The driver collects the rows of a micro-batch as Arrow. It needs ``pip install 'panestream[redis]'``; executors need nothing.

    Args:
        url: ``redis://host:6379/0``, ``rediss://`` with TLS, or ``unix:///path``, without a password.
        prefix: the beginning of all keys.
        keys: the key columns. For ``main`` the window's columns are added.
        password_variable: the environment variable with the password, which is read on the driver at each connection.
        expire_seconds: how long a key stays after its last change, or None for ever.

    Raises:
        SinkError: an argument is invalid, or the URL contains a password.

    >>> RedisSink("redis://localhost:6379/0", "spending", keys=["card"]).key_of(["ann:1"])
    'spending:ann%3A1'
    """

    url: str = field(repr=False)
    prefix: str
    expire_seconds: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_address(self.url, "a URL", "RedisSink")
        if not self.url.startswith(("redis://", "rediss://", "unix://")):
            raise SinkError("a RedisSink needs a URL such as redis://localhost:6379/0")
        if not isinstance(self.prefix, str) or not self.prefix:
            raise SinkError(f"a RedisSink needs a prefix for its keys, such as 'spending', got {self.prefix!r}")
        seconds = self.expire_seconds
        if seconds is not None and (type(seconds) is not int or seconds < 1):
            raise SinkError(f"expire_seconds must be a number of seconds from 1 on, got {seconds!r}")

    def place(self, spark: SparkSession) -> str:
        return f"{self.describe()} at {self.url.strip()}"

    def stored_fence(self) -> Fence | None:
        with self.connection() as connection:
            return self._fence(connection)[1]

    def on_first_commit(self, df: DataFrame) -> None:
        with self.connection() as connection:
            text, found = self._fence(connection)
            if found is not None and found.is_of(self.run):
                connection.eval(_SWAP, 1, self.fence_key, text, _text_of(replace(found, previous="")))

    def claim(self, schema: ServingChanges) -> None:
        with self.connection() as connection:
            while True:
                text, found = self._fence(connection)
                mine = Fence.of(self.run) if found is None else found.taken_by(self.run, self.describe())
                if connection.eval(_SWAP, 1, self.fence_key, text, _text_of(mine)) is None:
                    return

    def apply(self, changes: ServingChanges, batch_id: int) -> None:
        names = changes.schema.names
        at = [names.index(name) for name in changes.identity]
        try:
            values = {
                self.key_of([row[place] for place in at]): as_record(dict(zip(names, row, strict=True)), changes.schema)
                for row in changes.upserts
            }
        except ValueError as error:
            raise SinkError(f"{self.describe()}: a number is NaN or infinite, which JSON does not have: replace it") from error
        values.update({self.key_of(key): "" for key in changes.deletes})
        rows, mine = list(values.items()), Fence.of(self.run)
        holder = [mine.query, str(mine.run), mine.name]
        with self.connection() as connection:
            script = connection.register_script(_APPLY)
            for start in range(0, max(len(rows), 1), _CHUNK):
                chunk = rows[start : start + _CHUNK]
                # The last chunk advances the fence: its number is of a micro-batch that is there whole.
                done = str(batch_id) if start + _CHUNK >= len(rows) else ""
                arguments = [*holder, done, str(self.expire_seconds or 0), *(value for _, value in chunk)]
                there = script(keys=[self.fence_key, *(key for key, _ in chunk)], args=arguments)
                if there == b"":
                    raise SinkError(
                        f"{self.describe()} lost its fence while the query ran: Redis was emptied, or evicts keys (set "
                        "maxmemory-policy noeviction). Start with a new checkpoint, which computes everything again"
                    )
                if there is not None:
                    raise fenced(self.describe())

    def lookup(self, *key: Any) -> dict[str, Any] | None:
        """Return the current row of a key by column, as JSON has it, or None if there is no row. Starts no Spark.

        Args:
            *key: the values of the key columns. Results of windows need the window's start and end, too.

        Raises:
            SinkError: Redis does not answer.
        """
        with self.connection() as connection:
            found = connection.get(self.key_of(key))
        return None if found is None else json.loads(found)

    def key_of(self, values: Sequence[Any]) -> str:
        """Return the key in Redis for the values of the key columns."""
        return ":".join([self.prefix, *(quote(_plain(value), safe="") for value in values)])

    @property
    def fence_key(self) -> str:
        """The key of the fence. No row has it, since ``#`` is encoded in values."""
        return f"{self.prefix}:#fence"

    def describe(self) -> str:
        return f"Redis keys {self.prefix}:*"

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Connect; errors of Redis become SinkError."""
        try:
            import redis
        except ModuleNotFoundError as error:
            raise SinkError("a RedisSink needs redis-py, which is not installed: pip install 'panestream[redis]'") from error
        password = self.password()
        given = {} if password is None else {"password": password}
        try:
            with redis.Redis.from_url(self.url, socket_timeout=60, socket_connect_timeout=20, **given) as connection:
                yield connection
        except redis.RedisError as error:
            raise SinkError(f"{self.describe()}: {first_sentence(error)}") from error

    def _fence(self, connection: Any) -> tuple[str, Fence | None]:
        found = connection.get(self.fence_key)
        text = "" if found is None else found.decode()
        return text, Fence(**json.loads(text)) if text else None


def _text_of(fence: Fence) -> str:
    return json.dumps(asdict(fence))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = as_json(value)
    return json.loads(text) if isinstance(value, datetime | date | bytes) else text
