#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# house.readme: the code that README.md shows is, byte for byte, the code that house.install builds and runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
passed=0 failed=0
for file in scale.proto server.c client.c CMakeLists.txt; do
    # The block that follows the line naming the file in bold.
    shown=$(awk -v name="**$file**" '
        index($0, name) { found = 1; next }
        found && /^```/ { if (inside) exit; inside = 1; next }
        inside { print }' README.md)
    if [ -n "$shown" ] && [ "$shown" = "$(cat "tests/house/tour/$file")" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: README.md shows another $file than tests/house/tour/$file:"
        diff <(echo "$shown") "tests/house/tour/$file" || true
    fi
done
# What it names exists.
while IFS= read -r path; do
    if [ -e "$path" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: a document names $path, which does not exist"
    fi
done < <(grep -ohP '(?<![/\w])(tools|docs|examples|tests|cmake|bench|idl)/[\w./-]*\w(?![<…\w])' README.md CONTRIBUTING.md docs/ARCHITECTURE.md \
    docs/DEBUGGING.md | sort -u)
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
