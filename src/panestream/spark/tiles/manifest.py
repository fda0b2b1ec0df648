"""The manifest of a tile, in its column ``tile``: self-contained JSON.

All tiles of a query have the same text there. Parquet stores it once for a block of rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from panestream.engine.aggregates import Aggregation
from panestream.engine.aggregates.saved_partials import parts_of
from panestream.engine.savepoint.recipes import recipe_json, recipe_of
from panestream.engine.tiles.format import TILES_FORMAT, partial_columns
from panestream.errors import InvalidPlanError, PanestreamError
from panestream.spark.types import to_arrow, to_spark
from panestream.windowing.aggregates import Aggregate
from panestream.windowing.assigners import WindowAssigner

MANIFEST = "tile"
"""The column with the manifest."""


@dataclass(frozen=True, slots=True)
class TilesManifest:
    """The description of some tiles.

    Attributes:
        slices: the windows of the partials.
        keys: the names of the key columns.
        inputs: the input expressions of the aggregates, and their types.
        partials: the column of each partial, and its meaning.
        aggregates: the aggregates as text for people.
    """

    slices: WindowAssigner
    keys: tuple[str, ...]
    inputs: Mapping[str, pa.DataType]
    partials: Mapping[str, str]
    aggregates: tuple[str, ...]

    @classmethod
    def of(
        cls, slices: WindowAssigner, keys: Sequence[str], aggregates: Sequence[Aggregate], aggregation: Aggregation
    ) -> TilesManifest:
        """Return the manifest of the tiles that a query makes."""
        inputs = dict(zip(aggregation.inputs, aggregation.input_types, strict=True))
        partials = dict(zip(partial_columns(aggregation), parts_of(aggregation), strict=True))
        return cls(slices, tuple(keys), inputs, partials, tuple(map(repr, aggregates)))

    def text(self) -> str:
        """Return the manifest as JSON."""
        inputs = {text: to_spark(type_).jsonValue() for text, type_ in self.inputs.items()}
        said = {"format": TILES_FORMAT, "slices": recipe_json(self.slices), "keys": self.keys, "inputs": inputs}
        return json.dumps({**said, "partials": self.partials, "aggregates": self.aggregates})

    @classmethod
    def read(cls, text: str | None) -> TilesManifest:
        """Parse the result of :meth:`text`. Raise InvalidPlanError if it is invalid or of another format."""
        try:
            said = json.loads(text or "")
            found = said["format"]
        except (ValueError, TypeError, LookupError) as error:
            raise _no_manifest(text) from error
        if found != TILES_FORMAT:
            newer = "a newer" if isinstance(found, int) and found > TILES_FORMAT else "another"
            raise InvalidPlanError(
                f"the tiles have format {found!r}, this version of panestream reads {TILES_FORMAT}: {newer} one wrote them"
            )
        try:
            slices, keys, aggregates = recipe_of(said["slices"]), tuple(said["keys"]), tuple(said["aggregates"])
            inputs = {text: _type_of(kind, text) for text, kind in said["inputs"].items()}
            partials = {str(name): str(of) for name, of in said["partials"].items()}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, PanestreamError):
                raise
            raise _no_manifest(text) from error
        if not isinstance(slices, WindowAssigner):
            raise _no_manifest(text)
        return cls(slices, keys, inputs, partials, aggregates)


def _type_of(kind: Any, text: str) -> pa.DataType:
    field = {"name": "one", "type": kind, "nullable": True, "metadata": {}}
    return to_arrow(T.StructType.fromJson({"type": "struct", "fields": [field]})[0].dataType, f"the input {text!r}")


def _no_manifest(text: str | None) -> InvalidPlanError:
    shown = "null" if text is None else repr(text if len(text) <= 80 else f"{text[:80]}…")
    return InvalidPlanError(
        f"the column {MANIFEST!r} has {shown}, which is not what .panes(...) writes there: keep that column in the store of tiles"
    )


__all__ = ["MANIFEST", "TilesManifest"]
