#!/usr/bin/env bash
# The interop runner's cases against aioquic: run.sh [CASE…]. See tools/judges/install.sh for
# aioquic itself.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/judges/install.sh aioquic

AIOQUIC_PYTHON=$PWD/$venv/bin/python
case $venv in /*) AIOQUIC_PYTHON=$venv/bin/python ;; esac
export AIOQUIC_PYTHON
# With the whole workspace, so that what the tests' build made serves here too.
cargo build --quiet --locked --workspace --example aioquic
exec "${CARGO_TARGET_DIR:-target}/debug/examples/aioquic" "$@"
