"""Encoding of users' Python values in state: one Arrow array per column, nested if the values are.

Plain values get typed columns and come back exactly as they were. These are None, booleans, integers of any size, floats,
strings, bytes, dates and times, decimals, NumPy numbers and arrays, and tuples, lists, sets, dicts and rows of plain values.
Mixed types become a union with one part per type. Equal values give equal bytes in every process, sets included.

Objects of users' classes are pickled if the user allowed it, and refused otherwise. Nothing is unpickled unless the user allowed
it, whatever the checkpoint contains. Only this module pickles state values.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panestream.engine.kernels.columns import one_chunk
from panestream.engine.kernels.python_values import instants, python_values
from panestream.errors import InvalidPlanError, StateFormatError

Kind = list[Any]
"""How to read an array, in JSON: a word, the kinds of the parts, and further items that depend on the word."""

_SIMPLE: dict[type, tuple[str, pa.DataType]] = {
    bool: ("bool", pa.bool_()),
    int: ("int", pa.int64()),
    float: ("float", pa.float64()),
    str: ("str", pa.string()),
    bytes: ("bytes", pa.binary()),
    dt.date: ("date", pa.date32()),
}
_SEQUENCES: dict[type, str] = {list: "list", tuple: "tuples", set: "set", frozenset: "frozenset"}
_MAPS: dict[type, str] = {dict: "map", Counter: "counter"}
_MAKERS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "tuples": tuple,
    "set": set,
    "frozenset": frozenset,
    "map": dict,
    "counter": lambda pairs: Counter(dict(pairs)),
}
_SORTED = {int, str, bytes}
_NUMBERS = {np.dtype(name).type for name in ("?", *"bhilBHIL", *"efd")}
_ARRAYS = "biuf"
"""NumPy's kind codes of the numbers allowed in arrays."""
_MICRO = dt.timedelta(microseconds=1)
_WIDEST = 32
"""Maximum width of a struct. Longer tuples and dicts become lists, so that growing ones do not make a thousand columns."""
_NARROW = (np.int8, np.int16, np.int32)


class NotPlainError(Exception):
    """A value does not fit columns, and pickles are not allowed; ``path`` is its place in the column, innermost last."""

    def __init__(self, value: Any, path: str = "") -> None:
        kind = type(value)
        super().__init__(f"{kind.__module__}.{kind.__qualname__}")
        self.path = path


class Codec:
    """Converts values to arrays and back. Elements may be of the named tuple ``element_type``; ``pickled`` allows pickles.

    >>> codec = Codec()
    >>> array, kind = codec.encode([(1, {"a", "b"}), (2.5, set())])
    >>> codec.decode(array, kind)[1], kind[0]
    ((2.5, set()), 'tuple')
    """

    def __init__(self, element_type: type | None = None, pickled: bool = False) -> None:
        self._element_type = element_type
        self._pickled = pickled

    # ---------------------------------------------------------------- writing

    def encode(self, values: Sequence[Any], top: bool = False) -> tuple[pa.Array, Kind]:
        """Return the values as an array of the same length, and its kind.

        ``top`` marks a whole column, which the payload packs better than this method can. Raises NotPlainError if a value does
        not fit columns and may not be pickled.
        """
        types = set(map(type, values))
        nulls = type(None) in types
        types.discard(type(None))
        if not types:
            return pa.nulls(len(values)), ["null"]
        if len(types) > 1:
            return self._union(values)
        (kind,) = types
        if kind in _SIMPLE:
            found = self._simple(kind, values, top)
        elif kind in _SEQUENCES or kind is self._element_type:
            found = self._sequences(kind, values, nulls)
        elif kind in _MAPS:
            found = self._maps(kind, values, nulls)
        else:
            found = self._special(kind, values)
        return self._pickle(values) if found is None else found

    def _special(self, kind: type, values: Sequence[Any]) -> tuple[pa.Array, Kind] | None:
        """Encode values of a rarer type (or None), or return None if that type has no columns."""
        if kind is dt.datetime:
            return datetime_column(values)
        if kind is dt.timedelta:
            array, found = self.encode([None if value is None else value // _MICRO for value in values])
            return array, ["timedelta", [found]]
        if kind is decimal.Decimal:
            # As text: "1.0" and "1.00" are different decimals, and some decimals (NaN, large exponents) fit no decimal column.
            return pa.array([None if value is None else str(value) for value in values], pa.string()), ["decimal"]
        if kind is dt.time and not any(value is not None and (value.tzinfo or value.fold) for value in values):
            return pa.array(values, pa.time64("us")), ["time"]
        if kind in _NUMBERS:
            filled: npt.NDArray[Any] = np.array([kind() if value is None else value for value in values], kind)
            return pa.array(filled, mask=np.array([value is None for value in values])), ["numpy", [], filled.dtype.name]
        if kind is np.ndarray:
            return self._ndarrays(values)
        return None

    @staticmethod
    def _simple(kind: type, values: Sequence[Any], top: bool) -> tuple[pa.Array, Kind] | None:
        word, arrow_type = _SIMPLE[kind]
        try:
            array = pa.array(values, arrow_type)
        except OverflowError:
            if kind is int:
                return pa.array([None if value is None else _bytes_of_int(value) for value in values], pa.binary()), ["big"]
            return None
        except UnicodeError:
            found = [None if value is None else value.encode("utf-8", "surrogatepass") for value in values]
            return pa.array(found, pa.binary()), ["surrogates"]
        return (array if top or kind is not int else narrowed(array)), [word]

    def _sequences(self, kind: type, values: Sequence[Any], nulls: bool) -> tuple[pa.Array, Kind]:
        if kind is tuple or kind is self._element_type:
            lengths = {len(value) for value in values if value is not None}
            width = lengths.pop() if len(lengths) == 1 else 0
            if 0 < width <= _WIDEST or (width and kind is not tuple):
                return self._structs("tuple" if kind is tuple else "row", values, range(width), nulls)
        if kind in (set, frozenset):
            values = [None if value is None else self._in_order(value) for value in values]
        return self._lists(_SEQUENCES.get(kind, "rows"), values)

    def _maps(self, kind: type, values: Sequence[Any], nulls: bool) -> tuple[pa.Array, Kind]:
        shapes = {tuple(value) for value in values if value is not None}
        if len(shapes) == 1 and kind is dict:
            (keys,) = shapes
            if 0 < len(keys) <= _WIDEST and all(type(key) is str for key in keys):
                array, found = self._structs("dict", values, keys, nulls)
                return array, [*found, list(keys)]
        pairs = [None if value is None else list(value.items()) for value in values]
        return self._lists(_MAPS[kind], pairs)

    def _structs(self, word: str, values: Sequence[Any], places: Sequence[Any], nulls: bool) -> tuple[pa.Array, Kind]:
        """Encode values that have equal places, with one column per place."""
        mask = None
        if nulls:
            filler: Any = dict.fromkeys(places) if word == "dict" else (None,) * len(places)
            mask = pa.array([value is None for value in values], pa.bool_())
            values = [filler if value is None else value for value in values]
        columns: Iterable[Sequence[Any]]
        columns = ([row[at] for row in values] for at in places) if word == "dict" else zip(*values, strict=True)
        arrays, kinds = [], []
        for place, column in zip(places, columns, strict=True):
            array, kind = self._part(f"[{place!r}]", column)
            arrays.append(array)
            kinds.append(kind)
        return pa.StructArray.from_arrays(arrays, [f"{at}" for at in range(len(arrays))], mask=mask), [word, kinds]

    def _lists(self, word: str, values: Sequence[Any]) -> tuple[pa.Array, Kind]:
        """Encode values of any length, with all their items in one column."""
        offsets: list[int | None] = []
        items: list[Any] = []
        for value in values:
            offsets.append(None if value is None else len(items))
            items.extend(value or ())
        offsets.append(len(items))
        array, kind = self._part("[...]", items)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array), [word, [kind]]

    def _union(self, values: Sequence[Any]) -> tuple[pa.Array, Kind]:
        """Encode values of several types, with one column per type, ordered by type name."""
        by_type: dict[type, list[Any]] = {}
        for value in values:
            by_type.setdefault(type(value), []).append(value)
        parts = sorted(by_type.items(), key=lambda part: (part[0].__module__, part[0].__qualname__))
        codes = {kind: code for code, (kind, _) in enumerate(parts)}
        seen = [0] * len(parts)
        which, offsets = [], []
        for value in values:
            code = codes[type(value)]
            which.append(code)
            offsets.append(seen[code])
            seen[code] += 1
        arrays, kinds = zip(*(self.encode(part) for _, part in parts), strict=True)
        return pa.UnionArray.from_dense(pa.array(which, pa.int8()), pa.array(offsets, pa.int32()), list(arrays)), [
            "union",
            list(kinds),
        ]

    def _ndarrays(self, values: Sequence[Any]) -> tuple[pa.Array, Kind] | None:
        present = [value for value in values if value is not None]
        if any(value.dtype.kind not in _ARRAYS for value in present):
            return None
        parts = [None if value is None else (value.dtype.str, value.shape, value.tobytes()) for value in values]
        array, kind = self.encode(parts)
        return array, ["ndarray", [kind]]

    def _in_order(self, values: Iterable[Any]) -> list[Any]:
        """Return the items of a set in an order that is the same in every process."""
        types = set(map(type, values))
        if len(types) == 1 and types <= _SORTED:
            return sorted(values)
        return sorted(values, key=lambda value: (type(value).__qualname__, canonical_bytes(value, self._pickled)))

    def _part(self, place: str, values: Sequence[Any]) -> tuple[pa.Array, Kind]:
        try:
            return self.encode(values)
        except NotPlainError as error:
            error.path = place + error.path
            raise

    def _pickle(self, values: Sequence[Any]) -> tuple[pa.Array, Kind]:
        if not self._pickled:
            raise NotPlainError(next(value for value in values if value is not None))
        try:
            blob = pickle.dumps(list(values), protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            raise InvalidPlanError(f"a value for the state cannot be pickled: {type(error).__name__}: {error}") from error
        return pa.array([blob, *[None] * (len(values) - 1)], pa.large_binary()), ["pickle"]

    # ---------------------------------------------------------------- reading

    def decode(self, array: pa.Array, kind: Kind) -> list[Any]:
        """Return the values that were given to :meth:`encode`.

        Raises InvalidPlanError for pickles that are not allowed, and StateFormatError for unknown kinds, or rows without element
        type.
        """
        reader = _READERS.get(kind[0])
        if reader is None:
            raise StateFormatError(
                f"the state holds values of the kind {kind[0]!r}, which this version of panestream does not know"
            )
        return reader(self, array, kind)

    def _read_simple(self, array: pa.Array, kind: Kind) -> list[Any]:
        values: list[Any] = array.to_pylist()
        return values

    def _read_times(self, array: pa.Array, kind: Kind) -> list[Any]:
        return datetimes(array, kind)

    def _read_spans(self, array: pa.Array, kind: Kind) -> list[Any]:
        return [None if value is None else value * _MICRO for value in self.decode(array, kind[1][0])]

    def _read_texts(self, array: pa.Array, kind: Kind) -> list[Any]:
        make = _TEXTS[kind[0]]
        return [None if value is None else make(value) for value in array.to_pylist()]

    def _read_numpy(self, array: pa.Array, kind: Kind) -> list[Any]:
        make = _number_type(kind[2]).type
        return [None if value is None else make(value) for value in array.to_pylist()]

    def _read_ndarrays(self, array: pa.Array, kind: Kind) -> list[Any]:
        return [
            None if part is None else np.ndarray(part[1], _number_type(part[0]), bytearray(part[2]))
            for part in self.decode(array, kind[1][0])
        ]

    def _read_structs(self, array: pa.Array, kind: Kind) -> list[Any]:
        rows: Iterable[Any] = zip(*(self.decode(array.field(at), child) for at, child in enumerate(kind[1])), strict=True)
        if kind[0] == "dict":
            rows = [dict(zip(kind[2], row, strict=True)) for row in rows]
        elif kind[0] == "row":
            rows = map(self._row_maker(), rows)
        return _with_nulls(list(rows), array)

    def _read_lists(self, array: pa.Array, kind: Kind) -> list[Any]:
        make = self._row_maker() if kind[0] == "rows" else _MAKERS[kind[0]]
        items = self.decode(array.values, kind[1][0])
        offsets = array.offsets.to_pylist()
        return _with_nulls([make(items[start:end]) for start, end in pairwise(offsets)], array)

    def _row_maker(self) -> Callable[[Iterable[Any]], Any]:
        if self._element_type is None:
            raise StateFormatError("the state holds rows of a NamedTuple: give the plan the element_type it was written with")
        make: Callable[[Iterable[Any]], Any] = self._element_type._make  # type: ignore[attr-defined]
        return make

    def _read_union(self, array: pa.Array, kind: Kind) -> list[Any]:
        parts = [iter(self.decode(array.field(code), child)) for code, child in enumerate(kind[1])]
        return [next(parts[code]) for code in array.type_codes.to_pylist()]

    def _read_nothing(self, array: pa.Array, kind: Kind) -> list[Any]:
        return [None] * len(array)

    def _read_pickle(self, array: pa.Array, kind: Kind) -> list[Any]:
        if not self._pickled:
            raise InvalidPlanError(
                "the state holds pickled values, and reading a pickle runs its code. Allow it with "
                ".options(allow_pickled_state=True) (or allow_pickled_state=True of the inspection) if nobody else can write to "
                "the checkpoint, or start on a new checkpoint"
            )
        try:
            unpickled: list[Any] = pickle.loads(array[0].as_py())  # noqa: S301 - the user allowed it
        except Exception as error:
            raise StateFormatError(
                f"the state holds pickled values that are unreadable ({type(error).__name__}: {error}): restore their classes "
                f"in their old modules, or start on a new checkpoint"
            ) from error
        return unpickled


_READERS: dict[str, Callable[[Codec, pa.Array, Kind], list[Any]]] = {
    **dict.fromkeys((*(word for word, _ in _SIMPLE.values()), "time"), Codec._read_simple),  # noqa: SLF001
    **dict.fromkeys(("datetime", "utc", "zoned"), Codec._read_times),  # noqa: SLF001
    **dict.fromkeys(("big", "decimal", "surrogates"), Codec._read_texts),  # noqa: SLF001
    **dict.fromkeys(("tuple", "row", "dict"), Codec._read_structs),  # noqa: SLF001
    **dict.fromkeys((*_MAKERS, "rows"), Codec._read_lists),  # noqa: SLF001
    "timedelta": Codec._read_spans,  # noqa: SLF001
    "null": Codec._read_nothing,  # noqa: SLF001
    "numpy": Codec._read_numpy,  # noqa: SLF001
    "ndarray": Codec._read_ndarrays,  # noqa: SLF001
    "union": Codec._read_union,  # noqa: SLF001
    "pickle": Codec._read_pickle,  # noqa: SLF001
}


def pickled_parts(name: str, kind: Kind) -> list[str]:
    """Return the names of the pickled parts of a column.

    >>> pickled_parts("sums", ["tuple", [["int"], ["pickle"]]])
    ['sums.1']
    """
    if kind[0] == "pickle":
        return [name]
    parts = kind[1] if len(kind) > 1 else []
    labels = kind[2] if kind[0] == "dict" else range(len(parts))
    return [found for label, part in zip(labels, parts, strict=True) for found in pickled_parts(f"{name}.{label}", part)]


def _with_nulls(values: list[Any], array: pa.Array) -> list[Any]:
    if not array.null_count:
        return values
    return [value if there else None for value, there in zip(values, array.is_valid().to_pylist(), strict=True)]


def narrowed(array: pa.Array) -> pa.Array:
    """Narrow integers to as few bytes as they need; the payload does so only for top-level columns."""
    if array.null_count or not len(array):
        return array
    numbers = array.to_numpy()
    low, high = numbers.min(), numbers.max()
    for narrow in _NARROW:
        limits = np.iinfo(narrow)
        if limits.min <= low and high <= limits.max:
            return pa.array(numbers.astype(narrow))
    return array


def _number_type(name: object) -> np.dtype[Any]:
    """Return the NumPy number type of this name, or raise StateFormatError for other types.

    Object types are refused: their bytes are memory addresses, which a checkpoint must not supply.
    """
    try:
        found: np.dtype[Any] = np.dtype(str(name))
    except TypeError:
        found = np.dtype(object)
    if found.kind not in _ARRAYS:
        raise StateFormatError(f"the state holds numpy's arrays of {name!r}, which this version of panestream does not write")
    return found


def _bytes_of_int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _int_of_bytes(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _surrogates(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


_TEXTS: dict[str, Callable[[Any], Any]] = {"big": _int_of_bytes, "decimal": decimal.Decimal, "surrogates": _surrogates}


_NAN = math.nan
_BY_REPR = (type(None), bool, int, float, bytes, dt.date, dt.datetime, dt.time, dt.timedelta, decimal.Decimal)
_KEY_LENGTH = struct.Struct("<I")


def canonical_key(key: Any) -> Any:
    """Return the representative of all equal keys: NaN equals NaN, and 0.0 equals -0.0, as in Spark's grouping."""
    if type(key) is float:
        return _NAN if key != key else key + 0.0  # noqa: PLR0124 - the test for NaN
    if type(key) is tuple:
        return tuple(map(canonical_key, key))
    return key


def hashable(key: Any) -> Any:
    """Return a struct or array, which Arrow supplies as a dict or list, as a tuple that can be a key.

    >>> hashable({"shop": 1, "tags": ["a", "b"]})
    (1, ('a', 'b'))
    """
    if isinstance(key, (dict, list)):
        return tuple(map(hashable, key.values() if isinstance(key, dict) else key))
    return key


def key_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return a key column as hashable values, in the row operator's form."""
    values = python_values(column if isinstance(column, pa.Array) else one_chunk(column))
    return list(map(hashable, values)) if pa.types.is_nested(column.type) else values


def stable_hash(key: Any, pickled: bool = False) -> int:
    """Return a hash of a canonical key that is the same in every process; Python salts its own per process.

    Raises InvalidPlanError for keys of users' classes unless ``pickled``.

    >>> stable_hash(("user", 7))
    3392436975
    """
    if type(key) is str:
        return zlib.crc32(b"s" + key.encode("utf-8", "surrogatepass"))
    return zlib.crc32(canonical_bytes(key, pickled))


def canonical_bytes(value: Any, pickled: bool = False) -> bytes:
    """Return bytes that are the same for equal values of one type in every process. They are compared and hashed, never read.

    Raises InvalidPlanError for values of users' classes unless ``pickled``.
    """
    kind = type(value)
    if kind is str:
        return b"s" + str(value).encode("utf-8", "surrogatepass")
    if kind is tuple:
        return _joined_keys(canonical_bytes(part, pickled) for part in value)
    if kind in _BY_REPR:
        return repr(value).encode()
    if kind is frozenset:
        return b"f" + _joined_keys(sorted(canonical_bytes(part, pickled) for part in value))
    if pickled:
        return pickle.dumps(value, protocol=4)
    raise InvalidPlanError(
        f"{value!r} of the type {kind.__module__}.{kind.__qualname__} cannot be a key or in a set. Use numbers, strings, dates "
        f"or tuples of them; or allow pickles with .options(allow_pickled_state=True), if nobody else can write to the "
        "checkpoint"
    )


def _joined_keys(parts: Iterable[bytes]) -> bytes:
    return b"".join(piece for part in parts for piece in (_KEY_LENGTH.pack(len(part)), part))


_ONE_MICRO = dt.timedelta(microseconds=1)
_NAIVE, _UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")


def datetime_column(values: Sequence[Any]) -> tuple[pa.Array, list[Any]] | None:
    """Encode datetimes (or None) as a column and its kind, or return None if a time zone cannot be written.

    Nearly all are naive, or all are UTC. Others are stored as naive time, zone number and fold.
    """
    present = [value for value in values if value is not None]
    if not any(value.fold for value in present):
        first = present[0].tzinfo
        if (first is None or first is dt.timezone.utc) and all(value.tzinfo is first for value in present):
            return (pa.array(values, _NAIVE), ["datetime"]) if first is None else (instants(values, _UTC), ["utc"])
    # Compare zones by repr: zones with different names may be equal.
    zones = {repr(value.tzinfo): value.tzinfo for value in present}
    numbers_of = {text: number for number, text in enumerate(zones)}
    names = [_name_of(zone) for zone in zones.values()]
    if not all(names):
        return None
    times = pa.array([None if value is None else value.replace(tzinfo=None) for value in values], _NAIVE)
    numbers = pa.array([0 if value is None else numbers_of[repr(value.tzinfo)] for value in values], pa.int16())
    folds = pa.array([value is not None and bool(value.fold) for value in values], pa.bool_())
    return pa.StructArray.from_arrays([times, numbers, folds], ["time", "zone", "fold"]), ["zoned", [], names]


def datetimes(array: pa.Array, kind: list[Any]) -> list[Any]:
    """Decode a column of :func:`datetime_column`."""
    if kind[0] != "zoned":
        return python_values(array)
    zones = [_zone_of(name) for name in kind[2]]
    columns = (python_values(array.field(0)), array.field(1).to_pylist(), array.field(2).to_pylist())
    return [
        None if time is None else time.replace(tzinfo=zones[number], fold=int(fold))
        for time, number, fold in zip(*columns, strict=True)
    ]


def _name_of(zone: dt.tzinfo | None) -> list[Any] | None:
    """Return a zone in JSON, or None if JSON cannot express it."""
    if zone is None:
        return ["none"]
    if type(zone) is dt.timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]  # as pickle and copy see it
        return ["fixed", offset // _ONE_MICRO, *name]
    if type(zone) is ZoneInfo and zone.key is not None:
        return ["zone", zone.key]
    return None


def _zone_of(name: list[Any]) -> dt.tzinfo | None:
    if name[0] == "none":
        return None
    try:
        if name[0] == "zone":
            return ZoneInfo(name[1])
        return dt.timezone(dt.timedelta(microseconds=name[1]), *name[2:])
    except (LookupError, TypeError, ValueError, OverflowError, OSError) as error:
        raise StateFormatError(
            f"the state holds times in the time zone {name!r}, which is not known here ({error}): pip install tzdata brings all"
        ) from error
