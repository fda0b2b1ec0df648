"""Archives on the path of Spark's Python workers are read once and stay fully usable."""

from __future__ import annotations

import importlib
import importlib.resources
import importlib.util
import os
import pkgutil
import sys
import zipfile
import zipimport
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from panestream.spark.compat import UnchangedArchive, cache_zip_imports
from panestream.spark.operator.task_functions import Unpack

CLASSES = {"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\n", "org/apache/Some.class": "", "worker_names/some.proto": ""}
PACKAGE = {
    "worker_package/__init__.py": "",
    "worker_package/first.py": "NUMBER = 1\n",
    "worker_package/later.py": "NUMBER = 2\n",
    "worker_package/data.txt": "three",
}

Make = Callable[[str, Mapping[str, str]], Path]


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Make]:
    """Write an archive of that name, and put it on the path like Spark: before all packages."""
    path, cache, modules = list(sys.path), dict(sys.path_importer_cache), set(sys.modules)

    def make(name: str, files: Mapping[str, str]) -> Path:
        written = write(tmp_path / name, files)
        if str(written) not in sys.path:
            sys.path.insert(1, str(written))
        return written

    yield make
    sys.path[:] = path
    sys.path_importer_cache.clear()
    sys.path_importer_cache.update(cache)
    for name in set(sys.modules) - modules:
        if name.startswith("worker_"):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Record each reading of a test archive's directory by Python."""
    seen: list[str] = []
    read = zipimport._read_directory  # type: ignore[attr-defined]

    def counted(path: str) -> object:
        if Path(path).is_relative_to(tmp_path):
            seen.append(Path(path).name)
        return read(path)

    monkeypatch.setattr(zipimport, "_read_directory", counted)
    return seen


def write(path: Path, files: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as target:
        for name, text in files.items():
            target.writestr(name, text)
    return path


def task_begins() -> None:
    """Do what a worker does before it calls a function of panestream, and import something not found (Python 3.13 then reads
    archives).
    """
    importlib.invalidate_caches()
    assert importlib.util.find_spec("worker_nowhere") is None


def number_of(module: str) -> int:
    number: int = importlib.import_module(module).NUMBER
    return number


def test_archive_is_read_once_and_not_in_every_task(archive: Make, reads: list[str]) -> None:
    archive("classes.jar", CLASSES)
    archive("python.zip", PACKAGE)
    task_begins()
    task_begins()
    assert reads.count("classes.jar") >= 2, "what panestream mends is gone from Python"
    cache_zip_imports()
    reads.clear()
    for _ in range(3):
        task_begins()
        cache_zip_imports()
    assert reads == []


def test_remembering_archives_reads_none_and_happens_once(archive: Make, reads: list[str]) -> None:
    jar = str(archive("classes.jar", CLASSES))
    task_begins()
    reads.clear()
    path = list(sys.path)
    cache_zip_imports()
    finder = sys.path_importer_cache[jar]
    assert isinstance(finder, UnchangedArchive)
    cache_zip_imports()
    assert sys.path_importer_cache[jar] is finder
    assert reads == []
    assert sys.path == path


@pytest.mark.parametrize("name", ["bindings.jar", "shipped.zip", "shipped.egg"])
def test_modules_in_an_archive_can_be_imported(archive: Make, reads: list[str], name: str) -> None:
    place = archive(name, PACKAGE)
    assert number_of("worker_package.first") == 1
    cache_zip_imports()
    task_begins()
    reads.clear()
    assert number_of("worker_package.later") == 2
    package = importlib.import_module("worker_package")
    assert importlib.resources.files(package).joinpath("data.txt").read_text() == "three"
    assert {each.name for each in pkgutil.iter_modules(package.__path__)} == {"first", "later"}
    assert {each.name for each in pkgutil.iter_modules([str(place)])} == {"worker_package"}
    assert reads == []


def test_package_that_was_not_imported_before_is_found(archive: Make) -> None:
    archive("bindings.jar", PACKAGE)
    task_begins()
    cache_zip_imports()
    assert number_of("worker_package.first") == 1


def test_archive_that_is_added_later_is_found(archive: Make, reads: list[str]) -> None:
    archive("classes.jar", CLASSES)
    task_begins()
    cache_zip_imports()
    archive("later.zip", PACKAGE)
    task_begins()
    assert number_of("worker_package.first") == 1
    cache_zip_imports()
    reads.clear()
    task_begins()
    assert reads == []


def test_folder_in_a_jar_is_still_part_of_a_namespace_package(archive: Make, reads: list[str], tmp_path: Path) -> None:
    # Like google/, which is in protobuf and in many jars.
    archive("classes.jar", {"worker_names/": "", **CLASSES})
    (tmp_path / "site" / "worker_names").mkdir(parents=True)
    (tmp_path / "site" / "worker_names" / "module.py").write_text("NUMBER = 4\n")
    sys.path.append(str(tmp_path / "site"))
    assert number_of("worker_names.module") == 4
    cache_zip_imports()
    reads.clear()
    task_begins()
    cache_zip_imports()
    assert importlib.util.find_spec("worker_names.nowhere") is None
    assert reads == []


def test_replaced_archive_is_read_again(archive: Make, reads: list[str]) -> None:
    place = archive("shipped.zip", {"worker_one.py": "NUMBER = 1\n"})
    assert number_of("worker_one") == 1
    cache_zip_imports()
    archive("shipped.zip", {"worker_one.py": "NUMBER = 1\n", "worker_two.py": "NUMBER = 2\n"})
    os.utime(place, ns=(1, 1))
    task_begins()
    assert number_of("worker_two") == 2
    reads.clear()
    task_begins()
    assert reads == []


def test_missing_archive_is_ignored(archive: Make) -> None:
    before, after = archive("before.jar", CLASSES), archive("after.zip", PACKAGE)
    task_begins()
    before.unlink()
    cache_zip_imports()
    after.unlink()
    task_begins()
    cache_zip_imports()
    write(after, PACKAGE)
    task_begins()
    assert number_of("worker_package.first") == 1


def test_foreign_path_finders_are_unchanged(archive: Make) -> None:
    class Own(zipimport.zipimporter):
        pass

    jar = str(archive("classes.jar", CLASSES))
    own = sys.path_importer_cache[jar] = Own(jar)
    cache_zip_imports()
    assert sys.path_importer_cache[jar] is own


def test_task_of_panestream_starts_by_remembering_archives(archive: Make) -> None:
    jar = str(archive("classes.jar", CLASSES))
    task_begins()
    assert list(Unpack(pa.schema([]))(iter([]))) == []
    assert isinstance(sys.path_importer_cache[jar], UnchangedArchive)
