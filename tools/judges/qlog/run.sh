#!/usr/bin/env bash
# Logs of a real transfer, of both ends, and of emulated flows, against the event types of quiche's
# crate `qlog`.
set -euo pipefail
cd "$(dirname "$0")/../../.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo build --quiet --locked --manifest-path tools/judges/qlog/Cargo.toml \
  --target-dir "$target/judge-qlog"
# With the whole workspace, so that what the tests' build made serves here too.
cargo build --quiet --locked --workspace --bin pathmark --example files
pathmark=$target/debug/pathmark
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export QLOGDIR=$place/logs

mkdir "$place/served" "$place/here"
head -c 3000000 /dev/zero >"$place/served/file"
"$pathmark" serve --listen 127.0.0.1:0 --json --dir "$place/served" >"$place/said" 2>"$place/log" &
serve=$!
trap 'kill $serve 2>/dev/null || :; rm -rf "$place"' EXIT
for _ in $(seq 100); do
  [ -s "$place/said" ] && break
  sleep 0.1
done
value() { sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p' "$place/said"; }
"$pathmark" get --quiet --pin "$(value pin)" -o "$place/here" "$(value listening)/file"
kill -TERM $serve
wait $serve || :
"$pathmark" emulate five-files --out "$place/logs/emulated" --qlog >/dev/null
"$target/judge-qlog/debug/qlog-judge" "$place"/logs/*.sqlog "$place"/logs/emulated/*.sqlog
