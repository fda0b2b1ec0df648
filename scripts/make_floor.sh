#!/usr/bin/env bash
# Makes the virtual environment $1 with the oldest Python that is here from 3.10 on and the oldest libraries that pyproject.toml
# allows, without pandas, and prints its Python. Prints nothing, and says why on stderr, where that is not possible on this machine.
# FLOOR_PYTHON=/path/to/python chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:?which folder?}
made="$venv/.made-from"

oldest_python() {
    local name
    for name in ${FLOOR_PYTHON:-python3.10 "${HOME:-}"/.pyenv/versions/3.10.*/bin/python python3.11 python3.12 python3.13 python3}; do
        if command -v "$name" >/dev/null && "$name" -c 'import sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))' 2>/dev/null
        then
            command -v "$name"
            return
        fi
    done
    return 1
}

skip() { echo "make test-floor: skipped: $1" >&2; exit 0; }

python=$(oldest_python) || skip "there is no Python 3.10 to 3.13 here"
# pip brings what reads pyproject.toml with Python 3.10.
wanted=$("$python" --version && "$python" scripts/lowest.py) || skip "$python has no pip"
if [ -f "$made" ] && [ "$(cat "$made")" = "$wanted" ]; then
    echo "$PWD/$venv/bin/python"
    exit
fi
echo "Making $venv with $("$python" --version) and the oldest libraries allowed (once; downloads PySpark, about 450 MB) ..." >&2
"$python" -m venv --clear "$venv" >/dev/null 2>&1 || skip "$python cannot make virtual environments"
pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install wheel setuptools >&2 || skip "no package index can be reached"
"$venv/bin/python" scripts/lowest.py | "${pip[@]}" install --requirement /dev/stdin >&2
if "$venv/bin/python" -c 'import pandas' 2>/dev/null; then
    echo "pandas is in $venv: some library brought it, so nothing would be shown" >&2
    exit 1
fi
echo "$wanted" > "$made"
echo "$PWD/$venv/bin/python"
