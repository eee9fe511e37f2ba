# Sourced by the scripts next to it, in the repository's root: sets `venv` to a virtual environment
# below the build directory that has aioquic, in the versions that requirements.txt names, checked
# by their hashes. Where it cannot be had, that is said and the script ends; with CI set it is a
# failure.

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
