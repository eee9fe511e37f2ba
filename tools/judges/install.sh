# Sourced in the repository's root by the scripts of a judge in Python:
# `. tools/judges/install.sh NAME` sets `venv` to a virtual environment below the build directory
# that has what tools/judges/NAME/requirements.txt names, in its versions, checked by their hashes.
# Where that cannot be had, it is said and the script ends; with CI set it is a failure.

venv=${CARGO_TARGET_DIR:-target}/$1
wanted=tools/judges/$1/requirements.txt

install() {
  rm -rf "$venv"
  python3 -m venv "$venv" &&
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$wanted" &&
    cp "$wanted" "$venv/installed.txt"
}

if ! cmp -s "$wanted" "$venv/installed.txt" && ! install; then
  echo "$1 could not be installed: its cases are not run" >&2
  [ -z "${CI:-}" ]
  exit
fi
