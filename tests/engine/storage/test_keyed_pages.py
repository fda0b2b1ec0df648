"""Pages of keys compared with a dict: values are read back by hash, and the number of pages follows the size of the state."""

import random

import numpy as np
import pyarrow as pa
import pytest

from panestream.engine.kernels.key_hashing import HASH_BITS, key_hashes
from panestream.engine.storage import keyed_pages as module
from panestream.engine.storage.keyed_pages import KeyedPages, PageEntry
from panestream.engine.storage.state import MemoryState
from panestream.errors import StateDamagedError
from panestream.windowing.time import MAX_TIMESTAMP
from tests.costs import thinned

HASHES = [580728928124687442, 2342650109165156681, 2517853352170231506]
SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.int64())])


def reopen(pages):
    """Return the pages as the next micro-batch loads them, from the state and the meta record."""
    pages.save({})
    again = KeyedPages(pages.state, SCHEMA)
    again.load()
    assert again.next_key == pages.next_key
    return again


def put(pages, rows, due=None):
    """Set keys to values, where None deletes a key, and set the times at which they are due."""
    due = due or {}
    changed_hashes = key_hashes([pa.array(list(rows), pa.int64())], len(rows))
    read = pages.holding(changed_hashes)
    values = {row["key"]: row["value"] for row in pages.read(read).to_pylist()}
    values |= rows
    values = {key: value for key, value in values.items() if value is not None}
    table = pa.table({"key": list(values), "value": list(values.values())}, schema=SCHEMA)
    hashes = key_hashes([table["key"].combine_chunks()], len(values))
    times = np.array([due.get(key, MAX_TIMESTAMP) for key in values], np.int64)
    pages.write(read, changed_hashes, table, hashes, times)


def all_values(pages):
    return {row["key"]: row["value"] for row in pages.read(np.ones(len(pages.index), np.bool_)).to_pylist()}


@pytest.mark.parametrize("seed", thinned(range(6), 3))
def test_pages_equal_a_dict_on_random_changes(seed, monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 16)
    rng, model, pages = random.Random(seed), {}, KeyedPages(MemoryState(), SCHEMA)
    for step in range(60):
        deletes = rng.random() < (0.2 if step < 30 else 0.9)
        rows = {rng.randint(0, 400): None if deletes else step for _ in range(rng.randint(1, 60))}
        put(pages, rows)
        model = {key: value for key, value in (model | rows).items() if value is not None}
        pages = reopen(pages)
        assert all_values(pages) == model
        assert {key for space, key in pages.state.values if space == "pages"} == {page.key for page in pages.index if page.rows}
        assert all(page.rows <= 16 for page in pages.index)
        lows = [page.low for page in pages.index]
        assert lows[0] == 0
        assert lows == sorted(set(lows))
    put(pages, dict.fromkeys(model))
    assert pages.index == [PageEntry(0)]
    assert set(pages.state.values) == {("meta", 0)}


def test_number_of_pages_follows_the_number_of_rows(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 64)
    pages = KeyedPages(MemoryState(), SCHEMA)
    put(pages, dict.fromkeys(range(1000), 1))
    grown = len(pages.index)
    assert 16 <= grown <= 40
    put(pages, dict.fromkeys(range(990)))
    assert len(pages.index) < grown / 2


@pytest.mark.parametrize(
    ("limit", "most", "pages"),
    [
        ("MOST_ROWS", 20, 1),
        ("MOST_ROWS", 19, 3),
        ("MOST_ROWS", 10, 4),
        ("MOST_BYTES", 20 * 16, 1),
        ("MOST_BYTES", 20 * 16 - 1, 3),
        ("MOST_BYTES", 10 * 16, 4),
        ("MOST_BYTES", 1, 20),
    ],
)
def test_page_beyond_the_limit_is_cut_into_even_halves(monkeypatch, limit, most, pages):
    monkeypatch.setattr(module, limit, most)
    keyed_pages = KeyedPages(MemoryState(), SCHEMA)
    put(keyed_pages, dict.fromkeys(range(20), 1))
    rows = [page.rows for page in keyed_pages.index]
    assert (len(rows), sum(rows)) == (pages, 20)
    assert max(rows) - min(rows) <= 1
    hashes = np.sort(key_hashes([pa.array(range(20), pa.int64())], 20))
    # Each page begins with its smallest hash. The first page begins with 0.
    assert [page.low for page in keyed_pages.index] == [0, *hashes[np.cumsum(rows)[:-1]].tolist()]
    assert [page.key for page in keyed_pages.index] == list(range(pages))


def test_keys_of_the_same_hash_stay_on_one_page(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    table = pa.table({"key": range(7), "value": range(7)}, schema=SCHEMA)

    def cut(begin, *hashes):
        draft = module._Draft(PageEntry(3, 8), begin, begin + len(hashes), dirty=True)
        return module._cut(draft, table, np.array([0] * begin + list(hashes), np.int64))

    assert cut(0, 5, 5, 5, 5, 9) == [(3, 0, 4), (9, 4, 5)]
    assert cut(2, 5, 5, 5, 5, 9) == [(3, 2, 6), (9, 6, 7)]
    assert cut(1, 5, 9, 9, 9) == [(3, 1, 2), (9, 2, 5)]
    assert cut(0, 5, 5, 5) == [(3, 0, 3)]
    assert cut(2) == [(3, 2, 2)]


def test_small_neighbouring_pages_are_joined_when_written(monkeypatch):
    """Four rows together are a quarter of the maximum. The page keeps the first existing key of the state, and the others are
    deleted.
    """
    monkeypatch.setattr(module, "MOST_ROWS", 16)

    def join(*drafts):
        drafts_ = [
            module._Draft(PageEntry(100 + place, key), begin, end, dirty) for place, (key, begin, end, dirty) in enumerate(drafts)
        ]
        return [
            (draft.page.low, draft.page.key, draft.begin, draft.end, draft.dirty, draft.absorbed)
            for draft in module._joined(drafts_)
        ]

    assert join((5, 0, 2, True), (0, 2, 4, True), (9, 4, 5, True), (8, 5, 6, True), (7, 6, 8, True)) == [
        (100, 5, 0, 4, True, (0,)),
        (102, 9, 4, 8, True, (8, 7)),
    ]
    assert join((5, 0, 2, True), (6, 2, 5, True)) == [(100, 5, 0, 2, True, ()), (101, 6, 2, 5, True, ())]
    assert join((-1, 0, 1, True), (0, 1, 2, True), (-1, 2, 3, True), (1, 3, 4, True)) == [(100, 0, 0, 4, True, (1,))]
    assert join((-1, 0, 1, True), (-1, 1, 2, True)) == [(100, -1, 0, 2, True, ())]
    assert join((5, 0, 1, True), (6, 0, 0, False), (7, 1, 2, True)) == [
        (100, 5, 0, 1, True, ()),
        (101, 6, 0, 0, False, ()),
        (102, 7, 1, 2, True, ()),
    ]
    assert join() == []


def test_pages_of_large_rows_are_cut_by_bytes(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    pages = KeyedPages(MemoryState(), SCHEMA)
    put(pages, dict.fromkeys(range(20), 1))
    assert len(pages.index) > 3
    assert all_values(pages) == dict.fromkeys(range(20), 1)


def test_only_changed_pages_are_written(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 16)
    pages = KeyedPages(MemoryState(), SCHEMA)
    put(pages, dict.fromkeys(range(200), 1))
    before = dict(pages.state.values)
    put(pages, {7: 2})
    assert sum(before.get(place) != value for place, value in pages.state.values.items()) == 1


def test_index_finds_pages_that_are_due(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 16)
    pages = KeyedPages(MemoryState(), SCHEMA)
    put(pages, dict.fromkeys(range(100), 1), due={3: 50, 4: 60})
    assert pages.due(49).sum() == 0
    assert {3} <= {row["key"] for row in pages.read(pages.due(50)).to_pylist()}
    assert {3, 4} <= {row["key"] for row in reopen(pages).read(pages.due(60)).to_pylist()}


def test_missing_page_is_an_error():
    pages = KeyedPages(MemoryState(), SCHEMA)
    put(pages, {1: 1})
    pages.state.values.clear()
    with pytest.raises(StateDamagedError, match="page 0 of the index is missing"):
        all_values(pages)


OF_TYPES = {
    "int64": 3439714719273866085,
    "int32": 3327369188676924305,
    "string": 4459046545084723475,
    "binary": 456476771015818021,
    "fixed_size_binary[3]": 1521035255364633796,
    "bool": 3008887562355236763,
    "double": 1502382888910911615,
    "decimal128(30, 2)": 138617376553106186,
    "timestamp[us, tz=UTC]": 1808779175955652909,
    "struct<a: int64, b: string>": 3539883422489191063,
    "dictionary<values=string, indices=int32, ordered=0>": 2499926586397209391,
}
KEYS = [
    pa.array([1, -5, None, 2**62], pa.int64()),
    pa.array([1, -5, None, 7], pa.int32()),
    pa.array(["", "a", None, "x" * 1000]),
    pa.array([b"", b"\0", None, b"\0\0"]),
    pa.array([b"abc", b"abd", None, b"\0\0\0"], pa.binary(3)),
    pa.array([True, False, None]),
    pa.array([0.0, 1.5, None, float("nan")]),
    pa.array([1, 2, None]).cast(pa.decimal128(30, 2)),
    pa.array([1, 2, None], pa.timestamp("us", "UTC")),
    pa.array([{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": None, "b": "x"}, None]),
    pa.array(["a", "b", None, "c"]).dictionary_encode(),
    pa.array([None, None], pa.string()),
]


@pytest.mark.parametrize("column", KEYS, ids=lambda column: str(column.type))
def test_hash_of_a_key_does_not_depend_on_its_position(column):
    hashes = key_hashes([column], len(column))
    assert len(set(hashes.tolist())) == len(set(map(str, column.to_pylist())))
    assert ((hashes >= 0) & (hashes < 2**HASH_BITS)).all()
    again = pa.concat_arrays([column.slice(1), column.slice(0, 1)])
    assert key_hashes([again], len(again)).tolist() == [*hashes[1:], hashes[0]]


def test_hashes_do_not_change_between_versions():
    """The hashes decide on which page a key is stored. Another function would not find old keys."""
    columns = [pa.array(["ann", None, "a longer name than eight bytes"]), pa.array([1, 2, None], pa.int32())]
    assert key_hashes(columns, 3).tolist() == HASHES
    assert key_hashes([], 2).tolist() == [0, 0]


@pytest.mark.parametrize("column", KEYS[:-1], ids=lambda column: str(column.type))
def test_hashes_of_every_type_do_not_change_between_versions(column):
    value = column.drop_null().slice(len(column) - column.null_count - 1)
    assert key_hashes([value], 1).tolist() == [OF_TYPES[str(column.type)]]


def test_zeros_of_either_sign_and_all_nans_have_the_same_hash():
    hashes = key_hashes([pa.array([0.0, -0.0, float("nan"), -float("nan")])], 4)
    assert hashes[0] == hashes[1]
    assert hashes[2] == hashes[3]
