"""What states have in common that can be looked at: a summary, and how they show themselves in a notebook."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from panestream.engine.plan import WindowPlan
from panestream.engine.shown import Shown
from panestream.inspection.asked import Asked, asked_of
from panestream.inspection.page import notebook_of
from panestream.inspection.summary import Summary


class ShownState(Shown):
    """A state that can be looked at: of a checkpoint, or of a savepoint."""

    @property
    @abstractmethod
    def plan(self) -> WindowPlan:
        """The query's."""

    @abstractmethod
    def _summary(self, asked: Asked) -> Summary:
        """The summary of a part of it."""

    def summary(self, keys: Sequence[str] = (), windows: Sequence[str] = (), *, most: int = 10) -> Summary:
        r"""What the state holds, in few numbers: what ``panestream inspect`` shows.

        Spark reads and decodes each key group once; what comes to the driver does not grow with the state.

        Args:
            keys: only of this key: ``column=value`` for some of the key columns, the value alone where there is one; ``\N`` is
                null.
            windows: only windows that hold this time (ISO 8601; without a zone: UTC), or of the kind with this label.
            most: how many of each list: the oldest windows, the largest keys and so on.

        Returns:
            Plain data; in a notebook it shows itself with pictures.

        Raises:
            CheckpointError: there is no such key column or kind of windows, or a value is not of the column's type.
        """
        return self._summary(asked_of(self.plan, keys, windows, most))

    def _repr_html_(self) -> str:
        """For notebooks: the summary, which Spark is asked for here; a mere ``repr`` asks nothing."""
        return notebook_of(self._summary(Asked()))


__all__ = ["ShownState"]
