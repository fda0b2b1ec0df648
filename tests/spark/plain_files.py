"""The parts of Spark's sessions and DataFrames that file sinks and markers use, without Java."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from panestream.spark.checkpoint import records
from tests.spark.local_files import LocalFiles


class PlainSpark(LocalFiles):
    """A session for local files that also writes small ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: str = "4.1.0", **settings: str) -> None:
        self.version, self.conf = version, SimpleNamespace(get=settings.get)
        # Columns need a JVM.
        monkeypatch.setattr(records.F, "lit", lambda text: SimpleNamespace(alias=lambda name: text))

    def text(self, path: str | list[str], wholetext: bool = False) -> SimpleNamespace:
        """Read files with their paths."""
        addresses = [address for one in ([path] if isinstance(path, str) else path) for address in self.load([one]).inputFiles()]
        paths = [Path(unquote(address.removeprefix("file://"))) for address in addresses]
        read = [
            (one.as_uri(), text) for one in paths for text in ([one.read_text()] if wholetext else one.read_text().splitlines())
        ]
        rows = [SimpleNamespace(path=path, value=value) for path, value in read]
        frame = SimpleNamespace(collect=lambda: rows)
        frame.selectExpr = lambda *columns: frame
        return frame

    def range(self, rows: int) -> SimpleNamespace:
        def written(text: str) -> SimpleNamespace:
            save = partial(_write, text)
            writer = SimpleNamespace(mode=lambda mode: SimpleNamespace(text=partial(save, mode)))
            return SimpleNamespace(coalesce=lambda parts: SimpleNamespace(write=writer))

        return SimpleNamespace(select=written)

    def createDataFrame(self, rows: list, schema: pa.Schema) -> PlainRows:  # noqa: N802 (Spark's name)
        return PlainRows(self, pa.table([pa.array([], field.type) for field in schema], schema=schema))


def _write(text: str, mode: str, path: str) -> None:
    folder = Path(path)
    if mode == "overwrite":
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "part-00000.txt").write_text(text + "\n")


class PlainRows:
    """The parts of a DataFrame that file sinks use: a table that is written as Parquet."""

    def __init__(self, spark: PlainSpark, table: pa.Table) -> None:
        self.sparkSession, self.table, self.schema = spark, table, table.schema
        self.write = _Writer(table)

    def isEmpty(self) -> bool:  # noqa: N802 (Spark's name)
        return self.table.num_rows == 0


class _Writer:
    def __init__(self, table: pa.Table, **told: object) -> None:
        self.table, self.told = table, told

    def format(self, kind: str) -> _Writer:
        return _Writer(self.table, **{**self.told, "format": kind})

    def options(self, **options: str) -> _Writer:
        return _Writer(self.table, **{**self.told, **options})

    def mode(self, mode: str) -> _Writer:
        return _Writer(self.table, **{**self.told, "mode": mode})

    def save(self, path: str) -> None:
        assert self.told["mode"] == "overwrite"
        shutil.rmtree(path, ignore_errors=True)
        Path(path).mkdir(parents=True)
        pq.write_table(self.table, f"{path}/part-00000.{self.told['format']}")
        Path(path, "_SUCCESS").touch()


def contents(folder: Path, names: Sequence[str] = ("*",)) -> list[str]:
    """Return the files below a folder that readers see."""
    paths = sorted(path.relative_to(folder) for name in names for path in folder.rglob(name) if path.is_file())
    return [path.as_posix() for path in paths if not any(part.startswith(("_", ".")) for part in path.parts)]
