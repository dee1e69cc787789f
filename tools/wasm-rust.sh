#!/usr/bin/env bash
# A Rust compiler for the target wasm32-wasip2, by the shortest way that this machine allows.
#
#   tools/wasm-rust.sh setup            once: makes the target available; does nothing when it is
#   eval "$(tools/wasm-rust.sh env)"    then: cargo build --release --target wasm32-wasip2
#   tools/wasm-rust.sh check            exit code 0 when `env` will work
#   tools/wasm-rust.sh packages         the Debian packages that `setup` installs, one a line
#
# 1. The target is there, or `rustup target add` fetches it: `env` prints nothing.
# 2. Debian, where rustup can't fetch it: Debian's newer compiler (rustc-web) is unpacked into a cache, not installed, so
#    that the system's own Rust stays as it is; its standard library is built for the target once (about two minutes).
#
# SLESS_WASM_RUST names another folder for the cache.
set -euo pipefail

target=wasm32-wasip2
cache=${SLESS_WASM_RUST:-${XDG_CACHE_HOME:-$HOME/.cache}/sless-wasm-rust}
# The C library of preview 1 suffices: the standard library for wasip2 goes through the component's adapter functions.
# lld has to read the object format of the compiler's LLVM, so both are of release 22.
packages=(wasi-libc lld-22)
unpacked=(rustc-web cargo-web rust-web-src)

say() { printf 'wasm-rust: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

command -v rustc >/dev/null || die "no rustc found; install Rust with rustup first"

installed_the_usual_way() {
  local libs
  libs=$(rustc --print target-libdir --target "$target" 2>/dev/null) && compgen -G "$libs/libstd-*.rlib" >/dev/null
}

unpacked_and_built() {
  compgen -G "$cache/usr/lib/rustlib/$target/lib/libstd-*.rlib" >/dev/null && [ -x "$cache/usr/bin/cargo" ] &&
    [ -x /usr/bin/wasm-ld-22 ]
}

# rustup's toolchain for the host carries the component linker, though not the target's libraries.
component_linker() {
  local host
  host=$(rustc -vV | sed -n 's/^host: //p')
  printf '%s/lib/rustlib/%s/bin/wasm-component-ld\n' "$(rustc --print sysroot)" "$host"
}

env_lines() {
  local usr=$1/usr
  cat <<LINES
export LD_LIBRARY_PATH='$usr/lib/$(uname -m)-linux-gnu'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
export PATH='$usr/bin':"\$PATH" RUSTC='$usr/bin/rustc'
unset RUSTUP_TOOLCHAIN
export CARGO_TARGET_WASM32_WASIP2_LINKER='$(component_linker)'
export CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS='-C link-arg=--wasm-ld-path=/usr/bin/wasm-ld-22'
LINES
}

install_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok' || missing+=("$package")
  done
  if [ "$(id -u)" = 0 ]; then
    # The list of packages is needed for the download below too.
    apt-get update -qq >&2
    [ ${#missing[@]} = 0 ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >&2
  elif [ ${#missing[@]} != 0 ]; then
    die "these packages are missing; as root: apt-get update && apt-get install -y ${missing[*]}"
  fi
}

download_compiler() {
  local into=$1 names
  # Of the dependencies only what Debian built for this compiler; the rest is on every Debian machine.
  names=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
    "${unpacked[@]}" | grep -E '^(rustc-web|cargo-web|rust-web-src|libstd-rust-web|libllvm|libgit2|libssh2|libhttp-parser|libmbed)' | sort -u)
  [ -n "$names" ] || die "Debian's package list has no rustc-web; as root: apt-get update"
  mkdir -p "$into/debs"
  # shellcheck disable=SC2086  # a list of names
  ( cd "$into/debs" && apt-get download -qq $names 2>/dev/null ) || die "can't download $names"
  local deb
  for deb in "$into"/debs/*.deb; do dpkg -x "$deb" "$into"; done
  rm -rf "$into/debs"
}

build_standard_library() (
  into=$1
  libs=$into/usr/lib/rustlib/$target/lib
  mkdir -p "$libs/self-contained"
  cp /usr/lib/wasm32-wasi/{crt1-command.o,crt1-reactor.o,libc.a} "$libs/self-contained/"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/src"
  : > "$work/src/lib.rs"
  printf '[package]\nname = "mkstd"\nversion = "0.0.0"\nedition = "2021"\n[profile.release]\npanic = "abort"\n' > "$work/Cargo.toml"
  eval "$(env_lines "$into")"
  cd "$work"
  # Building std is an unstable option of cargo, and std wants bitcode for link-time optimisation of guests.
  RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS='' RUSTFLAGS=-Cembed-bitcode=yes \
    cargo build -q -Zbuild-std=std,panic_abort,proc_macro --target "$target" --release --target-dir "$work/target" >&2
  cp "$work/target/$target"/release/deps/*.rlib "$libs/"
  rm -f "$libs"/libmkstd-*.rlib
)

setup() {
  installed_the_usual_way && return
  unpacked_and_built && return
  # Bounded, since a machine without a way to rustup's server may wait for it for long.
  if command -v rustup >/dev/null && timeout 180 rustup target add "$target" >/dev/null 2>&1; then
    installed_the_usual_way && return
  fi
  command -v apt-get >/dev/null || die "rustup can't add the target $target here, and this is not Debian; add it by hand"
  [ -x "$(component_linker)" ] || die "the toolchain has no wasm-component-ld at $(component_linker); install Rust with rustup"
  install_packages
  unpacked_and_built && return
  mkdir -p "$(dirname "$cache")"
  # One at a time, and under another name until it is whole: what is at $cache can be used or is not there.
  exec 9> "$cache.lock"
  flock 9
  unpacked_and_built && return
  say "unpacking Debian's compiler and building the standard library for $target; about two minutes, once"
  # Not a local: the trap runs when the function is over.
  staging=$cache.new
  trap 'rm -rf "$staging"' EXIT
  rm -rf "$staging"
  mkdir -p "$staging"
  download_compiler "$staging"
  build_standard_library "$staging"
  rm -rf "$cache"
  mv "$staging" "$cache"
}

case ${1:-} in
  setup) setup ;;
  env)
    if installed_the_usual_way; then :
    elif unpacked_and_built; then env_lines "$cache"
    else die "the target $target is not there yet; run: tools/wasm-rust.sh setup"
    fi ;;
  check) installed_the_usual_way || unpacked_and_built ;;
  packages) printf '%s\n' "${packages[@]}" ;;
  *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
