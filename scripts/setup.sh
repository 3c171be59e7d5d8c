#!/bin/sh
# Sets up what the Makefile needs, on a machine that has only Python, git and make.
#
#   setup.sh uv               the virtual environment, with uv in it
#   setup.sh run              ... with clew and its embedded model's engine in it
#   setup.sh dev              ... with clew and everything that checks and tests need
#   setup.sh node             what checks the browser's part, in the virtual environment too
#   setup.sh programs P...    programs that are not Python packages
#
# It installs system packages by itself only where it is root; elsewhere it
# prints the command to give and stops.
set -eu

venv=.venv

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# need PACKAGE...: install, or say how to. Each package is named like the program it brings.
need() {
    if ! command -v apt-get >/dev/null 2>&1; then
        die "please install with your package manager, then try again: $*"
    elif [ "$(id -u)" -ne 0 ]; then
        say "These are missing: $*. Please run this, then try again:"
        say ""
        say "    sudo apt-get update && sudo apt-get install -y $*"
        say ""
        exit 1
    fi
    say "Installing $* ..."
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >/dev/null || say "apt-get update failed; trying with the lists at hand"
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null </dev/null ||
        die "apt-get could not install: $*"
}

# has PROGRAM: whether it is here. A PostgreSQL server is called postgres, and Debian keeps it
# off the PATH.
has() {
    case "$1" in
    systemd) command -v systemd-analyze ;;
    postgresql) command -v postgres || ls /usr/lib/postgresql/*/bin/postgres ;;
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

# The first Python that is new enough; PYTHON=... overrides the search.
find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "clew needs Python 3.11 or newer; give it with PYTHON=/path/to/python make ..."
}

make_venv() {
    # An environment holds absolute paths: one that was moved or copied, or has lost its
    # Python, is made anew.
    if [ "$(cat "$venv/.made-in" 2>/dev/null)" = "$(pwd -P)" ] &&
        "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    rm -rf "$venv"
    python=$(find_python)
    # Debian ships Python without ensurepip; `venv` would stop halfway.
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        need "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    fi
    say "Creating $venv with $("$python" --version) ..."
    "$python" -m venv "$venv"
    pwd -P >"$venv/.made-in"
}

# uv installs in seconds what takes pip minutes, but nothing depends on having it.
fetch_uv() {
    [ -x "$venv/bin/uv" ] && return
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --constraint constraints.txt uv
}

install() {
    what=$1
    shift
    say "Installing $what ..."
    if fetch_uv && "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" \
        "$@" --constraint constraints.txt --editable "$what"; then
        return
    fi
    say "uv could not do it; trying with pip, which takes a few minutes ..."
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --compile --constraint constraints.txt --editable "$what"
}

# Bytecode is compiled here because some machines set PYTHONDONTWRITEBYTECODE, where every start of
# clew would otherwise compile it all again. What checks and tests bring along is five times as
# large: of that, only what clew loads.
compile_loaded() {
    PYTHONDONTWRITEBYTECODE='' "$venv/bin/python" -m benchmarks.processes.preload ||
        say "some of it could not be compiled; clew starts more slowly"
}

case "${1:-}" in
uv)
    make_venv
    fetch_uv
    ;;
run)
    make_venv
    install '.[local]' --compile-bytecode
    touch "$venv/.stamp-run"
    ;;
dev)
    make_venv
    install '.[dev]'
    compile_loaded
    touch "$venv/.stamp-run" "$venv/.stamp-dev"
    ;;
node)
    has npm || need npm
    mkdir -p "$venv/node"
    cp package.json "$venv/node/"
    say "Installing what checks the dashboard ..."
    npm install --prefix "$venv/node" --silent --no-package-lock --ignore-scripts --no-fund --no-audit ||
        die "npm could not install what package.json names"
    touch "$venv/.stamp-node"
    ;;
programs)
    shift
    missing=
    for program in "$@"; do
        has "$program" || missing="$missing $program"
    done
    # Unquoted on purpose: a list of words.
    [ -z "$missing" ] || need $missing
    ;;
*)
    die "usage: setup.sh uv | run | dev | node | programs NAME..."
    ;;
esac
