"""Update the table in docs/reference/metrics.md from the existing metrics. The rest of the page is written by hand.

A test fails if the page is outdated.

    make metrics-table
"""

from __future__ import annotations

import re
from pathlib import Path

from panestream.metrics.table import ALL

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "metrics.md"

_MARKED = re.compile(r"(<!-- made: metrics -->\n).*?(<!-- end -->)", re.DOTALL)


def table() -> list[str]:
    """Return a line for each metric."""
    lines = ["| metric | kind | unit | labels | meaning |", "|---|---|---|---|---|"]
    for metric in ALL:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or ("" if metric.by_query else "not even `query`")
        lines.append(f"| `{metric.shown}` | {metric.kind} | {metric.unit} | {labels} | {metric.text} |")
    return lines


def renewed(text: str) -> str:
    """Return the page with an updated table."""
    return _MARKED.sub(lambda mark: mark[1] + "\n".join(table()) + "\n" + mark[2], text)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), encoding="utf-8")
    print(f"renewed {PAGE}")
