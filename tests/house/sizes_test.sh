#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# house.sizes: no file of the product passes 700 lines, and each begins with its licence line. Usage: sizes_test.sh [tree]
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"
passed=0 failed=0
while IFS= read -r file; do
    lines=$(wc -l <"$file")
    if [ "$lines" -gt 700 ]; then
        echo "FAILED: $file has $lines lines, at most 700 (split it by concern)"
    elif ! head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2\.0'; then
        echo "FAILED: $file does not begin with an SPDX line"
    else
        passed=$((passed + 1))
        continue
    fi
    failed=$((failed + 1))
done < <(find codegen rpc transport gpu examples bench tools cmake idl -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.sh' -o -name '*.cmake' -o -name '*.proto' -o -name CMakeLists.txt \) | sort)
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 50 ]
