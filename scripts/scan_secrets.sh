#!/usr/bin/env bash
# Looks for secrets in what git has: passwords, keys, tokens. What was looked at and is none stands in .secrets.baseline.
# Says why, and ends well, where the tool (of the extra `release`) cannot be had; PANESTREAM_AUDIT=required makes that an error.
#
#   scripts/scan_secrets.sh           what is new is an error, with file and line
#   scripts/scan_secrets.sh --renew   takes what is there now into the baseline: look at it before it is committed
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(scripts/make_release_env.sh)
if [ -z "$python" ]; then
    echo "secrets: skipped: there is no environment with detect-secrets"
    [ "${PANESTREAM_AUDIT:-}" = required ] && exit 1
    exit 0
fi
tools=$(dirname "$python")
if [ "${1:-}" = --renew ]; then
    "$tools/detect-secrets" scan --baseline .secrets.baseline
    exit 0
fi
# The hook ends with 3 if known findings only moved to other lines. It writes those lines, so it gets a copy.
known=$(mktemp)
trap 'rm -f "$known"' EXIT
cp .secrets.baseline "$known"
# shellcheck disable=SC2016  # the inner shell reads its own arguments
git ls-files -z ':!.secrets.baseline' | xargs -0 sh -c '"$@" || [ $? -eq 3 ]' scan "$tools/detect-secrets-hook" --baseline "$known"
echo "secrets: none that are new"
