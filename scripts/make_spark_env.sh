#!/usr/bin/env bash
# Makes the virtual environment .venv-spark-$1 with the PySpark that scripts/spark_versions.py names for the line $1 (4.0, 4.1, …) and
# what the tests need, and prints its Python. Prints nothing, and says why on stderr, where that is not possible on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
line=${1:?which Spark, e.g. 4.1?}
venv=".venv-spark-$line"
made="$venv/.made-from"
skip() { echo "Spark $line: skipped: $1" >&2; exit 0; }

find_python() {
    local name
    for name in "python$1" "${HOME:-}"/.pyenv/versions/"$1".*/bin/python; do
        if command -v "$name" >/dev/null && "$name" -c "import sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    return 1
}

any_python=$(command -v python3) || skip "there is no python3 here"
python=""
for version in $("$any_python" scripts/spark_versions.py --pythons "$line"); do
    python=$(find_python "$version") && break
done
[ -n "$python" ] || skip "none of the Pythons that this version is tested with is here"
requirements=$("$any_python" scripts/spark_versions.py --requirements "$line")
wanted="$("$python" --version)
$requirements"
if [ ! -f "$made" ] || [ "$(cat "$made")" != "$wanted" ]; then
    echo "Making $venv with $("$python" --version) (once; downloads PySpark, about 450 MB) ..." >&2
    "$python" -m venv --clear "$venv" >/dev/null 2>&1 || skip "$python cannot make virtual environments"
    pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
    "${pip[@]}" install wheel setuptools >&2 || skip "no package index can be reached"
    echo "$requirements" | "${pip[@]}" install --requirement /dev/stdin >&2
    echo "$wanted" > "$made"
fi
# As in make_venv.sh: without this archive, Python workers import the compiled package.
rm -f "$venv"/lib/python*/site-packages/pyspark/python/lib/*.zip
echo "$PWD/$venv/bin/python"
