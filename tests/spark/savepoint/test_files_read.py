"""A stream from a savepoint leaves out the files that were read, without opening them."""

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from panestream.errors import CheckpointError
from panestream.spark.savepoint import source_offsets as module
from panestream.spark.savepoint.source_offsets import files_read, read_positions, save_positions, without_files
from panestream.spark.session import session_settings

pytestmark = pytest.mark.spark

FILES = 7


def rows_of(df, checkpoint):
    found = []
    query = df.writeStream.foreachBatch(lambda batch, _: found.extend(row[0] for row in batch.collect()))
    query = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return sorted(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with files of one number each. Spark's address of the folder has escapes that the system's path does not have."""
    folder = tmp_path_factory.mktemp("files") / "in [put]%20 'x'"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"part {number}.json").write_text(f'{{"n": {number}}}\n')
    return folder


def stream(spark, folder):
    return spark.readStream.schema("n int").option("maxFilesPerTrigger", 1).json(module.escaped(str(folder)))


def test_files_read_by_each_micro_batch_are_found_in_compacted_logs(spark, folder, tmp_path):
    settings = {
        "spark.sql.streaming.fileSource.log.compactInterval": "3",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
        "spark.sql.streaming.minBatchesToRetain": "3",
    }
    checkpoint = tmp_path / "checkpoint"
    batches = {}
    with session_settings(spark, settings):
        query = stream(spark, folder).writeStream.foreachBatch(lambda df, number: batches.update({number: df.first().n}))
        query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    assert (checkpoint / "sources/0/5.compact").exists()
    assert not (checkpoint / "sources/0/1").exists()
    for batch in range(FILES - 2, FILES):
        (position,) = read_positions(spark, str(checkpoint), batch)
        assert (position.kind, position.offset) == ("files", f'{{"logOffset":{batch}}}')
        read = files_read(spark, str(checkpoint), 0, batch)
        rest = rows_of(without_files(stream(spark, folder), read, batch + 1), tmp_path / f"rest-{batch}")
        assert rest == sorted(number for at, number in batches.items() if at > batch)
    with pytest.raises(CheckpointError, match="lacks the entry 99"):
        files_read(spark, str(checkpoint), 0, 99)
    with pytest.raises(CheckpointError, match=r"micro-batch 99 are unknown.*is gone"):
        read_positions(spark, str(checkpoint), 99)


SHAPES = {
    "as it is": lambda df: df.select("n"),
    "columns and rows": lambda df: df.withColumn("z", F.col("n") + 1).where("z > 0").select("z").select(F.col("z") - 1),
    "a watermark": lambda df: df.withColumn("t", F.current_timestamp()).withWatermark("t", "1 second").select("n"),
    "several rows of one": lambda df: df.select("n", F.explode(F.array(F.lit(1)))).drop("col"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_few_read_files_are_filtered_without_opening_them(spark, tmp_path, shape):
    spark.range(3).selectExpr("id AS n", "id").write.partitionBy("n").parquet(str(tmp_path / "in"))
    df = spark.read.parquet(str(tmp_path / "in"))
    old = df.where("n < 2").select(F.regexp_replace("_metadata.file_path", "^file:/+", "file:/").alias("path")).distinct()
    for row in old.collect():
        Path(row.path.removeprefix("file:")).write_bytes(b"no Parquet")
    stream = SHAPES[shape](spark.readStream.schema("id bigint, n int").parquet(str(tmp_path / "in")))
    assert rows_of(without_files(stream, old, 2), tmp_path / "checkpoint") == [2]


def test_many_read_files_are_filtered_by_a_join(spark, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LITERALS", 1)
    paths = spark.read.json(module.escaped(str(folder))).where("n < 5").select(F.col("_metadata.file_path").alias("path"))
    paths.distinct().write.parquet(str(tmp_path / "list"))
    listed = spark.read.parquet(str(tmp_path / "list"))
    assert rows_of(without_files(stream(spark, folder), listed, 5), tmp_path / "checkpoint") == [5, 6]


def test_stream_whose_rows_lack_their_file_is_refused(spark, folder):
    listed = spark.createDataFrame([("file:/nowhere",)], "path string")
    together = stream(spark, folder).union(stream(spark, folder))
    for df in (together, stream(spark, folder).mapInArrow(lambda batches: batches, "n int")):
        with pytest.raises(
            CheckpointError, match=r"a union, an aggregation, a Python function or a join.*unread\(spark.readStream"
        ):
            without_files(df, listed, 1)
    assert without_files(together, listed, 0) is together


def read_to_the_end(df, checkpoint):
    rows_of(df, checkpoint)
    return max(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())


def test_inputs_from_one_data_frame_share_their_log(spark, folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.json").write_text('{"n": 10}\n')
    clicks, views = stream(spark, folder), spark.readStream.schema("n int").json(str(other))
    checkpoint = tmp_path / "checkpoint"
    both = clicks.where("n < 3").union(clicks.where("n >= 3")).union(views)
    last = read_to_the_end(both, checkpoint)
    positions = read_positions(spark, str(checkpoint), last)
    assert [each.kind for each in positions] == ["files"] * 3
    assert sorted(path.name for path in (checkpoint / "sources").iterdir()) == ["0", "1"]  # as Spark does
    saved = save_positions(spark, str(checkpoint), last, str(tmp_path / "saved"))
    assert [one["files"] for one in saved] == [FILES, FILES, 1]
    listed = spark.read.parquet(str(tmp_path / "saved" / "sources" / "2")).collect()
    assert [row.path.endswith("/x.json") for row in listed] == [True]


def test_inputs_whose_logs_are_ambiguous_are_refused(spark, folder, tmp_path):
    clicks, same = stream(spark, folder), stream(spark, folder)
    checkpoint = tmp_path / "checkpoint"
    last = read_to_the_end(clicks.where("n < 3").union(clicks.where("n >= 3")).union(same), checkpoint)
    with pytest.raises(CheckpointError, match=r"3 inputs of the query have 2 logs .*one DataFrame.*Read it separately for each"):
        save_positions(spark, str(checkpoint), last, str(tmp_path / "saved"))
