"""The lines of Spark that panestream is tested with, and the environment of each.

    python scripts/spark_versions.py --lines
    python scripts/spark_versions.py --pythons 4.1
    python scripts/spark_versions.py --requirements 4.1

It runs with any Python 3 outside of all environments, because it defines their contents.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple


class Line(NamedTuple):
    """One line of Spark.

    Attributes:
        pyspark: the tested release. For a line with connectors, it is the newest that all of them support.
        pythons: the order of the search for a Python.
    """

    pyspark: str
    pythons: tuple[str, ...]


LINES = {
    "4.0": Line("4.0.4", ("3.10", "3.11", "3.12")),
    "4.1": Line("4.1.1", ("3.12", "3.11", "3.10", "3.13")),
    "4.2": Line("4.2.0", ("3.13", "3.12", "3.11", "3.10")),
    "4.3": Line("4.3.0", ("3.11", "3.12", "3.13")),
}

TESTS_NEED = (
    "click>=8.2",
    "confluent-kafka>=2.14",
    "datasketches>=5.2,<6",
    "googleapis-common-protos>=1.71",
    "grpcio-status>=1.76",
    "grpcio>=1.76",
    "hypothesis>=6.130",
    "matplotlib>=3.8",
    "numpy",
    "opentelemetry-sdk>=1.30",
    "pandas>=2.2,<3",
    "prometheus-client>=0.22",
    "protobuf>=6.33.5",
    "psutil>=6",
    "pyarrow>=18",
    "pytest-xdist>=3.6",
    "pytest>=9",
    "psycopg[binary]>=3.2",
    "pyyaml>=6",
    "redis>=5",
    "rich>=13.8",
    "tomli>=2; python_version < '3.11'",
    "typer>=0.20",
    "zstandard>=0.25",
)


def main() -> None:
    """Print the requested items, one a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--lines", action="store_true")
    asked.add_argument("--pythons", choices=LINES)
    asked.add_argument("--requirements", choices=LINES)
    chosen = parser.parse_args()
    if chosen.lines:
        items: tuple[str, ...] = tuple(LINES)
    elif chosen.pythons:
        items = LINES[chosen.pythons].pythons
    else:
        items = (f"pyspark=={LINES[chosen.requirements].pyspark}", *TESTS_NEED)
    print("\n".join(items))


if __name__ == "__main__":
    main()
