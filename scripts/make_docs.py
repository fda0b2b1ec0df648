"""Build the site of docs/ in build/docs: English, and Chinese in zh/ with a separate search. No network is used.

    .venv/bin/python scripts/make_docs.py [FOLDER] [--serve PORT]

Spark is not needed, because a page runs only as far as its last drawing.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def build(target: Path, *, fresh: bool = False) -> int:
    """Build both languages, with every warning as an error. Return the exit status.

    Args:
        target: the folder of the site. Sphinx keeps its cache next to it.
        fresh: read all pages again, including unchanged ones.
    """
    trees = target.parent / f"{target.name}-trees"
    for source, out, kept in ((DOCS, target, trees / "en"), (DOCS / "zh", target / "zh", trees / "zh")):
        tags = ["-t", "zh"] if source != DOCS else []
        options = ["-q", "-W", "--keep-going", "-b", "html", "-c", DOCS, "-d", kept, *(["-E", "-a"] if fresh else []), *tags]
        # Not in parallel, because drawings change the current folder. A separate process, because Sphinx and page code leave
        # state behind.
        command = [sys.executable, "-m", "sphinx", *map(str, options), str(source), str(out)]
        done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 - Sphinx, of this Python
        if done.returncode:
            return done.returncode
    print(f"built {target / 'index.html'}")
    return 0


def serve(target: Path, port: int) -> None:
    """Serve the site on this machine until Ctrl+C."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(target))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "docs")
    asked.add_argument("--fresh", action="store_true", help="read all pages again")
    asked.add_argument("--serve", type=int, metavar="PORT", help="and show it on this machine; 0: any port that is free")
    given = asked.parse_args()
    status = build(given.folder.resolve(), fresh=given.fresh)
    if status == 0 and given.serve is not None:
        serve(given.folder.resolve(), given.serve)
    sys.exit(status)
