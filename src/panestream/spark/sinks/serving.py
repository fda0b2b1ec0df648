"""The part that sinks of serving stores share: the changes of a micro-batch by key, and the fence in the store.

A fence is a record in the store itself, with the run that may write. A store checks it in the same step in which it changes rows,
so a copy of the query that was paused between its own check and its write cannot replace newer values.
"""

from __future__ import annotations

import base64
import json
import os
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from panestream.engine.plan import DELETE, MAIN, OP_COLUMN, UPDATE_BEFORE
from panestream.errors import FencedError, SinkError, warn
from panestream.spark.sinks.base import QueryRunInfo, Sink
from panestream.spark.sinks.keys import check_key_columns, check_keys, key_and_window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PASSWORD = re.compile(r"password\s*=|//[^@]*:[^@]*@", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFUSED = (pt.is_duration, pt.is_interval, pt.is_time)


@dataclass(frozen=True)
class Fence:
    """The record in a store: the run that holds a place, and the last micro-batch there.

    Attributes:
        query: the identity of the query.
        previous: the query that this one succeeds, until the first micro-batch is committed; otherwise ``""``.
        run: the number of the run, 0 for a batch.
        name: the name of the run.
        batch: the number of the last micro-batch, or -1.
    """

    query: str
    previous: str
    run: int
    name: str
    batch: int

    @classmethod
    def of(cls, run: QueryRunInfo, previous: str = "", batch: int = -1) -> Fence:
        """Return the record of a run."""
        number, name = run.epoch.rank if run.epoch is not None else (0, "")
        return cls(run.query, previous, number, name, batch)

    def is_of(self, run: QueryRunInfo) -> bool:
        """Return whether this run, and no other, may write."""
        return (self.query, self.run, self.name) == (run.query, *(run.epoch.rank if run.epoch is not None else (0, "")))

    def taken_by(self, run: QueryRunInfo, place: str) -> Fence:
        """Return the record after this run takes the place.

        Raises:
            FencedError: a later run of the query holds the place.
            SinkError: another query holds it.
        """
        self.check_query(run, place)
        mine = Fence.of(run, batch=self.batch)
        if self.query == run.query:
            if (self.run, self.name) > (mine.run, mine.name):
                raise fenced(place)
            return Fence.of(run, self.previous, self.batch)
        return Fence.of(run, self.query, self.batch)

    def check_query(self, run: QueryRunInfo, place: str) -> None:
        """Raise SinkError if the place belongs to another query."""
        if self.query not in run.queries and (not self.previous or self.previous not in run.queries):
            raise SinkError(
                f"{place} belongs to another query ({self.query or 'a batch'}), as its fence says: choose another place, or "
                "delete its rows and the fence if that query is no longer needed"
            )


def fenced(place: str) -> FencedError:
    """Return the error for a run whose place a later run has taken."""
    return FencedError(
        f"another copy of this query was started later and writes to {place}: this copy stops, and has changed no row since. Run "
        "only one copy for each checkpoint"
    )


def check_age(fence: Fence | None, run: QueryRunInfo, place: str) -> None:
    """Refuse a place that lost its fence, and warn of one that is older than the checkpoint."""
    if fence is None and run.written:
        raise SinkError(
            f"{place} has no fence, and this query committed micro-batches to it: the store lost its data, or another store "
            "answers. Restore it from a copy, or start with a new checkpoint, which computes everything again"
        )
    if fence is not None and fence.batch < run.began:
        warn(
            f"{place} ends with micro-batch {fence.batch}, and the checkpoint committed micro-batch {run.began} to it: the store "
            "was put back from an older copy. Lost rows come again only with a new checkpoint"
        )


@dataclass(frozen=True)
class ServingChanges:
    """The changes of a micro-batch: at most one for each key.

    Attributes:
        schema: the columns that are stored.
        identity: the columns that identify a row.
        upserts: the new values of rows, in the order of the columns.
        deletes: the keys of deleted rows, in the order of ``identity``.
    """

    schema: pa.Schema
    identity: Sequence[str]
    upserts: Sequence[Sequence[Any]] = ()
    deletes: Sequence[Sequence[Any]] = ()


@dataclass(frozen=True)
class ServingSink(Sink):
    """What the sinks of serving stores have in common. Subclasses write :class:`ServingChanges` and keep a :class:`Fence`."""

    keys: Sequence[str] = field(kw_only=True)
    password_variable: str | None = field(default=None, kw_only=True)
    run: QueryRunInfo = field(default_factory=QueryRunInfo, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        check_keys(self.keys, f"a {type(self).__name__}")
        if not self.keys:
            raise SinkError(f"a {type(self).__name__} needs at least one key column, such as keys=['user']")
        if self.password_variable is not None and not _VARIABLE.fullmatch(self.password_variable):
            raise SinkError("password_variable is the name of an environment variable, such as DB_PASSWORD, not the password")

    def check_columns(self, names: Sequence[str]) -> None:
        check_key_columns(self.keys, names, f"the rows for {self.describe()}")

    def open(self, spark: SparkSession, run: QueryRunInfo) -> Sink:
        found = self.stored_fence()
        if found is not None:
            found.check_query(run, self.describe())
        check_age(found, run, self.describe())
        return replace(self, run=run)

    def begin(self, df: DataFrame, batch_id: int) -> None:
        self.run.check(df.sparkSession)
        self.claim(self.changes(df.limit(0).toArrow()))

    def write(self, df: DataFrame, batch_id: int | None) -> None:
        changes = self.changes(df.toArrow())
        self.run.check(df.sparkSession)
        if batch_id is None:
            self.claim(replace(changes, upserts=(), deletes=()))
        self.apply(changes, -1 if batch_id is None else batch_id)

    @abstractmethod
    def stored_fence(self) -> Fence | None:
        """Return the fence in the store, or None if there is none."""

    @abstractmethod
    def claim(self, schema: ServingChanges) -> None:
        """Take the place for this run, and prepare it for rows of these columns."""

    @abstractmethod
    def apply(self, changes: ServingChanges, batch_id: int) -> None:
        """Apply the changes of a micro-batch, if this run still holds the place. Otherwise raise FencedError."""

    @property
    def keeps_last(self) -> bool:
        return True

    def identity(self, names: Sequence[str]) -> list[str]:
        """Return the columns that identify a row: the keys, and for windows their start and end."""
        return key_and_window(self.keys, names) if self.run.output == MAIN else list(self.keys)

    def changes(self, rows: pa.Table) -> ServingChanges:
        """Return the changes that these rows mean.

        Raises:
            SinkError: two rows have one key and no order, a key is null, or a column has a type that no store takes.
        """
        place = self.describe()
        has_changes = OP_COLUMN.name in self.run.added and OP_COLUMN.name in rows.column_names
        operations = rows.column(OP_COLUMN.name).to_pylist() if has_changes else [None] * rows.num_rows
        rows = rows.drop_columns([OP_COLUMN.name]) if has_changes else rows
        names, identity = rows.column_names, self.identity(rows.column_names)
        check_types(rows.schema, place)
        at = [names.index(name) for name in identity]
        order = names.index(self.run.holds_from) if self.run.holds_from in names else None
        columns = [plain_values(column) for column in rows.columns]
        last: dict[tuple[Any, ...], tuple[str | None, tuple[Any, ...]]] = {}
        for op, row in zip(operations, zip(*columns, strict=True), strict=True):
            if op == UPDATE_BEFORE:
                continue
            key = tuple(row[index] for index in at)
            if None in key:
                name = identity[key.index(None)]
                raise SinkError(f"{place}: the key column {name!r} is null in a row: replace it (F.coalesce) or filter such rows")
            if key in last:
                if order is None:
                    told = ", ".join(f"{name} = {value}" for name, value in zip(identity, key, strict=True))
                    raise SinkError(
                        f"{place}: a micro-batch has two rows for one key ({told}), and their order is unknown. Run the window "
                        "on columns (explain() has the reasons against it), or add the columns that tell the rows apart to keys"
                    )
                if row[order] < last[key][1][order]:
                    continue
            last[key] = (op, row)
        upserts = [row for op, row in last.values() if op != DELETE]
        return ServingChanges(rows.schema, identity, upserts, [key for key, (op, _) in last.items() if op == DELETE])

    def password(self) -> str | None:
        """Return the password from the environment, or None without a variable."""
        if self.password_variable is None:
            return None
        found = os.environ.get(self.password_variable)
        if found is None:
            raise SinkError(f"{self.describe()}: the environment variable {self.password_variable} with the password is not set")
        return found


def check_address(address: object, argument: str, sink: str) -> None:
    """Raise SinkError for an address that is empty or contains a password."""
    if not isinstance(address, str) or not address.strip():
        raise SinkError(f"a {sink} needs {argument} as a text, got {type(address).__name__}")
    if _PASSWORD.search(address):
        raise SinkError(
            f"a {sink}: {argument} contains a password, which would appear in logs: remove it, and name the environment variable "
            "that holds it (password_variable='DB_PASSWORD')"
        )


def check_types(schema: pa.Schema, place: str) -> None:
    """Raise SinkError for a column whose type no store takes."""
    for column in schema:
        if any(is_refused(column.type) for is_refused in _REFUSED):
            raise SinkError(
                f"{place}: the column {column.name!r} is of type {column.type}: cast it to a number or a string first"
            )


def is_nested(type_: pa.DataType) -> bool:
    """Return whether a column becomes JSON."""
    return bool(pt.is_nested(type_))


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as Python's; times of a zone are in UTC."""
    if pt.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp("us", "UTC"))
    return list(column.to_pylist())


def as_json(value: Any, type_: pa.DataType | None = None) -> str:
    """Return a value as JSON: times in ISO 8601 and UTC, decimals as strings, bytes in base64, maps as objects.

    Raises:
        ValueError: a number is NaN or infinite, which JSON does not have.

    >>> as_json({"spent": Decimal("1.50"), "at": datetime(2026, 3, 2, 9, tzinfo=timezone.utc)})
    '{"spent": "1.50", "at": "2026-03-02T09:00:00.000000Z"}'
    """
    return json.dumps(_for_json(value, type_), ensure_ascii=False, allow_nan=False, default=_text_of)


def _for_json(value: Any, type_: pa.DataType | None) -> Any:
    if value is None or type_ is None or not pt.is_nested(type_):
        return value
    if pt.is_map(type_):
        return {_map_key(key): _for_json(item, type_.item_type) for key, item in value}
    if pt.is_struct(type_):
        return {inner.name: _for_json(value[inner.name], inner.type) for inner in type_}
    return [_for_json(item, type_.value_type) for item in value]


def _map_key(key: Any) -> str:
    return key if isinstance(key, str) else str(key) if isinstance(key, int) else _text_of(key)


def _text_of(value: Any) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal | float):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def as_record(row: Mapping[str, Any], schema: pa.Schema) -> str:
    """Return a row as one JSON object."""
    return as_json({name: _for_json(value, schema.field(name).type) for name, value in row.items()})
