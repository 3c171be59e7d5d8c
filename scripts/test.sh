#!/bin/sh
# All checks and all tests, with mypy running beside them.
#
#   test.sh JOBS "PROGRAMS" CODE...     how many processes run tests; what they drive; the
#                                       directories that are checked
#
# What takes seconds comes first, beside what only makes the rest faster: a first reading of all
# tests compiles them once, and not in each process at the same time.
#
# Coverage costs half of a test's time again, so it is taken only in the tests of the rooms that
# have a bar for it (pyproject.toml). A failure does not stop the rest, and is told at the end.
set -u

jobs=$1
programs=$2
shift 2
bin=.venv/bin
gated="tests/core tests/store tests/postgres"

# Some machines set it, and then every run would rewrite the assertions of all tests anew.
unset PYTHONDONTWRITEBYTECODE

types=$(mktemp)
"$bin/mypy" "$@" >"$types" 2>&1 &
mypy=$!
"$bin/pytest" --collect-only -q tests >/dev/null 2>&1 &
reading=$!
failed=
trap 'kill "$mypy" "$reading" 2>/dev/null; rm -f "$types"' EXIT
trap 'exit 130' INT TERM

"${MAKE:-make}" --no-print-directory lint || exit
# shellcheck disable=SC2086  # several words
sh scripts/setup.sh programs $programs || exit
wait "$reading"

run() {
    echo "pytest $*"
    "$bin/pytest" -n "$jobs" --dist worksteal -o tmp_path_retention_policy=failed "$@" ||
        failed="$failed tests"
}

"$bin/coverage" erase
# shellcheck disable=SC2086  # several words
run $gated --cov
# shellcheck disable=SC2046  # several words
run tests $(printf -- '--ignore=%s ' $gated)

wait "$mypy" || failed="$failed types"
echo "mypy $*"
cat "$types"

if [ -n "$failed" ]; then
    echo "FAILED:$failed" >&2
    exit 1
fi
