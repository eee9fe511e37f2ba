#!/usr/bin/env bash
# HTTP/3 against headless Chromium: it opens the page of a directory that `pathmark serve` serves,
# and downloads files. A screenshot of the page is left in the build directory. Where Chromium is
# missing, it is said; with CI set it is a failure.
set -euo pipefail
cd "$(dirname "$0")/../../.."

chromium=$(command -v chromium-headless-shell || command -v chromium || true)
if [ -z "$chromium" ]; then
  echo "Chromium is missing: its cases are not run" >&2
  [ -z "${CI:-}" ]
  exit
fi

# With the whole workspace, so that what the tests' build made serves here too.
cargo build --quiet --locked --workspace --bin pathmark --example files
target=${CARGO_TARGET_DIR:-target}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 tools/judges/chromium/listing.py "$target/debug/pathmark" "$chromium" "$place" \
  "$target/chromium.png"
