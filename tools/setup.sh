#!/usr/bin/env bash
# Everything that a build needs beside Rust itself: system packages (as root; else it prints the exact list and ends), and
# the guests' compiler. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

if ! command -v cargo >/dev/null; then
  say "there is no cargo; install Rust with rustup, then open a new shell"
  exit 1
fi

# Some dependencies have C and assembly in them (SQLite, ring, mimalloc), so a C compiler and its headers are needed.
missing=()
command -v cc >/dev/null && echo '#include <stdlib.h>' | cc -E - >/dev/null 2>&1 || missing+=(gcc libc6-dev)
command -v curl >/dev/null || missing+=(curl)
command -v git >/dev/null || missing+=(git)
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)

# Engines of languages (`cargo xtask engines`): QuickJS is C for wasm, and parts of its globals are npm packages.
command -v clang-19 >/dev/null || missing+=(clang-19 llvm-19)
[ -e /usr/include/wasm32-wasi/stdlib.h ] || missing+=(wasi-libc)
compgen -G '/usr/lib/llvm-19/lib/clang/19/lib/wasi/libclang_rt.builtins-wasm32.a' >/dev/null || missing+=(libclang-rt-19-dev-wasm32)
command -v npm >/dev/null || missing+=(npm)

if [ ${#missing[@]} != 0 ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    # What the guests' compiler may need is on the list too, so that one round is enough.
    mapfile -t -O ${#missing[@]} missing < <(tools/wasm-rust.sh check 2>/dev/null || tools/wasm-rust.sh packages)
    say "these packages are missing; as root: apt-get update && apt-get install -y ${missing[*]}"
    exit 1
  fi
  say "installing ${missing[*]}"
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >&2
fi

tools/wasm-rust.sh setup
