#!/usr/bin/env bash
# HTTP/3 against aioquic: its client at this library's origin, and this library's client at a
# server of it. See tools/judges/install.sh for aioquic itself.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/judges/install.sh aioquic

# With the whole workspace, so that what the tests' build made serves here too.
cargo build --quiet --locked --workspace --example files
exec "$venv/bin/python" tools/judges/aioquic/http3.py \
  "${CARGO_TARGET_DIR:-target}/debug/examples/files"
