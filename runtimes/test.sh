#!/usr/bin/env bash
# Tests the container runtimes: their servers on the wire and in their life, then the conformance cases on both.
# Needs python3.11 and node 20 (PYTHON and NODE name others). Takes less than a minute. Closing line: `N passed, N failed`.
set -uo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3.11}
command -v "$PYTHON" > /dev/null || PYTHON=python3
NODE=${NODE:-node}
export PYTHON NODE PYTHONDONTWRITEBYTECODE=1

"$PYTHON" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "python 3.11 is needed; set PYTHON"; exit 1; }
[[ $("$NODE" --version) == v20.* ]] || { echo "node 20 is needed; set NODE"; exit 1; }

passed=0 failed=0
for part in runtimes/tests/run.py "tests/conformance/run.py --runtime python3.11 --runtime nodejs20"; do
    # shellcheck disable=SC2086
    output=$("$PYTHON" $part) || true
    echo "$part:"
    sed 's/^/  | /' <<< "$output"
    closing=$(tail -n 1 <<< "$output")
    if [[ $closing =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
((failed == 0))
