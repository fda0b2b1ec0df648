"""Print the oldest versions that pyproject.toml allows as requirements for pip, one a line. `make test-floor` installs them.

They cover panestream itself and its extras spark, cli and sketches. Requirements without a lower bound are left to pip. The tools
of the tests have their versions in `dev`. pandas is excluded, since only Spark Connect and the benchmarks may need it. With
``--as-is EXTRA``, print the unchanged requirements of that extra.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("spark", "cli", "sketches")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "click")


def lowest(requirement: str) -> str:
    """Turn ``name>=1.2,<3; marker`` into ``name==1.2; marker``.

    >>> lowest("pyspark>=4.1,<4.4"), lowest("tomli>=2; python_version < '3.11'"), lowest("numpy")
    ('pyspark==4.1', "tomli==2; python_version < '3.11'", 'numpy')
    """
    wanted, _, marker = requirement.partition(";")
    bound = re.fullmatch(r"\s*([\w-]+)\s*>=\s*([\w.]+).*", wanted)
    floor = wanted.strip() if bound is None else f"{bound[1]}=={bound[2]}"
    return f"{floor};{marker}" if marker else floor


def project() -> dict[str, Any]:
    """Return the `project` table of pyproject.toml."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        from pip._vendor import tomli as tomllib  # available before anything is installed
    said: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return said


def requirements() -> list[str]:
    """Return the requirements at their lowest versions, and the tools of the tests."""
    extras = project()["optional-dependencies"]
    wanted = [*project()["dependencies"], *(each for extra in EXTRAS for each in extras[extra])]
    tools = [each for each in extras["dev"] if re.match(r"[\w-]+", each)[0] in TOOLS]  # type: ignore[index]
    return sorted({lowest(each) for each in wanted}) + tools


if __name__ == "__main__":
    as_is = sys.argv[1:2] == ["--as-is"]
    print("\n".join(project()["optional-dependencies"][sys.argv[2]] if as_is else requirements()))
