"""Build the wheel and the sdist, inspect them, and try them in an empty environment, for `make package` and related targets.

package.py build            dist/: wheel and sdist, checked
package.py try              installs the wheel into an empty environment and runs the README's example and a job file from there
package.py install          serves dist/ as a package index, as PyPI does, and installs panestream from it by its name
package.py conda            dist/conda/recipe.yaml: the recipe of packaging/conda with the version and the hash of the sdist
package.py sbom             dist/*.cdx.json: what that environment holds; and asks whether any of it is known to be vulnerable
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import venv
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
EMPTY = ROOT / ".venv-package"
RECIPE = ROOT / "packaging" / "conda" / "recipe.yaml"
PACKAGE = ROOT / "src" / "panestream"
DEMOS = ("examples/demos/", "examples/hot_items/")
"""The folders of the demos, which `make run` and `make demo-...` run from a clone."""
MUST = os.environ.get("PANESTREAM_AUDIT") == "required"
"""Whether a check that cannot run is an error. A release sets it."""
_UNREACHABLE = re.compile(r"NewConnectionError|ConnectionError|ProxyError|Temporary failure|timed out|No matching distribution")
_LARGEST = {".whl": 2_000_000, ".gz": 4_000_000}
"""The maximum bytes of a distribution, to detect data files in it."""
_UNWANTED = re.compile(r"(^|/)(\.venv|\.git/|__pycache__|\.data|node_modules)|\.(parquet|crc|pyc|png\.bak|csv\.gz)$")


class PackageError(Exception):
    """A fault of a distribution."""


class Skipped(Exception):  # noqa: N818 - it is no error
    """A check that cannot run on this machine."""


def main(arguments: list[str]) -> int:
    """Run one command."""
    commands = {"build": build, "try": try_it, "install": install_by_name, "conda": conda, "sbom": sbom}
    if len(arguments) != 1 or arguments[0] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        commands[arguments[0]]()
    except Skipped as reason:
        print(f"package {arguments[0]}: skipped: {reason}", file=sys.stderr)
        return 1 if MUST else 0
    except PackageError as error:
        print(f"package {arguments[0]}: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"package {arguments[0]}: {' '.join(map(str, error.cmd))} ended with {error.returncode}", file=sys.stderr)
        return 1
    return 0


def build() -> None:
    """Build wheel and sdist in dist/. The same commit gives the same bytes, and the sdist gives the same wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH") or _time_of_commit()}
    _build(ROOT, DIST, environment)
    wheel, sdist = _only(DIST, "*.whl"), _only(DIST, "*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        again = Path(folder) / "again"
        _build(_only(Path(folder), "panestream-*"), again, environment)
        for each in (wheel, sdist):
            if each.read_bytes() != (again / each.name).read_bytes():
                raise PackageError(f"{each.name} is another one when it is built from the sdist")
    check_wheel(wheel)
    check_sdist(sdist)
    _run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist])
    print(f"built and checked: {wheel.name} ({wheel.stat().st_size:,} bytes), {sdist.name} ({sdist.stat().st_size:,} bytes)")


def _build(source: Path, into: Path, environment: dict[str, str]) -> None:
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", into, source], env=environment, stdout=subprocess.DEVNULL)


def _time_of_commit() -> str:
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    # Outside of a clone, any constant time will do.
    return done.stdout.strip() or "315619200"


def check_wheel(wheel: Path) -> None:
    """Check that the wheel has exactly the files of the package and its metadata.

    Raises:
        PackageError: names the files.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(_one(names, r"panestream-[^/]+\.dist-info/METADATA")).decode()
        scripts = archive.read(_one(names, r"panestream-[^/]+\.dist-info/entry_points\.txt")).decode()
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    wanted = {path.relative_to(PACKAGE.parent).as_posix() for path in files}
    wanted |= {f"panestream/{name}" for name in examples() if not name.startswith(DEMOS)}
    _compare(wheel, wanted - names, {name for name in names - wanted if ".dist-info/" not in name})
    _one(names, r"panestream-[^/]+\.dist-info/licenses/LICENSE")
    if "panestream/py.typed" not in names:
        raise PackageError(f"{wheel.name} has no py.typed")
    for line in ("License-Expression: Apache-2.0", "Requires-Python: >=3.10", "Description-Content-Type: text/markdown"):
        if line not in metadata:
            raise PackageError(f"{wheel.name}: its metadata have no {line!r}")
    if re.search(r"^Requires-Dist: pyspark(?!.*extra ==)", metadata, re.MULTILINE):
        raise PackageError(f"{wheel.name} requires pyspark, which would replace a platform's own (docs/decisions/0001)")
    if "panestream = panestream.jobs.cli:app" not in scripts:
        raise PackageError(f"{wheel.name} has no command `panestream`")
    _check_names(wheel, names)


def examples() -> set[str]:
    """Return the files of examples/, relative to the root. The sdist has all of them, and the wheel all except the demo."""
    files = (path for path in (ROOT / "examples").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def check_sdist(sdist: Path) -> None:
    """Check that the sdist has everything for building and testing, and no data or caches.

    Raises:
        PackageError: names the files.
    """
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "PKG-INFO",
        "src/panestream/py.typed",
        "tests/conftest.py",
        *examples(),
    }
    _compare(sdist, wanted - names, set())
    _check_names(sdist, names)


def _check_names(file: Path, names: Iterable[str]) -> None:
    _compare(file, set(), {name for name in names if _UNWANTED.search(name)})
    if file.stat().st_size > _LARGEST[file.suffix]:
        raise PackageError(f"{file.name} has {file.stat().st_size:,} bytes: what slipped in?")


def _compare(file: Path, missing: set[str], surplus: set[str]) -> None:
    for what, which in (("lacks", missing), ("should not have", surplus)):
        if which:
            raise PackageError(f"{file.name} {what}: {', '.join(sorted(which)[:10])}")


def try_it() -> None:
    """Install the wheel alone, and run the README's first example and the job file visits.toml in an empty folder."""
    from readme_example import write_clicks

    python = empty_environment()
    example = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[0]
    look = (
        "\nimport panestream, sys\n"
        "assert 'site-packages' in panestream.__file__, panestream.__file__\n"
        "assert [row.clicks for row in ann.collect()] == [2, 3, 4, 2, 2]\n"
        "spark.stop()\n"
    )
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK", "VIRTUAL"))
    }
    with tempfile.TemporaryDirectory() as folder:
        write_clicks(Path(folder) / "clicks")
        _run([python, "-c", example + look], cwd=folder, env=environment)
        visits = Path(folder) / "data" / "visits"
        visits.mkdir(parents=True)
        clicks = ("shoes,2026-03-02 09:00:00", "hat,2026-03-02 09:10:00", "hat,2026-03-02 12:00:00")
        (visits / "clicks.csv").write_text("".join(f"ann,{click}\n" for click in clicks), "utf-8")
        for arguments in (("examples", "visits.toml"), ("run", "visits.toml")):
            _run([python.with_name("panestream"), *arguments], cwd=folder, env=environment)
        written = "".join(file.read_text("utf-8") for file in Path(folder).glob("output/visits/main/batch_id=*/*.json"))
        if [json.loads(line)["items"] for line in written.splitlines()] != [["shoes", "hat"]]:
            raise PackageError(f"visits.toml wrote {written!r}")
    print("installed and run from the wheel: the README's first example, and a job file")


def empty_environment() -> Path:
    """Make an environment with only the wheel and panestream[spark,cli], and return its Python."""
    wheel = _only(DIST, "*.whl")
    if not EMPTY.exists():
        venv.create(EMPTY, with_pip=True)
    python = EMPTY / "bin" / "python"
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    command = [str(part) for part in (*pip, "install", f"{wheel}[spark,cli]")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if _UNREACHABLE.search(done.stderr):
            raise Skipped(f"no package index has what the wheel needs: {done.stderr.strip().splitlines()[-1][:200]}")
        raise PackageError(f"the wheel cannot be installed:\n{done.stderr}")
    # An earlier wheel may have had the same version.
    _run([*pip, "install", "--force-reinstall", "--no-deps", wheel])
    _run([*pip, "check"])
    return python


def write_index(folder: Path, files: Iterable[Path]) -> None:
    """Write a package index with PyPI's simple interface: a page for each project, with the hash of each file."""
    projects: dict[str, list[Path]] = {}
    for file in files:
        name = re.sub(r"[-_.]+", "-", re.split(r"-\d", file.name)[0]).lower()
        projects.setdefault(name, []).append(file)
    for name, its in projects.items():
        page = folder / "simple" / name
        page.mkdir(parents=True)
        for file in its:
            shutil.copy(file, page / file.name)
        links = [f'<a href="{file.name}#sha256={_hash(file)}">{file.name}</a>' for file in its]
        (page / "index.html").write_text("<!doctype html>\n" + "<br>\n".join(links) + "\n", "utf-8")
    links = [f'<a href="{name}/">{name}</a>' for name in sorted(projects)]
    (folder / "simple" / "index.html").write_text("<!doctype html>\n" + "<br>\n".join(links) + "\n", "utf-8")


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine, and yield its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/simple/"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


def install_by_name() -> None:
    """Install panestream by its name from an index on this machine, as a wheel and as an sdist.

    The index contains only panestream. So this checks its part of an installation without dependencies: names, hashes, metadata.

    Raises:
        PackageError: another version was installed.
    """
    wheel, sdist = _only(DIST, "*.whl"), _only(DIST, "*.tar.gz")
    version = wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory() as folder:
        write_index(Path(folder) / "index", (wheel, sdist))
        with served(Path(folder) / "index") as address:
            for kind in ("wheel", "sdist"):
                target = Path(folder) / kind
                # hatchling, which builds the sdist, is already installed. The index does not have it.
                how = ["--only-binary", ":all:"] if kind == "wheel" else ["--no-binary", "panestream", "--no-build-isolation"]
                pip = [sys.executable, "-m", "pip", "--isolated", "--quiet", "--disable-pip-version-check", "install"]
                _run(
                    [
                        *pip,
                        *how,
                        "--no-deps",
                        "--no-cache-dir",
                        "--index-url",
                        address,
                        "--target",
                        target,
                        f"panestream=={version}",
                    ]
                )
                look = [sys.executable, "-c", "import panestream; print(panestream.__version__)"]
                environment = {**os.environ, "PYTHONPATH": str(target)}
                said = subprocess.run(
                    look, cwd=folder, env=environment, capture_output=True, text=True, check=True
                ).stdout.strip()
                if said != version:
                    raise PackageError(f"the {kind} of {version} installed {said}")
    print(f"installed by name from an index on this machine: panestream=={version}, from the wheel and from the sdist")


def conda() -> None:
    """Write the recipe for conda-forge with the version and the hash of the sdist in dist/."""
    sdist = _only(DIST, "*.tar.gz")
    recipe = DIST / "conda" / "recipe.yaml"
    recipe.parent.mkdir(exist_ok=True)
    recipe.write_text(filled_recipe(RECIPE.read_text("utf-8"), sdist), "utf-8")
    print(f"wrote {recipe.relative_to(ROOT)}")


def filled_recipe(text: str, sdist: Path) -> str:
    """Return the recipe with the version and the hash of an sdist.

    Raises:
        PackageError: the recipe lacks one of the two lines.
    """
    version = sdist.name.removeprefix("panestream-").removesuffix(".tar.gz")
    for pattern, value in (
        (r'^  version: "[\d.]+"$', f'  version: "{version}"'),
        (r"^  sha256: \w+$", f"  sha256: {_hash(sdist)}"),
    ):
        text, count = re.subn(pattern, value, text, flags=re.MULTILINE)
        if count != 1:
            raise PackageError(f"{RECIPE.relative_to(ROOT)} has {count} lines {pattern}, not one")
    return text


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def sbom() -> None:
    """List the environment of panestream[spark,cli] as CycloneDX, and check it for known vulnerabilities."""
    python, wheel = empty_environment(), _only(DIST, "*.whl")
    bill = DIST / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
    tool = Path(sys.executable).with_name("cyclonedx-py")
    about = ["--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "--output-reproducible"]
    _run([tool, "environment", *about, "--output-format", "JSON", "--output-file", bill, python])
    print(f"wrote {bill.relative_to(ROOT)}")
    audit(python)


def audit(python: Path) -> None:
    """Query PyPI for known vulnerabilities of the installed packages, and report if it cannot be reached.

    PANESTREAM_AUDIT=required makes that an error.

    Raises:
        PackageError: there are vulnerabilities, or a required check could not run.
    """
    ask = [python, "-c", "import site; print(site.getsitepackages()[0])"]
    said = subprocess.run(ask, capture_output=True, text=True, check=True)
    report = DIST / "audit.json"
    report.unlink(missing_ok=True)
    tool = Path(sys.executable).with_name("pip-audit")
    command = [tool, "--path", said.stdout.strip(), "--skip-editable", "--progress-spinner", "off", "--timeout", "10"]
    done = subprocess.run([*command, "--format", "json", "--output", report], capture_output=True, text=True, check=False)
    # pip-audit exits with 1 for findings and for failed requests. Only findings give a report.
    if not report.exists():
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        if MUST:
            raise PackageError(f"pip-audit could not ask: {reason}")
        print(f"pip-audit: skipped: its data cannot be reached: {reason[:200]}")
        return
    if done.returncode != 0:
        raise PackageError(f"pip-audit found something, see {report.relative_to(ROOT)}:\n{done.stdout}{done.stderr}")
    print("pip-audit: nothing known")


def _run(command: list[object], **how: object) -> None:
    subprocess.run([str(part) for part in command], check=True, **how)  # type: ignore[call-overload]


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise PackageError(f"{folder} has {len(found)} files {pattern}, not one: make package")
    return found[0]


def _one(names: Iterable[str], pattern: str) -> str:
    found = [name for name in names if re.fullmatch(pattern, name)]
    if len(found) != 1:
        raise PackageError(f"the wheel has {len(found)} files {pattern}, not one")
    return found[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
