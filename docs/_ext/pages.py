"""Run the pages as programs: their blocks of code in order, with a comparison of the printed and the shown output.

Used by the site (docs/_ext/panestream_docs.py, for its drawings) and by tests/docs. It imports neither Sphinx nor Spark.

Front matter declares the needs of a page. Without it, a page needs plain Python only. ``panestream: spark`` provides a session
named ``spark``. A test that runs the page in its own environment is written as ``panestream:
tests/connectors/kafka/test_kafka_page.py``.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import os
import re
import shutil
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
NOT_PAGES = ("_build", "_ext", "_static", "_templates", "decisions")
OUTPUT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|:{3,})(?P<info>[^`\n]*)$")


class PageError(AssertionError):
    """A block of a page did not do what the page says."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        kind: its language, or the name of a directive in braces.
        argument: the rest of that line.
        text: the content.
        line: the first line of the content, from 1.
        follows: whether only empty lines separate it from the block before.
    """

    kind: str
    argument: str
    text: str
    line: int
    follows: bool


@dataclass(frozen=True)
class Page:
    """A page: its path, its needs, and its blocks."""

    path: Path
    front: Mapping[str, str]
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        """The path below docs/."""
        return self.path.relative_to(DOCS).as_posix()

    @property
    def needs(self) -> str:
        """The need of the page: ``""``, ``"spark"``, or the path of the test that runs it."""
        return self.front.get("panestream", "")

    def of(self, *kinds: str) -> list[Block]:
        """Return the blocks of these kinds."""
        return [block for block in self.blocks if block.kind in kinds]

    @property
    def runs(self) -> bool:
        """Return whether the page has code to run."""
        return any(block.argument != "fragment" for block in self.of("python")) or bool(self.of("{timeline}"))


@dataclass
class Outcome:
    """The outcome of a run: the values of the page's drawings in order, and the number of blocks that ran and were compared."""

    drawn: list[Any] = field(default_factory=list)
    ran: int = 0
    compared: int = 0


def all_pages(folder: Path = DOCS) -> list[Path]:
    """Return the pages of the site except the decisions."""
    found = sorted(folder.rglob("*.md"))
    return [path for path in found if not set(path.relative_to(folder).parts) & set(NOT_PAGES)]


def read(path: Path, text: str | None = None) -> Page:
    """Return a page from its file or from ``text``."""
    text = path.read_text("utf-8") if text is None else text
    front: dict[str, str] = {}
    head = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if head:
        front = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in head[1].splitlines())}
    return Page(path, front, tuple(_blocks(text)))


def to_run_on_spark(every: Iterable[Page]) -> list[Page]:
    """Return the pages to run with a session. A Chinese page has the code of the English one, which tests compare."""
    return [page for page in every if page.needs == "spark" and page.runs and not page.name.startswith("zh/")]


def _blocks(text: str) -> Iterator[Block]:
    lines = text.splitlines()
    at, gap = 0, True
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if not opening:
            gap = gap or bool(lines[at].strip())
            at += 1
            continue
        indent, fence = len(opening["indent"]), opening["fence"]
        info = opening["info"].strip()
        kind, _, argument = info.partition(" ")
        begins = at + 1
        at = begins
        while at < len(lines) and lines[at].strip() != fence:
            at += 1
        inside = "\n".join(line[indent:] if not line[:indent].strip() else line for line in lines[begins:at])
        if fence.startswith(":"):  # blocks in a container are blocks of the page
            inner = ["", *lines[begins:at]]
            yield from (
                Block(block.kind, block.argument, block.text, block.line + begins - 1, block.follows)
                for block in _blocks("\n".join(inner))
            )
        else:
            yield Block(kind, argument.strip(), inside + "\n", begins + 1, not gap)
        gap = fence.startswith(":")
        at += 1


def run(
    page: Page,
    *,
    spark: object = None,
    draw: Callable[[str, dict[str, Any]], Any] | None = None,
    checked: bool = True,
    drawings_only: bool = False,
    folder: Path | None = None,
) -> Outcome:
    """Run the blocks of a page from top to bottom, in one namespace and an empty folder.

    Args:
        page: the page.
        spark: the session that the page finds under this name, if it needs one.
        draw: makes the drawing of an expression in a namespace. By default, the expression is only evaluated.
        checked: compare the printed output with the page.
        drawings_only: end with the last drawing.
        folder: the folder to run in, which is emptied afterwards. By default, it is a new folder. Spark's relative paths start at
            the folder of its JVM, so pass that folder with a session.

    Returns:
        The outcome.

    Raises:
        PageError: a block raised an error, or printed another output. The message has the page's line.
    """
    outcome = Outcome()
    names: dict[str, Any] = {"__name__": "__main__"}
    if page.needs == "spark":
        names["spark"] = spark
    last = max((at for at, block in enumerate(page.blocks) if block.kind == "{timeline}"), default=-1)
    with _within(folder) if folder else _new_folder():
        printed = ""
        for block in page.blocks[: last + 1] if drawings_only else page.blocks:
            where = f"{page.name}:{block.line}"
            if block.kind == "python":
                if block.argument == "fragment":
                    compile(block.text, where, "exec")
                    continue
                printed = _run_block(block, where, names)
                outcome.ran += 1
            elif block.kind == "text" and block.follows and checked:
                _compare(block, where, printed)
                outcome.compared += 1
            elif block.kind == "{timeline}":
                outcome.drawn.append(_drawing(block, where, names, draw))
    return outcome


def _run_block(block: Block, where: str, names: dict[str, Any]) -> str:
    # Keep the page's line numbers, so that a traceback and inspect.getsource show the page's lines.
    source = "\n" * (block.line - 1) + block.text
    linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(source, where, "exec"), names)  # noqa: S102 - a page of this repository
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
        at = f"{where.rpartition(':')[0]}:{lines[-1]}" if lines else where
        raise PageError(f"{at}: {type(error).__name__}: {error}") from error
    return out.getvalue()


def _compare(block: Block, where: str, printed: str) -> None:
    said = doctest.Example("", block.text)
    checker = doctest.OutputChecker()
    if not checker.check_output(said.want, printed, OUTPUT):
        raise PageError(f"{where}: the page shows\n{block.text}\nand this was printed\n{printed}")


def _drawing(block: Block, where: str, names: dict[str, Any], draw: Callable[[str, dict[str, Any]], Any] | None) -> Any:
    try:
        if draw is not None:
            return draw(block.argument, names)
        return eval(f"(lambda *of, **how: list(of))({block.argument})", names)  # noqa: S307 - as above
    except Exception as error:
        raise PageError(f"{where}: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _new_folder() -> Generator[None]:
    with tempfile.TemporaryDirectory(prefix="panestream-page-") as folder, _within(Path(folder)):
        yield


@contextlib.contextmanager
def _within(folder: Path) -> Generator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        for left in folder.iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            else:
                left.unlink()
