#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# house.sizes: no file of the product passes 700 lines, and each begins with its licence line. Usage: sizes_test.sh [tree]
set -euo pipefail
. "$(dirname "$0")/verdict.sh"
cd "${1:-$(dirname "$0")/../..}"
while IFS= read -r file; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 700 ] && status=0 || status=1
    verdict "$file has at most 700 lines" "$status" "it has $lines; split it by concern"
    head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2\.0' && status=0 || status=1
    verdict "$file begins with its licence" "$status"
done < <(find codegen rpc transport gpu examples bench tools cmake idl -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' -o -name '*.cmake' -o -name '*.proto' -o -name CMakeLists.txt \) 2>/dev/null | sort)
closing
