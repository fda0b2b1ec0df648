#!/usr/bin/env bash
# Makes the virtual environment $1 with panestream (editable) and everything its development needs.
# PYTHON=/path/to/python chooses the interpreter; otherwise the first Python from 3.10 on that is found.
set -euo pipefail
venv=${1:?which folder?}

suits() { "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; }

choose_python() {
    local name
    # Spark 4.3 wants 3.11 or later, so a plain 3.10 comes last.
    for name in ${PYTHON:-python3 python3.12 python3.11 python3.13 python3.10}; do
        if command -v "$name" >/dev/null && suits "$name"; then
            command -v "$name"
            return
        fi
    done
    echo "panestream needs Python 3.10 to 3.13; found none. Install one, or name it: make PYTHON=/path/to/python3 <target>" >&2
    return 1
}

make_venv() {
    "$python" -m venv --clear "$venv" >/dev/null 2>&1 && "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

python=$(choose_python)
echo "Making $venv with $("$python" --version) (once; downloads PySpark, about 450 MB) ..." >&2
if ! make_venv; then
    # Debian and Ubuntu ship Python without ensurepip.
    version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "Installing $version-venv with apt-get ..." >&2
        apt-get update -qq >&2 || true
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$version-venv" >/dev/null ||
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
        make_venv || { "$python" -m venv --clear "$venv"; exit 1; }
    else
        echo "$python cannot make virtual environments. On Debian or Ubuntu: sudo apt-get install $version-venv" >&2
        exit 1
    fi
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade pip wheel setuptools
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
# Spark puts this archive before the installed package. It has no compiled code, so each Python worker would compile PySpark again.
rm -f "$venv"/lib/python*/site-packages/pyspark/python/lib/*.zip
