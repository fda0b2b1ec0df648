"""Moves the fragments of changelog.d/ into CHANGELOG.md, and dates the newest version.

    .venv/bin/python scripts/make_changelog.py [--day 2026-11-28]
    .venv/bin/python scripts/make_changelog.py --check v0.1.0      # what a release must have; changes nothing

Run it again on the day of the release: it adds the fragments that came since, and sets the new date.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("Added", "Changed", "Fixed", "Removed")
MORE = "#### More"
"""The heading of fragments below "Added", whose other entries have headings by topic."""
_FRAGMENT = re.compile(rf"({'|'.join(KINDS)})(:?) (.+)", re.DOTALL)
_TITLE = re.compile(r"^## (?:Unreleased \((?P<coming>[\d.]+)\)|(?P<dated>[\d.]+) \([\d-]+\))$", re.MULTILINE)


class ChangelogError(Exception):
    """What is wrong with a fragment or with the changelog."""


def entry(name: str, text: str) -> tuple[str, str]:
    r"""Return the kind of a fragment and its line.

    >>> entry("a.md", "Fixed: a row\nwas lost.")
    ('Fixed', '- A row was lost.')
    >>> entry("b.md", "Added names of PySpark.")
    ('Added', '- Added names of PySpark.')

    Raises:
        ChangelogError: it does not begin with a kind.
    """
    words = " ".join(text.split())
    found = _FRAGMENT.fullmatch(words)
    if found is None:
        raise ChangelogError(f"changelog.d/{name} must start with one of {', '.join(KINDS)}")
    kind, colon, rest = found.groups()
    return kind, f"- {rest[0].upper()}{rest[1:]}" if colon else f"- {words}"


def released(changelog: str, fragments: dict[str, str], day: dt.date) -> str:
    """Return the changelog with the fragments in its first version, which gets this day.

    Raises:
        ChangelogError: a fragment has no kind, or there is no version.
    """
    title = _TITLE.search(changelog)
    if title is None:
        raise ChangelogError("CHANGELOG.md has no heading such as '## Unreleased (0.1.0)'")
    end = next((each.start() for each in re.finditer(r"^## ", changelog, re.MULTILINE) if each.start() > title.end()), None)
    body, rest = changelog[title.end() : end], changelog[end:] if end is not None else ""
    lines: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name, text in sorted(fragments.items()):
        kind, line = entry(name, text)
        lines[kind].append(line)
    for kind in KINDS:
        body = _with_lines(body, kind, lines[kind])
    return f"{changelog[: title.start()]}## {title['coming'] or title['dated']} ({day}){body.rstrip()}\n" + (
        f"\n{rest}" if rest else ""
    )


def _with_lines(body: str, kind: str, lines: list[str]) -> str:
    if not lines:
        return body
    heading = f"\n### {kind}\n"
    if heading not in body:
        return f"{body.rstrip()}\n{heading}\n" + "\n".join(lines) + "\n"
    before, _, after = body.partition(heading)
    section, mark, others = after.partition("\n### ")
    section = section.rstrip()
    if kind == "Added" and MORE not in section:
        section += f"\n\n{MORE}\n"
    return f"{before}{heading}{section}\n" + "\n".join(lines) + "\n" + (mark + others if mark else "")


def faults(changelog: str, fragments: dict[str, str], tag: str) -> list[str]:
    """Return what a release by this tag lacks."""
    version = tag.removeprefix("v")
    found = (
        []
        if re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE)
        else [f"CHANGELOG.md has no dated {version}"]
    )
    return found + [f"changelog.d/{name} is not in CHANGELOG.md: run make changelog" for name in sorted(fragments)]


def main(words: list[str]) -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--day", type=dt.date.fromisoformat, default=dt.datetime.now(dt.timezone.utc).date())
    parser.add_argument("--check", metavar="TAG", help="only report what a release by this tag lacks")
    chosen = parser.parse_args(words)
    file = ROOT / "CHANGELOG.md"
    paths = [path for path in sorted((ROOT / "changelog.d").glob("*.md")) if path.name != "README.md"]
    fragments = {path.name: path.read_text("utf-8") for path in paths}
    if chosen.check:
        wrong = faults(file.read_text("utf-8"), fragments, chosen.check)
        print("\n".join(wrong) or "the changelog is ready")
        return bool(wrong)
    file.write_text(released(file.read_text("utf-8"), fragments, chosen.day), "utf-8")
    for path in paths:
        path.unlink()
    print(f"moved {len(paths)} fragments; CHANGELOG.md is dated {chosen.day}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ChangelogError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
