#!/bin/sh
# Try the package with the lowest versions that pyproject.toml allows, with the newest ones, and as a wheel.
#
#     scripts/check_versions.sh                    all three
#     scripts/check_versions.sh lowest             one of: lowest, newest, wheel
#     TESTS="tests/cli -x" scripts/check_versions.sh lowest newest
#
# Each environment is built anew under build/versions. PYTHON is the interpreter they are made with.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
folder=$(pwd)/build/versions
export PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH

mkdir -p "$folder"
test -x "$folder/tools/bin/uv" || {
    "$python" -m venv "$folder/tools"
    "$folder/tools/bin/python" -m pip install --quiet --disable-pip-version-check uv
}
uv=$folder/tools/bin/uv

# environment NAME: an empty one.
environment() {
    "$uv" venv --quiet --clear --python "$python" "$folder/$1"
}

# install NAME WHAT...: into it, compiled: the tests start many processes, which would each compile all of it.
install() {
    name=$1
    shift
    "$uv" pip install --quiet --compile-bytecode --python "$folder/$name/bin/python" "$@"
}

# tests NAME RESOLUTION: the quick tests, with the package installed and not the checkout's source.
tests() {
    environment "$1"
    install "$1" --resolution "$2" --reinstall-package gpexperts '.[dev]'
    "$uv" pip list --quiet --python "$folder/$1/bin/python" >"$folder/$1.txt"
    echo "== $1: $(grep -E '^(numpy|scipy|scikit-learn|pyarrow|dask|typer) ' "$folder/$1.txt" | tr -s ' ' | tr '\n' ' ')"
    # shellcheck disable=SC2086
    "$folder/$1/bin/python" -m pytest -p no:cacheprovider -q -n 2 --dist worksteal -m "not slow" ${TESTS:-tests}
}

# The wheel alone and with all extras, away from the checkout.
wheel() {
    rm -rf "$folder/dist"
    "$uv" build --quiet --wheel --python "$python" --out-dir "$folder/dist"
    built=$(ls "$folder"/dist/*.whl)
    smoke=$(pwd)/scripts/smoke.py
    for extras in "" "[all]"; do
        environment wheel
        install wheel "$built$extras"
        away=$(mktemp -d)
        echo "== $(basename "$built")$extras"
        (cd "$away" && "$folder/wheel/bin/python" -I "$smoke" "$extras")
        rm -rf "$away"
    done
}

for what in "${@:-all}"; do
    case $what in
    lowest) tests lowest lowest-direct ;;
    newest) tests newest highest ;;
    wheel) wheel ;;
    all) tests lowest lowest-direct && tests newest highest && wheel ;;
    *) echo "unknown: $what; known are lowest, newest, wheel" >&2 && exit 2 ;;
    esac
done
