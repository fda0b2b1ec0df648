"""Incomplete savepoints are refused, and empty ones are read as empty."""

import datetime as dt
import shutil
from functools import partial

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import panestream as pst
from panestream import agg
from panestream.errors import CheckpointError, StateDamagedError
from panestream.spark.savepoint.manifest import SavepointManifest
from panestream.spark.savepoint.saved import write_savepoint
from panestream.testing import MicroBatches
from tests.spark.savepoint.runs import fired

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
COLUMNS = "user string, n bigint, ts timestamp"
ROWS = [(f"u{number % 5}", number, START + dt.timedelta(minutes=number)) for number in range(60)]


def counted(df, groups=None):
    windowed = (
        pst.stream(df)
        .assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes"))
        .key_by("user")
        .window(pst.TumblingEventTimeWindows.of("10 minutes"))
    )
    if groups is not None:
        windowed = windowed.options(key_groups=groups)
    return windowed.aggregate(agg.count().alias("n"), agg.sum("n").alias("total"))


@pytest.fixture(scope="module")
def old(spark, tmp_path_factory):
    """The rows that were read, the checkpoint, and its savepoint in a folder whose name Spark's readers take for a pattern."""
    folder = tmp_path_factory.mktemp("old")
    clicks = MicroBatches(spark, folder / "clicks", COLUMNS).add(ROWS)
    assert fired(counted(clicks.stream(), 3), folder / "checkpoint")
    saved = folder / "saved [1] {a,b}* 100%25 é"
    pst.savepoint(spark, f"{folder}/checkpoint", str(saved))
    return clicks, folder / "checkpoint", saved


def _largest(folder):
    return max(folder.glob("*.parquet"), key=lambda file: file.stat().st_size)


def _lose(part, folder):
    _largest(folder / part).unlink()


def _double(part, folder):
    shutil.copy(_largest(folder / part), folder / part / "part-copy.parquet")


def _lose_all(part, folder):
    shutil.rmtree(folder / part)


def _cut(part, folder):
    file = _largest(folder / part)
    (file.parent / f".{file.name}.crc").unlink()
    file.write_bytes(file.read_bytes()[:-20])


def _change(part, folder):
    """Change values but not the number of rows, which only a checksum detects."""
    file = _largest(folder / part)
    (file.parent / f".{file.name}.crc").unlink()
    table = pq.read_table(file)
    changed = {"#0.sum": lambda column: pc.add(column, 1), "path": lambda column: pc.replace_substring(column, "0", "9")}
    name = next(name for name in table.column_names if name in changed or name.endswith(".sum"))
    how = changed.get(name, changed["#0.sum"])
    place = table.column_names.index(name)
    pq.write_table(table.set_column(place, table.schema.field(place), how(table.column(name))), file)


@pytest.mark.parametrize("part", ["state/panes", "sources/0"])
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_lose, "has"),
        (_double, "has"),
        (_lose_all, "is gone"),
        (_cut, "cannot be read"),
        (_change, r"was changed: the file part-\S+ was"),
    ],
)
def test_incomplete_savepoint_is_refused(spark, old, part, harm, said, tmp_path):
    clicks, _, whole = old
    saved = tmp_path / "saved"
    shutil.copytree(whole, saved)
    harm(part, saved)
    wrong = partial(pytest.raises, StateDamagedError, match=f"saved is not what was written there: {part} {said}")
    with wrong():
        fired(counted(clicks.stream()), tmp_path / "new", savepoint=str(saved))
    with wrong():
        found = pst.state.read_savepoint(spark, str(saved))
        found.summary() if part.startswith("state") else found.unread(clicks.stream())
    assert not (tmp_path / "new").exists()


def test_checkpoint_with_incomplete_list_of_files_is_refused(old, tmp_path):
    clicks, _, saved = old
    new = tmp_path / "new"
    assert fired(counted(clicks.stream()), new, savepoint=str(saved)) == []
    _lose("panestream/files_read/0", new)
    with pytest.raises(StateDamagedError, match="new is not what was written there: panestream/files_read/0 "):
        fired(counted(clicks.stream()), new)


def test_checkpoint_with_changed_list_of_files_is_refused(old, tmp_path):
    clicks, _, saved = old
    new = tmp_path / "new"
    assert fired(counted(clicks.stream()), new, savepoint=str(saved)) == []
    _change("panestream/files_read/0", new)
    with pytest.raises(StateDamagedError, match="new is not what was written there: panestream/files_read/0 was changed"):
        fired(counted(clicks.stream()), new)


def test_savepoint_of_a_query_without_rows_is_empty(spark, tmp_path):
    clicks = MicroBatches(spark, tmp_path / "clicks", COLUMNS).add([])
    assert fired(counted(clicks.stream(), 3), tmp_path / "old") == []
    assert pst.state.read_checkpoint(spark, f"{tmp_path}/old").summary().windows == 0
    saved = pst.savepoint(spark, f"{tmp_path}/old", f"{tmp_path}/saved")
    assert (saved.manifest.groups, saved.table("panes").count(), saved.summary().windows) == (3, 0, 0)
    clicks.add(ROWS[:30])
    clicks.add(ROWS[30:])
    found = fired(counted(clicks.stream(), 5), tmp_path / "new", savepoint=saved.path)
    assert found == fired(counted(clicks.stream(), 3), tmp_path / "old")
    assert found


def test_savepoint_without_a_key_group_is_refused(spark, old, tmp_path):
    _, checkpoint, _ = old
    state = pst.state.read_checkpoint(spark, str(checkpoint))
    headers = state.stored.headers().where("key_group <> 1")
    manifest = SavepointManifest(saved_plan={}, headers=[], tables={})
    with pytest.raises(StateDamagedError, match="the state of key group 1 is missing: only 2 of 3 exist"):
        write_savepoint(spark, f"{tmp_path}/saved", state.plan, headers, state.stored.tables(), manifest)


@pytest.mark.parametrize("name", ["with a blank", "100% [a] {b}#é"])
def test_checkpoint_whose_address_is_encoded_is_read_and_saved(spark, old, name, tmp_path):
    """Spark's state reader alone would look for a folder with the encoded name."""
    _, checkpoint, _ = old
    shutil.copytree(checkpoint, tmp_path / name)
    found = pst.state.read_checkpoint(spark, tmp_path / name)
    assert found.windows.count() == pst.state.read_checkpoint(spark, checkpoint).windows.count() > 0
    assert pst.savepoint(spark, tmp_path / name, tmp_path / "saved in here").batch_id == found.batch_id
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([name, "saved in here"])


def _lose_files(checkpoint):
    for file in (checkpoint / "state/0/1").glob("1.*"):
        file.unlink()


@pytest.mark.parametrize(
    ("harm", "of_summary", "of_savepoint"),
    [
        (_lose_files, *["micro-batch 0 cannot be read: .*CANNOT_LOAD_STATE_STORE"] * 2),
        (lambda folder: shutil.rmtree(folder / "state/0/1"), *["cannot be read: state/0/1 is missing"] * 2),
        (lambda folder: shutil.rmtree(folder / "state/0/2"), *["cannot be read: state/0/2 is missing"] * 2),
        (lambda folder: shutil.rmtree(folder / "state/0/_metadata"), *["metadata of the state .* is missing"] * 2),
    ],
    ids=["files", "a partition", "the last partition", "the metadata"],
)
def test_damaged_state_is_refused_by_summary_and_savepoint(spark, old, harm, of_summary, of_savepoint, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(old[1], checkpoint)
    harm(checkpoint)
    with pytest.raises(StateDamagedError, match=of_summary):
        pst.state.read_checkpoint(spark, str(checkpoint)).summary()
    with pytest.raises(StateDamagedError, match=of_savepoint):
        pst.savepoint(spark, str(checkpoint), f"{tmp_path}/saved")


def test_data_frame_of_state_fails_if_a_partition_is_missing(spark, old, tmp_path):
    """Spark's state reader alone would silently skip the last partition."""
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(old[1], checkpoint)
    shutil.rmtree(checkpoint / "state/0/2")
    with pytest.raises(StateDamagedError, match="state/0/2 is missing"):
        pst.state.read_checkpoint(spark, str(checkpoint)).windows.count()


def test_lost_source_log_is_refused(spark, old, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(old[1], checkpoint)
    (checkpoint / "offsets/0").unlink()
    with pytest.raises(CheckpointError, match=r"Spark cannot read the checkpoint .*checkpoint: \[STDS_"):
        pst.state.read_checkpoint(spark, str(checkpoint))
