#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# house.summary: tools/test.sh counts what ctest says, takes nothing that was skipped for passed, and says how RDMA gets tested where it was
# not. In a tree of its own, whose cmake, ctest and guest kernel are what a case says.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/house/verdict.sh
. "$here/verdict.sh"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/tools" "$tree/tests/rig" "$tree/bin" "$tree/build/dev"
cp "$here/../../tools/test.sh" "$tree/tools/"
printf '#!/bin/sh\n' >"$tree/bin/cmake"
printf '#!/bin/sh\ncat "%s/said"\nexit "$(cat "%s/status")"\n' "$tree" "$tree" >"$tree/bin/ctest"
printf '#!/bin/sh\nexit "$(cat "%s/kernel")"\n' "$tree" >"$tree/tests/rig/kernel.sh"
chmod +x "$tree"/bin/* "$tree/tests/rig/kernel.sh"

# what holds, ctest's status, what it says, kernel.sh's status, the status and last line expected, whether RDMA is spoken of
expect() {
    local status=0 last
    printf '%b\n' "$3" >"$tree/said"
    echo "$2" >"$tree/status"
    echo "$4" >"$tree/kernel"
    PATH=$tree/bin:$PATH SEALANE_NO_INSTALL=1 "$tree/tools/test.sh" x >"$tree/out" 2>&1 </dev/null || status=$?
    last=$(tail -n 1 "$tree/out")
    verdict "$1" "$([ "$status" -eq "$5" ] && [ "$last" = "$6" ]; echo $?)" "status $status, last line \"$last\""
    verdict "$1: RDMA" "$([ "$(grep -c 'tests/rig/kernel.sh' "$tree/out")" -eq "$7" ]; echo $?)" "$(cat "$tree/out")"
}
left="\n\nThe following tests did not run:\n\t  7 - rig.self (Skipped)\n\t 12 - transport.link_verbs.rig (Skipped)"
expect "all passed" 0 "100% tests passed, 0 tests failed out of 50" 77 0 "50 passed, 0 failed" 0
expect "the skipped have not passed" 0 "100% tests passed, 0 tests failed out of 50$left" 77 0 "48 passed, 0 failed, 2 skipped" 1
expect "skipped for another reason" 0 "100% tests passed, 0 tests failed out of 50$left" 0 0 "48 passed, 0 failed, 2 skipped" 0
expect "some failed, some were skipped" 8 "94% tests passed, 3 tests failed out of 50$left\n\nThe following tests FAILED:\n\t  3 - a (Failed)" \
    77 1 "45 passed, 3 failed, 2 skipped" 1
expect "all were skipped: nothing was tested" 0 "100% tests passed, 0 tests failed out of 2$left" 77 1 "0 passed, 0 failed, 2 skipped" 1
expect "none was found" 8 "No tests were found!!!" 77 1 "0 passed, 1 failed" 0
closing
