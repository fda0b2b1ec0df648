"""Crafted manifests with a valid checksum: nothing outside is read, and the error is panestream's."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from zlib import crc32

import pytest

import panestream as pst
from panestream import agg
from panestream.errors import PanestreamError, StateDamagedError
from panestream.testing import MicroBatches
from tests.security.manifests import HARM

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
ROWS = [(f"u{number % 5}", number, START + dt.timedelta(minutes=number)) for number in range(30)]


def counted(df):
    stream = pst.stream(df).assign_timestamps("ts", pst.WatermarkStrategy.for_bounded_out_of_orderness("5 minutes"))
    return (
        stream.key_by("user").window(pst.TumblingEventTimeWindows.of("10 minutes")).options(key_groups=2).aggregate(agg.sum("n"))
    )


@pytest.fixture(scope="module")
def saved(spark, tmp_path_factory):
    """A savepoint. All paths are pathlib objects, as users pass them."""
    folder = tmp_path_factory.mktemp("saved")
    clicks = MicroBatches(spark, folder / "clicks", "user string, n bigint, ts timestamp").add(ROWS)
    counted(clicks.stream()).start(checkpoint=folder / "checkpoint", main=pst.ParquetSink(folder / "out")).await_termination()
    taken = pst.savepoint(spark, folder / "checkpoint", folder / "saved")
    read = pst.state.read_savepoint(spark, folder / "saved")
    assert (read.manifest.name, read.manifest.checksums) == (taken.manifest.name, taken.manifest.checksums)
    assert read.has_checksums
    assert pst.state.read_checkpoint(spark, folder / "checkpoint").windows.count() > 0
    return clicks, folder / "saved"


def crafted(saved: Path, to: Path, change) -> str:
    """Copy a savepoint and change its manifest, with the new checksum."""
    shutil.copytree(saved, to)
    (file,) = (to / "manifest").glob("part-*")
    told = json.loads(file.read_text())
    told.pop("crc32")
    change(told)
    told["crc32"] = crc32(json.dumps(told, sort_keys=True).encode())
    file.write_text(json.dumps(told, sort_keys=True))
    return str(to)


@pytest.mark.parametrize("harm", ["a table outside", "sources outside", "no table"])
def test_crafted_manifest_is_refused(spark, saved, tmp_path, harm):
    clicks, whole = saved
    path = crafted(whole, tmp_path / "crafted", HARM[harm])
    with pytest.raises(PanestreamError, match=r"savepoint|saved plan"):
        pst.state.read_savepoint(spark, path)
    with pytest.raises(PanestreamError):
        counted(clicks.stream()).start(checkpoint=tmp_path / "new", main=pst.ParquetSink(tmp_path / "out"), savepoint=path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["crafted"]


def test_manifest_that_is_nested_too_deeply_is_refused(spark, saved, tmp_path):
    _, whole = saved
    shutil.copytree(whole, tmp_path / "crafted")
    (file,) = (tmp_path / "crafted/manifest").glob("part-*")
    file.write_text("[" * 100_000)
    with pytest.raises(StateDamagedError, match="is cut off or no marker"):
        pst.state.read_savepoint(spark, tmp_path / "crafted")


def test_unchanged_copy_of_a_savepoint_starts(spark, saved, tmp_path):
    clicks, whole = saved
    path = crafted(whole, tmp_path / "crafted", lambda told: None)
    sinks = {"main": pst.ParquetSink(tmp_path / "out")}
    counted(clicks.stream()).start(checkpoint=tmp_path / "new", savepoint=Path(path), **sinks).await_termination()
    assert (tmp_path / "out").is_dir()


@pytest.mark.parametrize("path", [Path("s3://bucket/checkpoint"), "", " ", b"bytes", 3, "a\0b"], ids=repr)
def test_savepoint_path_that_is_not_a_path_is_refused(spark, saved, path):
    clicks, _ = saved
    for ask in (
        lambda: counted(clicks.stream()).start(checkpoint=path, main=pst.MemorySink()),
        lambda: pst.ParquetSink(path),
        lambda: pst.state.read_checkpoint(spark, path),
        lambda: pst.state.read_savepoint(spark, path),
        lambda: pst.savepoint(spark, path, "x"),
    ):
        with pytest.raises(PanestreamError, match=r"; got|pathlib has made"):
            ask()
