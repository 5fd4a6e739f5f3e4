#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# house.readme: the code that README.md shows is, byte for byte, the code that house.install builds and runs.
set -euo pipefail
. "$(dirname "$0")/verdict.sh"
cd "$(dirname "$0")/../.."
for file in scale.proto server.c client.c CMakeLists.txt; do
    # The block that follows the line naming the file in bold.
    shown=$(awk -v name="**$file**" '
        index($0, name) { found = 1; next }
        found && /^```/ { if (inside) exit; inside = 1; next }
        inside { print }' README.md)
    [ -n "$shown" ] && status=0 || status=1
    difference=$(diff <(echo "$shown") "tests/house/tour/$file") || status=1
    verdict "README.md shows tests/house/tour/$file" "$status" "$difference"
done
# What it names exists.
while IFS= read -r path; do
    [ -e "$path" ] && status=0 || status=1
    verdict "$path, which a document names, exists" "$status"
done < <(grep -ohP '(?<![/\w])(tools|docs|examples|tests|cmake|bench|idl)/[\w./-]*\w(?![<…\w])' README.md CONTRIBUTING.md docs/ARCHITECTURE.md \
    docs/DEBUGGING.md | sort -u)
closing
