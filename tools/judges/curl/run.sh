#!/usr/bin/env bash
# HTTP/3 against curl, in the build that the Python package curl_cffi ships: its client at this
# library's origin. See tools/judges/install.sh for curl_cffi itself.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/judges/install.sh curl

# With the whole workspace, so that what the tests' build made serves here too.
cargo build --quiet --locked --workspace --example files
exec "$venv/bin/python" tools/judges/curl/http3.py \
  "${CARGO_TARGET_DIR:-target}/debug/examples/files"
