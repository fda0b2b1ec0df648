"""``python -m panestream.testing.simulate``, and the function of that name: all of it is in :mod:`panestream.testing.simulation`.

A package of its own: once it is loaded ``panestream.testing.simulate`` is the function, behind which nobody would find a module.
"""

from panestream.testing.simulation import simulate

__all__ = ["simulate"]
