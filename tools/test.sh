#!/usr/bin/env bash
# Sets the machine up and runs everything that a change has to pass. `tools/test.sh STEP…` runs only these steps;
# `cargo xtask ci --list` names them.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh
tools/setup.sh
cargo xtask ci "$@"
