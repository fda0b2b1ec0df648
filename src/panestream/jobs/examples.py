"""``panestream examples``: lists the examples of the installation, and copies one."""

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
    """Return the folder of the examples: in an installed package, or next to the package in a source tree."""
    for place in (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples"):
        if (place / "hot_items.toml").is_file():
            return place
    raise JobError("this installation has no examples: they are in the wheel and in the sdist of panestream")


def every() -> Mapping[str, str]:
    """Return the examples with the first sentence of each."""
    found = {path.name: _first_words(path.read_text("utf-8")) for path in sorted(folder().glob("*.[tp][oy]*"))}
    for readme in sorted(folder().glob("*/README.md")):
        found[readme.parent.name] = readme.read_text("utf-8").partition("\n")[0].lstrip("# ") + " (a folder)"
    return found


def _first_words(text: str) -> str:
    line = text.partition("\n")[0]
    return line[3:] if line.startswith('"""') else line.lstrip("# ")


def show(console: PipeConsole) -> None:
    """Print the examples with a sentence about each."""
    table = Table.grid(padding=(0, 2))
    for name, words in every().items():
        table.add_row(Text(name), Text(words, style="dim"))
    console.print(table)
    console.print(Text("\npanestream examples NAME [FOLDER] copies one."))


def copy(name: str, into: Path, console: PipeConsole) -> None:
    """Copy an example with the examples that it imports; raise ``JobError`` if it is unknown or a target file exists."""
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
    """Return the examples that a script imports; those import no others."""
    if path.suffix != ".py":
        return []
    names = re.findall(r"^(?:from|import) (\w+)", path.read_text("utf-8"), re.MULTILINE)
    return [path.with_name(f"{name}.py") for name in names if path.with_name(f"{name}.py").is_file()]


__all__ = ["copy", "every", "folder", "show"]
