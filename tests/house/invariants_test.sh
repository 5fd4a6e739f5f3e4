#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# house.invariants: docs/ARCHITECTURE.md's table of invariants is true. Each of the fourteen has a row, each file named in a row holds a
# case that bears the row's number, and each case that bears a number is in a file that its row names.
set -euo pipefail
. "$(dirname "$0")/verdict.sh"
cd "$(dirname "$0")/../.."

for number in {1..14}; do
    row=$(grep -E "^\| $number \|" docs/ARCHITECTURE.md || true)
    named=$(awk -F'|' '{print $4}' <<<"$row" | grep -oE '[a-z0-9]+/[a-z0-9_]+' || true)
    [ -n "$named" ] && status=0 || status=1
    verdict "invariant $number has a row that names a test" "$status"
    for name in $named; do
        grep -qE "\binvariant_${number}_" tests/"$name"{_test,_race,}.[ch] 2>/dev/null && status=0 || status=1
        verdict "tests/$name has a case invariant_${number}_…" "$status"
    done
    while IFS= read -r file; do
        name=${file#tests/} name=${name%.[ch]} name=${name%_test} name=${name%_race}
        grep -qxF "$name" <<<"$named" && status=0 || status=1
        verdict "the row of invariant $number names $name" "$status"
    done < <(grep -rlE "\binvariant_${number}_" tests --include=*.c --include=*.h | sort)
done

closing
