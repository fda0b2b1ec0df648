"""Fragments become entries of the changelog, and a release needs all of them there, with a date."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from scripts.make_changelog import ChangelogError, entry, faults, released

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = """# Changelog

## Unreleased (0.2.0)

### Added

#### Windows

- Windows.

### Fixed

- A fault.

## 0.1.0 (2026-11-28)

- The first version.
"""
FRAGMENTS = {"b.md": "Fixed: another fault.\n", "a.md": "Added a window\nof a day.\n", "c.md": "Removed: a name."}
DAY = dt.date(2026, 12, 24)


def test_fragments_go_into_the_sections_of_their_kind():
    made = released(CHANGELOG, FRAGMENTS, DAY)
    assert made == CHANGELOG.replace("Unreleased (0.2.0)", "0.2.0 (2026-12-24)").replace(
        "- Windows.\n", "- Windows.\n\n#### More\n\n- Added a window of a day.\n"
    ).replace("- A fault.\n", "- A fault.\n- Another fault.\n\n### Removed\n\n- A name.\n")


def test_a_second_run_adds_what_came_since_and_sets_the_new_date():
    once = released(CHANGELOG, {"a.md": FRAGMENTS["a.md"]}, dt.date(2026, 12, 1))
    assert released(once, {name: FRAGMENTS[name] for name in ("b.md", "c.md")}, DAY) == released(CHANGELOG, FRAGMENTS, DAY)


def test_a_release_without_a_date_or_with_fragments_left_is_refused():
    assert faults(CHANGELOG, {"a.md": ""}, "v0.2.0") == [
        "CHANGELOG.md has no dated 0.2.0",
        "changelog.d/a.md is not in CHANGELOG.md: run make changelog",
    ]
    assert faults(released(CHANGELOG, FRAGMENTS, DAY), {}, "v0.2.0") == []


def test_a_fragment_without_a_kind_is_refused():
    with pytest.raises(ChangelogError, match=r"changelog.d/x.md must start with one of Added"):
        entry("x.md", "Improved: speed.")


def test_every_fragment_has_a_kind():
    for path in (ROOT / "changelog.d").glob("*.md"):
        if path.name != "README.md":
            assert entry(path.name, path.read_text("utf-8"))
