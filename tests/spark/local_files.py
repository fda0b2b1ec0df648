"""A session for local files only, without Java: what panestream reads of a checkpoint through Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote
from zlib import crc32

from panestream.spark.places import is_hidden


class LocalFiles:
    """Answer like Spark's readers: patterns with ``*``, ``?``, ``{a,b}`` and escapes, and the files of a folder."""

    version = "4.1.0"
    conf = SimpleNamespace(get=lambda name, default=None: default)

    @property
    def read(self) -> LocalFiles:
        return self

    def format(self, kind: str) -> LocalFiles:
        return self

    def option(self, name: str, value: str) -> LocalFiles:
        assert name == "recursiveFileLookup"
        reader = LocalFiles()
        reader.recursive = value == "true"
        return reader

    recursive = False

    def load(self, patterns: list[str]) -> SimpleNamespace:
        found = _matching(patterns[0], self.recursive)
        rows = [SimpleNamespace(path=path.as_uri(), content=path.read_bytes()) for path in found if path.stat().st_size]
        frame = SimpleNamespace(
            inputFiles=lambda: [f"file://{quote(path.as_posix())}" for path in found],
            select=lambda *names: SimpleNamespace(collect=lambda: rows),
        )
        frame.where = lambda condition: frame
        return frame

    def text(self, path: str, wholetext: bool = False) -> SimpleNamespace:
        texts = [each.read_text() for each in _matching(path, False)]
        lines = texts if wholetext else [line for text in texts for line in text.splitlines()]
        return SimpleNamespace(collect=lambda: [SimpleNamespace(value=line) for line in lines])


def leave_marker(spark: object, folder: str | Path, marker: dict, seen_as: Path | None = None) -> None:
    """Write a marker like ``write_marker``, without Spark."""
    told = {"format": 1, **marker}
    text = json.dumps({**told, "crc32": crc32(json.dumps(told, sort_keys=True).encode())}, sort_keys=True)
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "part-00000.txt").write_text(text)


def _matching(pattern: str, recursive: bool) -> list[Path]:
    found: list[Path] = []
    for each in _spelled_out(pattern):
        plain = re.sub(r"\\(.)", lambda escaped: f"[{escaped.group(1)}]", each).removeprefix("file:")
        for path in sorted((Path("/") if plain.startswith("/") else Path.cwd()).glob(plain.lstrip("/"))):
            try:
                inside = sorted(path.rglob("*") if recursive else path.iterdir()) if path.is_dir() else [path]
            except FileNotFoundError:  # Spark also ignores folders that another start renames meanwhile
                inside = []
            # Spark ignores hidden files, and everything in hidden folders below the listed folder.
            shown = [file for file in inside if not any(map(is_hidden, file.relative_to(path).parts))]
            found += [file for file in shown if file.is_file() and not is_hidden(file.name)]
    return found


def _spelled_out(pattern: str) -> list[str]:
    braces = re.search(r"(?<!\\)\{([^{}]*)\}", pattern)
    if braces is None:
        return [pattern]
    every = [pattern[: braces.start()] + one + pattern[braces.end() :] for one in braces.group(1).split(",")]
    return [whole for one in every for whole in _spelled_out(one)]
