#!/usr/bin/env bash
# The interop runner's cases against aioquic: run.sh [CASE…]. aioquic goes into a virtual
# environment below the build directory, in the versions that requirements.txt names, checked by
# their hashes. Where it cannot be had, that is said and nothing is run; with CI set it is a
# failure.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=${CARGO_TARGET_DIR:-target}/aioquic
wanted=judges/aioquic/requirements.txt

install() {
  rm -rf "$venv"
  python3 -m venv "$venv" &&
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$wanted" &&
    cp "$wanted" "$venv/installed.txt"
}

if ! cmp -s "$wanted" "$venv/installed.txt" && ! install; then
  echo "aioquic could not be installed: its cases are not run" >&2
  [ -z "${CI:-}" ]
  exit
fi

AIOQUIC_PYTHON=$PWD/$venv/bin/python
case $venv in /*) AIOQUIC_PYTHON=$venv/bin/python ;; esac
export AIOQUIC_PYTHON
# With the whole workspace, so that what the tests' build made serves here too.
cargo build --quiet --locked --workspace --example aioquic
exec "${CARGO_TARGET_DIR:-target}/debug/examples/aioquic" "$@"
