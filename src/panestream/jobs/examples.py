"""``panestream examples``: what the installation brings of examples, and one of them copied."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from rich.table import Table
from rich.text import Text

from panestream.errors import JobError, did_you_mean
from panestream.jobs.live import PipeConsole

_PACKAGE = Path(__file__).resolve().parents[1]
_UNWANTED = shutil.ignore_patterns("__pycache__", "*.pyc")


def folder() -> Path:
    """Where the examples are: in the package, as the wheel has them, or beside it, where it runs from its sources.

    Raises:
        JobError: in neither place.
    """
    for place in (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples"):
        if (place / "hot_items.toml").is_file():
            return place
    raise JobError("this installation has no examples: they are in the wheel and in the sdist of panestream")


def every() -> Mapping[str, str]:
    """The examples, and the first sentence of what each says of itself."""
    found = {path.name: _first_words(path.read_text("utf-8")) for path in sorted(folder().glob("*.[tp][oy]*"))}
    for readme in sorted(folder().glob("*/README.md")):
        found[readme.parent.name] = readme.read_text("utf-8").partition("\n")[0].lstrip("# ") + " (a folder)"
    return found


def _first_words(text: str) -> str:
    line = text.partition("\n")[0]
    return line[3:] if line.startswith('"""') else line.lstrip("# ")


def show(console: PipeConsole) -> None:
    """Prints the list."""
    table = Table.grid(padding=(0, 2))
    for name, words in every().items():
        table.add_row(Text(name), Text(words, style="dim"))
    console.print(table)
    console.print(Text("\npanestream examples NAME [FOLDER] copies one."))


def copy(name: str, into: Path, console: PipeConsole) -> None:
    """Copies an example, and the ones that it imports.

    Args:
        name: of the list.
        into: a folder; made where it is not there.
        console: where to say what was copied.

    Raises:
        JobError: there is no such example, or something is in its place already: nothing is written over.
    """
    known = every()
    if name not in known:
        raise JobError(f"there is no example {name!r}; {did_you_mean(name, known)}")
    source = folder() / name
    wanted = [source, *_imported(source)]
    taken = [into / each.name for each in wanted if (into / each.name).exists()]
    if taken:
        raise JobError(f"{taken[0]} is there already: name another folder, or remove it")
    try:
        into.mkdir(parents=True, exist_ok=True)
        for each in wanted:
            if each.is_dir():
                shutil.copytree(each, into / each.name, ignore=_UNWANTED)
            else:
                shutil.copyfile(each, into / each.name)
    except OSError as error:
        raise JobError(f"{into}: cannot be written: {error.strerror or error}") from None
    for each in wanted:
        console.print(Text(f"copied {into / each.name}"), soft_wrap=True)


def _imported(path: Path) -> list[Path]:
    """The examples that a script imports; they import no others."""
    if path.suffix != ".py":
        return []
    names = re.findall(r"^(?:from|import) (\w+)", path.read_text("utf-8"), re.MULTILINE)
    return [path.with_name(f"{name}.py") for name in names if path.with_name(f"{name}.py").is_file()]


__all__ = ["copy", "every", "folder", "show"]
