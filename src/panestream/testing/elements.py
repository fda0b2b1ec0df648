"""Converts the dicts of a test to the rows of an operator, which functions also see on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from panestream.engine.kernels.python_values import RowType
from panestream.errors import InvalidPlanError, did_you_mean

Columns: TypeAlias = "pa.Schema | Mapping[str, pa.DataType | str]"
"""Names and types of columns; a type may be an Arrow name such as ``"int64"``, ``"double"`` or ``"string"``."""


def schema_of(columns: Columns) -> pa.Schema:
    """Return columns as a schema; raise ``InvalidPlanError`` for other values and unknown Arrow types."""
    if isinstance(columns, pa.Schema):
        return columns
    if not isinstance(columns, Mapping):
        raise InvalidPlanError(
            f"columns needs names and types, e.g. {{'price': 'double'}}, or a schema of Arrow's, got {columns!r}"
        )
    try:
        return pa.schema([(name, pa.type_for_alias(kind) if isinstance(kind, str) else kind) for name, kind in columns.items()])
    except (TypeError, ValueError) as error:
        raise InvalidPlanError(
            f"columns needs types of Arrow's, e.g. {{'price': 'double', 'n': 'int64'}} (Spark's INT is int32, its BIGINT int64), "
            f"got {columns!r}: {error}"
        ) from error


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Converts dicts, or values in the order of ``columns``, to elements of the operator, whose order may differ.

    ``time`` is None, or the name of the last column of an element, which has the event time.
    """

    columns: pa.Schema
    element_type: RowType
    time: str | None = None

    def element(self, value: Any, timestamp: int) -> Any:
        """Return the element of a row; raise ``InvalidPlanError`` for unknown columns or the wrong number of values."""
        values = self._values(value)
        if self.time is not None:
            values = {**values, self.time: timestamp}
        return self.element_type.make(values[name] for name in self.element_type.schema.names)

    def row(self, element: Any) -> Any:
        values = dict(zip(self.element_type.schema.names, element, strict=True))
        return RowType(self.columns).make(values[name] for name in self.columns.names)

    def _values(self, value: Any) -> dict[str, Any]:
        names = self.columns.names
        if isinstance(value, Mapping):
            for name in value:
                if name not in names:
                    raise InvalidPlanError(f"the row {value!r} has a value for {name!r}: {did_you_mean(str(name), names)}")
            return {name: value.get(name) for name in names}
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or len(value) != len(names):
            raise InvalidPlanError(f"a row is a dict, or {len(names)} values, of {names}; got {value!r}")
        return dict(zip(names, value, strict=True))
