#!/usr/bin/env bash
# CONNECT and CONNECT-UDP against aioquic: its client at this project's proxy, and this project's
# tunnel at a proxy of it. See tools/judges/install.sh for aioquic itself.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/judges/install.sh aioquic

# With the whole workspace, so that what the tests' build made serves here too.
cargo build --quiet --locked --workspace --bin pathmark --example flows
target=${CARGO_TARGET_DIR:-target}/debug
exec "$venv/bin/python" tools/judges/aioquic/proxy.py "$target/pathmark" "$target/examples/flows"
