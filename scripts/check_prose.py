"""Check the English of documentation and docstrings: ``python scripts/check_prose.py [--show] [PATH ...]``.

``docs/vocabulary.toml`` lists what to avoid. The exit status is 1 if more sentences of a file or folder are flagged than it
allows.
It counts and does not judge: a flagged sentence can be right, and a dull page passes.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
CHECKED = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "changelog.d", "docs", "src/panestream", "tests")


def sentences_of(text: str) -> Iterator[str]:
    r"""Yield the sentences of prose, without code, links and tables.

    >>> list(sentences_of("Use `this`. Then [that](there.md).\n\n    code\n"))
    ['Use CODE.', 'Then that.']
    """
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"(?m)^( {4}|\||>>>|\.\.\.).*$", "", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*#] )|\n(?=\d+\. )", text):
        for sentence in re.split(r"(?<=[.?!])\s+(?=[A-Z*(])", " ".join(paragraph.split()).lstrip("-*# ")):
            if len(sentence.split()) > 1:
                yield sentence


def prose_in(path: Path) -> Iterator[str]:
    """Yield the sentences of a page, or of the docstrings of a module."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        yield from sentences_of(text)
        return
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str):
                yield from sentences_of("\n".join(line.strip() for line in each.value.value.splitlines()))


def main(words: list[str]) -> int:
    """Check each path; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print the flagged sentences")
    parser.add_argument("paths", nargs="*", default=[str(ROOT / path) for path in CHECKED])
    chosen = parser.parse_args(words)
    rules = tomllib.loads((ROOT / "docs" / "vocabulary.toml").read_text("utf-8"))
    avoid = {re.compile(pattern): instead for pattern, instead in rules["avoid"].items()}
    failed = False
    for name in chosen.paths:
        root = Path(name)
        files = [root] if root.is_file() else sorted(each for each in root.rglob("*") if each.suffix in (".md", ".py"))
        files = [each for each in files if "zh" not in each.parts]
        total = flagged = 0
        for path in files:
            for sentence in prose_in(path):
                total += 1
                found = next((instead for pattern, instead in avoid.items() if pattern.search(sentence)), None)
                if len(sentence.split()) > rules["max_words"]:
                    found = f"at most {rules['max_words']} words"
                if found is not None:
                    flagged += 1
                    if chosen.show:
                        print(f"{path}: {sentence}\n    -> {found}")
        share = 100 * flagged / max(total, 1)
        failed |= share > rules["max_flagged"]
        print(f"prose: {name}: {share:.1f} % of {total} sentences flagged")
    if failed:
        print(f"more than {rules['max_flagged']:g} %: see them with python scripts/check_prose.py --show PATH")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
