#!/usr/bin/env bash
# Builds the engine, and puts the bundler beside it: build.sh [OUT.wasm]. Needs npm (for the parts in package-lock.json, once), clang and wasi-libc, and the
# target of tools/wasm-rust.sh. Nothing of it is needed where functions are built or run.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${SLESS_GUEST_TARGET:-${XDG_CACHE_HOME:-$HOME/.cache}/sless/guest-target}
out=${1:-$target/wasm-js/engine.wasm}
parts=$target/wasm-js/parts
die() { printf 'wasm-js: %s\n' "$*" >&2; exit 1; }

clang=$(command -v clang-19 || command -v clang) || die "no clang found; as root: apt-get install clang-19 llvm-19 wasi-libc libclang-rt-19-dev-wasm32"
ar=$(command -v llvm-ar-19 || command -v llvm-ar) || die "no llvm-ar found; as root: apt-get install llvm-19"
command -v npm >/dev/null || die "no npm found; install Node.js"

# The bundled JavaScript, in a folder of its own: sources by symbolic links would confuse the search for packages.
mkdir -p "$parts" "$(dirname "$out")"
if ! cmp -s "$here/package-lock.json" "$parts/package-lock.json"; then
  cp "$here/package.json" "$here/package-lock.json" "$parts/"
  (cd "$parts" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) || { rm -f "$parts/package-lock.json"; die "npm ci failed"; }
fi
rm -rf "$parts/js"
cp -r "$here/js" "$parts/js"
(cd "$parts" && node_modules/.bin/esbuild js/main.js --bundle --format=esm --platform=neutral --main-fields=module,main \
  --target=es2023 --minify-whitespace --minify-syntax --log-level=warning --legal-comments=none --outfile=prelude.js)

eval "$("$here/../../tools/wasm-rust.sh" env)"
export RQUICKJS_SYS_NO_WASI_SDK=1 CC_wasm32_wasip2=$clang AR_wasm32_wasip2=$ar
export CFLAGS_wasm32_wasip2="-isystem /usr/include/wasm32-wasi -include $here/src/quickjs.h -fvisibility=hidden -Wno-everything"
export SLESS_PRELUDE=$parts/prelude.js CARGO_TARGET_DIR=$target
cargo build --manifest-path "$here/Cargo.toml" --target wasm32-wasip2 --release
cp "$target/wasm32-wasip2/release/sless_wasm_js.wasm" "$out.new"
mv "$out.new" "$out"
# The bundler of functions is the one of the engine's own globals.
cp "$parts"/node_modules/@esbuild/*/bin/esbuild "$(dirname "$out")/esbuild.new"
mv "$(dirname "$out")/esbuild.new" "$(dirname "$out")/esbuild"
