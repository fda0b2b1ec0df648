"""Shared fixtures and settings: one Spark session for the whole run, and the folder with real data if it exists."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from panestream.engine.storage.sealed_state import SmallValues
from scripts.class_archive import ARCHIVE, OPTIONS
from tests import costs, selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A busy machine must not fail a test. A failure prints a blob that reproduces it.
settings.register_profile("panestream", deadline=None, print_blob=True, max_examples=costs.random_cases(100))
settings.load_profile("panestream")

ROOT = Path(__file__).resolve().parent.parent
os.environ["PYSPARK_PYTHON"] = sys.executable
# Tests must not depend on the caller's environment: settings that colour or fold text, or that select another Spark.
for _name in (
    *(
        "NO_COLOR",
        "FORCE_COLOR",
        "PY_COLORS",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "GITHUB_ACTIONS",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
    ),
    *("COLUMNS", "LINES", "TERM", "TYPER_USE_RICH", "TERMINAL_WIDTH"),
    *("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "SPARK_API_MODE", "MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_DRIVER_PYTHON"),
):
    os.environ.pop(_name, None)
# For Spark's workers, which import the modules that functions come from.
_IMPORTED = [str(ROOT / "src"), str(ROOT), str(ROOT / "examples"), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(_IMPORTED).rstrip(os.pathsep)

# A JVM ignores a class archive that is missing or does not fit, and loads its classes as usual.
_MAPPED = f" -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.is_file() else ""
# Each JVM leaves a file with its process id, so that `tests/costs.py` can count them. Nothing else is logged.
_COUNTED = f" -Xlog:disable -Xlog:safepoint=off:file={costs.jvm_folder()}/%p"
os.environ["SPARK_SUBMIT_OPTS"] = OPTIONS + _MAPPED + _COUNTED


@pytest.fixture(scope="module")
def values_apart() -> Iterator[None]:
    """Keep every value of a key group in the store, as if it were large, and none in the meta record."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SmallValues, "MAX_BYTES", -1)
        yield


@pytest.fixture
def viewfs(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A file system that only Spark reaches: the folder of the test under another scheme."""
    name = f"t{abs(hash(str(tmp_path)))}"
    option = f"fs.viewfs.mounttable.{name}.link./data"
    spark.conf.set(option, tmp_path.as_uri())
    yield f"viewfs://{name}/data"
    spark.conf.unset(option)


@pytest.fixture(scope="session")
def event_data() -> Path:
    """Return the folder with real event data, `PANESTREAM_DATA` or `../shared/data` next to the project. Skip if it is missing."""
    folder = Path(os.environ.get("PANESTREAM_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("real event data is not here: set PANESTREAM_DATA to a folder with it")
    return folder


def pytest_configure(config: pytest.Config) -> None:
    """Count what tests cost, and hold `make test` to its budget."""
    costs.register(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as `full` what needs Spark and is neither an example of a docstring nor in the list of `make test`."""
    selected = selection.read()
    for item in items:
        if (
            item.get_closest_marker("spark")
            and not isinstance(item, pytest.DoctestItem)
            and not selection.holds(selected, item.nodeid)
        ):
            item.add_marker(pytest.mark.full)
    items[:] = [items[at] for at in selection.in_order(selected, [item.nodeid for item in items])]
