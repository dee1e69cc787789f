# Sourced by the other scripts: where Rust is, and one target folder for all clones of this project on a machine.
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/sless/target}"
export CARGO_TERM_PROGRESS_WHEN="${CARGO_TERM_PROGRESS_WHEN:-auto}"
# CI builds each tree once: nothing to be incremental about, and a build that was cut off leaves nothing half-written.
if [ -n "${CI:-}" ]; then export CARGO_INCREMENTAL=0; fi
