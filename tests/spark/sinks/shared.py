"""A folder shared by several micro-batches, without Spark, for tests of publication and compaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from panestream.spark.sinks.compaction import Compaction, compact_folders
from panestream.spark.sinks.publication import Publisher, sweep
from panestream.spark.sinks.shared_folders import SharedFolders

COLUMN = "batch_id"


def merge(files: Sequence[Path], out: Path) -> None:
    out.mkdir()
    assert [file.name for file in files] == sorted(file.name for file in files)
    pq.write_table(pa.concat_tables([pq.ParquetFile(file).read() for file in files]), out / "part-0-merged.parquet")
    (out / "_SUCCESS").touch()


def cut(file: Path, rows: int, out: Path) -> None:
    out.mkdir()
    pq.write_table(pq.ParquetFile(file).read().slice(0, rows), out / "part-0-cut.parquet")


class Place:
    """A sink's folder and the runs that write to it. Rows are (micro-batch, version, number)."""

    def __init__(self, root: Path, size: int) -> None:
        self.root, self.size = root, size
        self.expected: dict[int, Counter] = {}
        self.written = self.begun_with = 0

    def run(self, number: int, size: int | None = None) -> SharedFolders:
        publisher = Publisher(self.root / "_attempts", (number, "ab"), lambda: None, lambda _: True)
        return SharedFolders(self.root, COLUMN, size or self.size, publisher, cut)

    def begin(self, folders: SharedFolders, batch: int) -> None:
        folders.begin(batch)
        self.begun_with = batch
        self.expected = {each: rows for each, rows in self.expected.items() if each <= batch}

    def write(self, folders: SharedFolders, batch: int, files: int = 1, rows: int = 2) -> None:
        self.written += 1
        if batch > self.begun_with:
            folders.withdrawn.delete()
        sweep(folders.publisher.attempts, folders.publisher.rank)
        attempt = folders.publisher.aside()
        attempt.mkdir(parents=True)
        expected: Counter = Counter()
        for number in range(files):
            values = [(batch, self.written, number * rows + row) for row in range(rows)]
            table = pa.table({name: [value[at] for value in values] for at, name in enumerate(("b", "version", "n"))})
            name = f"part-{number}-{self.written}.parquet"
            pq.write_table(table, attempt / name)
            (attempt / f".{name}.crc").write_text(name)
            expected.update(values)
        (attempt / "_SUCCESS").touch()
        folders.write(attempt, batch)
        self.expected[batch] = expected

    def compact(self, file_bytes: int = 1 << 20, grace: float = 0) -> Compaction:
        return compact_folders(self.root, COLUMN, merge, file_bytes=file_bytes, grace=grace)

    def read(self) -> Counter:
        found = ds.dataset(self.root, partitioning="hive", format="parquet")
        if not found.files:
            return Counter()
        table = found.to_table(columns=["b", "version", "n"])
        return Counter(zip(*(table[name].to_pylist() for name in ("b", "version", "n")), strict=True))

    def read_of(self, batch: int) -> Counter:
        return Counter({row: times for row, times in self.read().items() if row[0] == batch})

    def wanted(self) -> Counter:
        return sum(self.expected.values(), Counter())

    def files(self) -> int:
        return len(list(self.root.glob("batch_id=*/*.parquet")))
