"""Spark reads the settings that the pages on platforms name: the classes of the installed PySpark contain them."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "how-to" / f"{name}.md" for name in ("databricks", "emr", "kubernetes")]
JARS = ("core", "common-utils", "catalyst", "sql-api", "sql", "kubernetes", "yarn")
NOT_OPEN_SOURCE = "spark.emr-serverless"
NO_SETTINGS = ("spark.conf", "spark.sql.execution.streaming.state.", "spark.internal.io.cloud.")
"""A call, and classes whose full name starts with ``org.apache.``."""
FAMILIES = {
    "spark.executorEnv.": (),
    "spark.yarn.appMasterEnv.": (),
    "spark.kubernetes.driver.volumes.": ("persistentVolumeClaim", "mount.path", "options.claimName"),
    "spark.kubernetes.executor.volumes.": ("persistentVolumeClaim", "emptyDir", "mount.path", "options.claimName"),
    "spark.sql.streaming.stateStore.rocksdb": (
        ".changelogCheckpointing.enabled",
        ".boundedMemoryUsage",
        ".maxMemoryUsageMB",
        ".trackTotalNumberOfRows",
    ),
}
"""Names that Spark builds: how they start, and what the rest may contain. Without a rest, users choose the name."""
SINCE = {"spark.python.unix.domain.socket.enabled": (4, 1)}
"""Settings that some versions lack, as the pages explain."""
VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))


def settings(text: str) -> set[str]:
    """Return the settings that a page names."""
    found = set(re.findall(r"(?<![\w.])spark\.[a-zA-Z][\w.-]*\w", text))
    return {name for name in found if not name.startswith((*NO_SETTINGS, NOT_OPEN_SOURCE))}


def strings_of(name: str) -> list[str]:
    """Return the strings that make up a setting's name in Spark's classes."""
    for prefix, parts in FAMILIES.items():
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            used = [part for part in parts if part in rest]
            # Search each part without the dot that joins it.
            return [prefix, *(part.removeprefix(".") for part in used)] if used or not parts else [name]
    return [name]


def absent(strings: set[str]) -> set[str]:
    """Return the strings that no class of Spark contains."""
    jars = Path(pyspark.__file__).parent / "jars"
    missing = {string.encode() for string in strings}
    for jar in (path for part in JARS for path in jars.glob(f"spark-{part}_*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in (name for name in archive.namelist() if name.endswith(".class")):
                content = archive.read(name)
                missing -= {string for string in missing if string in content}
    return {string.decode() for string in missing}


@pytest.mark.full
def test_settings_in_the_pages_exist_in_spark():
    named = {name for page in PAGES for name in settings(page.read_text("utf-8"))}
    assert len(named) > 15
    strings = {string for name in named for string in strings_of(name)}
    later = {name for name, since in SINCE.items() if since > VERSION}
    assert absent({*strings, "spark.sql.shuffle.partitionz"}) == {"spark.sql.shuffle.partitionz", *later}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_platform_page_lists_what_was_run_and_what_was_not(page):
    said = page.read_text("utf-8")
    assert all(f"**{word}" in said for word in ("Run:", "Not run:", "Looked up"))
