"""How PyYAML reads a job file. Imported when a file is YAML: the library does without PyYAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from panestream.errors import JobError
from panestream.jobs.file_limits import MAX_DEPTH, MAX_VALUES, cut

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MAX_DIGITS = 100


class Loader(yaml.SafeLoader):
    """Reads a job file, and refuses what would take long: it looks at each node before it goes on.

    Args:
        path: of the file, for errors.
        text: of the file.
    """

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.path = path
        self.depth = self.nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Called by PyYAML for each node."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        place = f"{self.path}:{event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent):
            # An alias may repeat, or contain, what it stands in: a few lines could unfold into gigabytes.
            raise JobError(f"{place}: aliases (*{event.anchor}) are not supported in job files")
        self.nodes += 1
        if self.nodes > 2 * MAX_VALUES:  # keys are nodes, too
            raise JobError(f"{place}: more than {MAX_VALUES:,} values are too many for a job file")
        if self.depth > MAX_DEPTH:
            raise JobError(f"{place}: nested too deeply for a job file (more than {MAX_DEPTH} levels)")
        self.depth += 1
        node: Any = super().compose_node(parent, index)
        self.depth -= 1
        if node.tag in _NUMBERS and len(node.value) > _MAX_DIGITS:
            raise JobError(f"{place}: a number of {len(node.value):,} characters is too large")
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Called by PyYAML for the value of each node."""
        try:
            return super().construct_object(node, deep)
        except ValueError as error:  # the 45th of a month
            if isinstance(error, JobError):
                raise
            raise JobError(f"{self.path}:{node.start_mark.line + 1}: not valid YAML: {cut(str(error))}") from None


__all__ = ["Loader"]
