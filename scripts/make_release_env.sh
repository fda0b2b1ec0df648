#!/usr/bin/env bash
# Makes the virtual environment .venv-release with the tools of the extra `release` (not panestream itself), and prints its Python.
# Prints nothing, and says why on stderr, where that is not possible on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-release
made="$venv/.made-from"
skip() { echo "packaging: skipped: $1" >&2; exit 0; }

python=${RELEASE_PYTHON:-$(command -v python3)} && [ -x "$python" ] || skip "there is no python3 here"
wanted=$("$python" --version && "$python" scripts/lowest.py --as-is release) || skip "$python has no pip"
if [ ! -f "$made" ] || [ "$(cat "$made")" != "$wanted" ]; then
    "$python" -m venv --clear "$venv" >/dev/null 2>&1 || skip "$python cannot make virtual environments"
    "$python" scripts/lowest.py --as-is release |
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement /dev/stdin >&2 || skip "no package index can be reached"
    echo "$wanted" > "$made"
fi
echo "$PWD/$venv/bin/python"
