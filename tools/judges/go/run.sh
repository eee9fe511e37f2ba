#!/usr/bin/env bash
# HTTP/3, CONNECT and CONNECT-UDP against quic-go and quic-go/http3: its clients at `pathmark serve`
# and `pathmark proxy`, and `pathmark get`, `put` and `tunnel` at its servers. Where Go is missing,
# it is said; with CI set it is a failure.
set -euo pipefail
cd "$(dirname "$0")/../../.."

if ! command -v go >/dev/null; then
  echo "Go is missing: the cases of quic-go are not run" >&2
  [ -z "${CI:-}" ]
  exit
fi

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
(
  cd tools/judges/go
  gofmt -l . | tee -a /dev/stderr | (! grep -q .)
  go build -o "$target/go-judge" .
)
# With the whole workspace, so that what the tests' build made serves here too.
cargo build --quiet --locked --workspace --bin pathmark --example files
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$target/go-judge" "$target/debug/pathmark" "$place"
