"""Faults that no test can notice, since they change nothing that is promised: each with the reason.

`run.py` reads it: what stands here is told in the table as equivalent, and what survives without standing here is a hole.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
