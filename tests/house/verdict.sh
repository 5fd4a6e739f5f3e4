# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# verdict.sh - sourced by the scripts beside it: counts what holds and what does not.
passed=0 failed=0

# verdict <what holds> <status: 0 when it does> [more to say when it does not]
verdict() {
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1"
        [ $# -lt 3 ] || echo "  $3"
    fi
}

# The last line; fails when something failed or nothing was looked at.
closing() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
