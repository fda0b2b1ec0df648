"""Upsert outputs into a table of PostgreSQL: a micro-batch and its fence in one transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from panestream.errors import PanestreamError, SinkError
from panestream.spark.failures import first_sentence
from panestream.spark.sinks.serving import (
    Fence,
    ServingChanges,
    ServingSink,
    as_json,
    check_address,
    fenced,
    is_nested,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FENCES = "panestream_fences"
"""The table with a fence for each table of results, in its schema."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)?")
_MAX_NAME_BYTES = 63
_UPSERTS, _DELETES = "panestream_upserts", "panestream_deletes"
_SETTINGS = "-c idle_in_transaction_session_timeout=60s -c lock_timeout=90s"
"""The server ends the transaction of a paused copy, which would keep the fence locked."""
_TYPES = (
    (pt.is_boolean, "boolean"),
    (pt.is_int8, "smallint"),
    (pt.is_int16, "smallint"),
    (pt.is_int32, "integer"),
    (pt.is_int64, "bigint"),
    (pt.is_float32, "real"),
    (pt.is_float64, "double precision"),
    (pt.is_string, "text"),
    (pt.is_large_string, "text"),
    (pt.is_binary, "bytea"),
    (pt.is_large_binary, "bytea"),
    (pt.is_date, "date"),
    (pt.is_nested, "jsonb"),
)


@dataclass(frozen=True)
class PostgresSink(ServingSink):
    """Upserts into a PostgreSQL table by key and window, exactly once: a micro-batch is one transaction.

    Readers see a micro-batch whole or not at all. The transaction also checks and updates the fence of the table, a row of
    ``panestream_fences``. A copy of the query that another copy has replaced gets FencedError, even if it was paused during its
    write. A micro-batch that is run again upserts the same rows.

    Rows are plain results, or rows of ``.changelog()``: ``delete`` removes the row. Of rolling values the latest row of each key
    stays. The first micro-batch creates the table with a primary key, if it does not exist. An existing table needs a primary
    key or a unique index on exactly the key columns (with ``window_start`` and ``window_end`` for windows). Arrays, structs and
    maps become ``jsonb``. Key columns must not be null.

    The driver collects the rows of a micro-batch as Arrow and copies them into a temporary table. It needs
    ``pip install 'panestream[postgres]'``; executors need nothing.

    Args:
        dsn: how to connect, without a password: ``host=db dbname=shop user=etl`` or ``postgresql://etl@db/shop``.
        table: ``table`` or ``schema.table``.
        keys: the key columns. For ``main`` the window's columns are added.
        password_variable: the environment variable with the password, which is read on the driver at each connection. If None,
            libpq looks as usual (``PGPASSWORD``, ``~/.pgpass``).

    Raises:
        SinkError: an argument is invalid, or the DSN contains a password.

    Flink: the JDBC connector's upsert mode.

    >>> PostgresSink("host=db dbname=shop user=etl", "spending", keys=["card"]).describe()
    'PostgreSQL table spending'
    """

    dsn: str = field(repr=False)
    table: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_address(self.dsn, "a DSN", "PostgresSink")
        if not isinstance(self.table, str) or not _NAME.fullmatch(self.table):
            raise SinkError(f"a PostgresSink needs a table as 'table' or 'schema.table' in plain names, got {self.table!r}")
        for name in self.table.split("."):
            _check_length(name, self.describe(), "table")

    def place(self, spark: SparkSession) -> str:
        return f"{self.describe()} at {self.dsn.strip()}"

    def check_columns(self, names: Sequence[str]) -> None:
        super().check_columns(names)
        for name in names:
            _check_length(name, self.describe(), "column")

    def stored_fence(self) -> Fence | None:
        with self.connection() as connection:
            return self._fence(connection) if self._has_fences(connection) else None

    def on_first_commit(self, df: DataFrame) -> None:
        from psycopg import sql

        with self.connection() as connection:
            connection.execute(
                sql.SQL("UPDATE {} SET previous = '' WHERE target = %s AND query = %s AND run = %s AND name = %s").format(
                    self._fences
                ),
                [self.table, *self._holder],
            )

    def claim(self, schema: ServingChanges) -> None:
        from psycopg import sql

        with self.connection() as connection:
            # Two queries that start at the same moment create the tables one after another.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [FENCES])
            connection.execute(
                sql.SQL(
                    "CREATE TABLE IF NOT EXISTS {} (target text PRIMARY KEY, query text NOT NULL, previous text NOT NULL, "
                    "run bigint NOT NULL, name text NOT NULL, batch bigint NOT NULL)"
                ).format(self._fences)
            )
            found = self._fence(connection, lock=True)
            mine = Fence.of(self.run) if found is None else found.taken_by(self.run, self.describe())
            columns = [
                sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(type_of(column, self.describe())))
                for column in schema.schema
            ]
            key = sql.SQL(", ").join(map(sql.Identifier, schema.identity))
            connection.execute(
                sql.SQL("CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({}))").format(
                    self._table, sql.SQL(", ").join(columns), key
                )
            )
            connection.execute(
                sql.SQL(
                    "INSERT INTO {} VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (target) DO UPDATE SET query = excluded.query, "
                    "previous = excluded.previous, run = excluded.run, name = excluded.name, batch = excluded.batch"
                ).format(self._fences),
                [self.table, mine.query, mine.previous, mine.run, mine.name, mine.batch],
            )

    def apply(self, changes: ServingChanges, batch_id: int) -> None:
        from psycopg import sql

        with self.connection() as connection:
            # Rows are copied before the fence is locked: a copy that is paused here does not block another.
            nested = {place for place, column in enumerate(changes.schema) if is_nested(column.type)}
            types = changes.schema.types
            rows = [
                [
                    as_json(value, types[place]) if place in nested and value is not None else value
                    for place, value in enumerate(row)
                ]
                for row in changes.upserts
            ]
            self._copy(connection, _UPSERTS, changes.schema.names, rows)
            self._copy(connection, _DELETES, changes.identity, changes.deletes)
            found = self._fence(connection, lock=True)
            if found is None or not found.is_of(self.run):
                raise fenced(self.describe())
            if changes.deletes:
                match = sql.SQL(" AND ").join(sql.SQL("t.{0} = d.{0}").format(sql.Identifier(name)) for name in changes.identity)
                connection.execute(
                    sql.SQL("DELETE FROM {} AS t USING {} AS d WHERE {}").format(self._table, sql.Identifier(_DELETES), match)
                )
            if rows:
                connection.execute(self._upsert(changes))
            connection.execute(sql.SQL("UPDATE {} SET batch = %s WHERE target = %s").format(self._fences), [batch_id, self.table])

    def lookup(self, *key: Any) -> dict[str, Any] | None:
        """Return the current row of a key by column, or None if there is no row. Starts no Spark.

        Args:
            *key: the values of the key columns. Results of windows need the window's start and end, too.

        Raises:
            SinkError: the number of values is wrong, or PostgreSQL refuses the question.
        """
        from psycopg import rows, sql

        columns = key_columns(self.keys, key, self.describe())
        match = sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in columns)
        with self.connection() as connection:
            cursor = connection.cursor(row_factory=rows.dict_row)
            found = cursor.execute(sql.SQL("SELECT * FROM {} WHERE {}").format(self._table, match), list(key)).fetchone()
        return None if found is None else dict(found)

    def describe(self) -> str:
        return f"PostgreSQL table {self.table}"

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Connect for one transaction, which is committed at the end. Errors of PostgreSQL become SinkError."""
        try:
            import psycopg
        except ModuleNotFoundError as error:
            raise SinkError("a PostgresSink needs psycopg, which is not installed: pip install 'panestream[postgres]'") from error
        password = self.password()
        given = {} if password is None else {"password": password}
        try:
            with psycopg.connect(self.dsn, options=_SETTINGS, connect_timeout=20, **given) as connection:
                yield connection
        except psycopg.errors.InvalidColumnReference as error:
            raise SinkError(
                f"{self.describe()} has no primary key or unique index on exactly its key columns ({', '.join(self.keys)}, for "
                f"windows also window_start and window_end): add one (ALTER TABLE ... ADD PRIMARY KEY)"
            ) from error
        except psycopg.Error as error:
            said = first_sentence(error)
            column = f" (column {error.diag.column_name})" if error.diag.column_name else ""
            raise SinkError(f"{self.describe()}{column}: {said}") from error
        except ValueError as error:
            if isinstance(error, PanestreamError):
                raise
            raise SinkError(f"{self.describe()}: a value of an array, struct or map is not JSON ({error}): replace it") from error

    @property
    def _holder(self) -> list[Any]:
        mine = Fence.of(self.run)
        return [mine.query, mine.run, mine.name]

    @property
    def _table(self) -> Any:
        from psycopg import sql

        return sql.Identifier(*self.table.split("."))

    @property
    def _fences(self) -> Any:
        from psycopg import sql

        return sql.Identifier(*self.table.split(".")[:-1], FENCES)

    def _has_fences(self, connection: Any) -> bool:
        name = ".".join(f'"{part}"' for part in (*self.table.split(".")[:-1], FENCES))
        return connection.execute("SELECT to_regclass(%s)", [name]).fetchone()[0] is not None

    def _fence(self, connection: Any, *, lock: bool = False) -> Fence | None:
        from psycopg import sql

        question = sql.SQL("SELECT query, previous, run, name, batch FROM {} WHERE target = %s{}")
        locked = sql.SQL(" FOR UPDATE" if lock else "")
        found = connection.execute(question.format(self._fences, locked), [self.table]).fetchone()
        return None if found is None else Fence(*found)

    def _copy(self, connection: Any, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        from psycopg import sql

        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        connection.execute(
            sql.SQL("CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
                sql.Identifier(name), names, self._table
            )
        )
        with connection.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(name), names)) as copy:
            for row in rows:
                copy.write_row(row)

    def _upsert(self, changes: ServingChanges) -> Any:
        from psycopg import sql

        names = sql.SQL(", ").join(map(sql.Identifier, changes.schema.names))
        changed = [name for name in changes.schema.names if name not in changes.identity]
        update = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in changed)
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) {}").format(
            self._table,
            names,
            names,
            sql.Identifier(_UPSERTS),
            sql.SQL(", ").join(map(sql.Identifier, changes.identity)),
            sql.SQL("DO UPDATE SET {}").format(update) if changed else sql.SQL("DO NOTHING"),
        )


def key_columns(keys: Sequence[str], values: Sequence[Any], place: str) -> list[str]:
    """Return the columns for the values of a key, with or without a window; raises SinkError for another number of values."""
    if len(values) == len(keys):
        return list(keys)
    if len(values) == len(keys) + 2:
        return [*keys, "window_start", "window_end"]
    raise SinkError(f"{place} has the key columns {', '.join(keys)} (for windows also start and end), got {len(values)} values")


def type_of(column: pa.Field, place: str) -> str:
    """Return PostgreSQL's type for a column.

    >>> type_of(pa.field("price", pa.decimal128(12, 2)), "PostgreSQL table t")
    'numeric(12, 2)'
    """
    if pt.is_decimal(column.type):
        return f"numeric({column.type.precision}, {column.type.scale})"
    if pt.is_timestamp(column.type):
        return "timestamp" if column.type.tz is None else "timestamptz"
    for is_type, name in _TYPES:
        if is_type(column.type):
            return name
    raise SinkError(f"{place}: the column {column.name!r} is of type {column.type}: cast it to a number or a string first")


def _check_length(name: str, place: str, kind: str) -> None:
    if len(name.encode()) > _MAX_NAME_BYTES:
        raise SinkError(f"{place}: the {kind} name {name!r} is longer than PostgreSQL's {_MAX_NAME_BYTES} bytes: rename it")
