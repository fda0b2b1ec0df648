"""Values that are shown to people as what they are; for everything else they are the numbers and texts that they were."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone


class Micros(int):
    """Microseconds since 1970, shown as a time.

    >>> Micros(90_500_000), Micros(-1), Micros(60) == 60
    (1970-01-01 00:01:30.500000, 1969-12-31 23:59:59.999999, True)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        try:
            time = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=int(self))
        except OverflowError:  # before the year 1 or after 9999
            return str(int(self))
        return time.replace(tzinfo=None).isoformat(" ")


class Written(str):
    """What a function gave, as text, since it need not be hashable; shown without quotes around its own.

    >>> ("ann", Written("('a', 1)"))
    ('ann', ('a', 1))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
