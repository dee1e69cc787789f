#!/usr/bin/env bash
# The main job: sets the machine up, builds sless and the examples, starts `sless dev`, deploys an example and shows its
# answer. Leaves `sless dev` running until Ctrl-C.
#
#   tools/demo.sh            on port 9090 (--port N for another), data in ./.sless
#   tools/demo.sh --once     on a free port, data in a temporary folder; stops when the answer was shown
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh

once= port=9090
while [ $# != 0 ]; do
  case $1 in
    --once) once=yes port=0 ;;
    --port) port=${2:?--port needs a number}; shift ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
  esac
  shift
done

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n== %s\n' "$*"; }

say "Set-up: system packages and the guests' compiler"
tools/setup.sh
say "Build: sless and the examples"
# Of the whole workspace, as the tests build it: cargo unifies features over a build, so both share every dependency.
cargo build --workspace --bins
cargo xtask guests
cargo xtask engines
sless=$CARGO_TARGET_DIR/debug/sless

work=$(mktemp -d)
server=
stop() {
  if [ -n "$server" ] && kill "$server" 2>/dev/null; then wait "$server" || true; fi
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ -n "$once" ]; then data=$work/data; else data=.sless; fi

say "Start: sless dev"
"$sless" --data "$data" dev --port "$port" > "$work/welcome" 2> "$work/log" &
server=$!
# Up to a minute: a first start makes its database and its keys.
for _ in $(seq 600); do
  grep -q '^sless dev is ready' "$work/welcome" && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
grep -q '^sless dev is ready' "$work/welcome" || { cat "$work/log" >&2; echo "sless dev did not start" >&2; exit 1; }
endpoint=$(sed -n 's/^sless dev is ready at //p' "$work/welcome")
namespace=$(sed -n 's/^  namespace  //p' "$work/welcome")
fn=$endpoint/fn/$namespace

say "Deploy: examples/hello"
"$sless" --data "$data" deploy examples/hello
say "Call: curl $fn/hello/a%2Fb?x=1&x=2"
curl --fail-with-body --silent --show-error "$fn/hello/a%2Fb?x=1&x=2"

say "Deploy: examples/expenses"
"$sless" --data "$data" deploy examples/expenses
say "Call: the lines in euro of examples/expenses/tests/trip.csv"
grep -E '^date|EUR' examples/expenses/tests/trip.csv |
  curl --fail-with-body --silent --show-error --data-binary @- "$fn/expenses"

[ -n "$once" ] && exit
echo
cat "$work/welcome"
wait "$server"
