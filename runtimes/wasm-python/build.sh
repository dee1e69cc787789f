#!/usr/bin/env bash
# Builds the Python engine: build.sh OUT.wasm. WASI's interfaces are described by the crate that the host serves them with, so
# both agree. Python packages are installed once, below the user's cache.
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sless
venv=$cache/python/venv-$(sha256sum requirements.txt | cut -c1-16)
if [ ! -x "$venv/bin/componentize-py" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: -r requirements.txt
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
host=$(rustc -vV | sed -n 's/^host: //p')
crate=$(cargo metadata --format-version 1 --filter-platform "$host" --manifest-path ../../Cargo.toml | python3 -c '
import json, sys
packages = json.load(sys.stdin)["packages"]
print(next(p["manifest_path"] for p in packages if p["name"] == "wasmtime-wasi-http").removesuffix("/Cargo.toml"))')
mkdir "$work/wit"
cp -r "$crate/wit/deps" "$work/wit/deps"
cp wit/engine.wit "$work/wit/"
# Not from within the venv: its own packages must not get into the engine.
env -u VIRTUAL_ENV "$venv/bin/python" "$venv/bin/componentize-py" --quiet -d "$work/wit" -w engine componentize main \
    -p . -p ../python3.11 -o "$work/engine.wasm"
mkdir -p "$(dirname "$out")"
mv "$work/engine.wasm" "$out"
