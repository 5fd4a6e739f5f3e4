#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In two guests: the command runs in guest 1, and guest 0 does what it is told by files in $SEALANE_RIG_SHARED: takes "do", runs it as a
# script of bash, leaves its output in "said" and its status in "done". Ends with the command.
# Usage: tests/rig/run --guests 2 -- tests/rig/two.sh command [argument …]
cd "$SEALANE_RIG_SHARED" || exit 1
if [ "$SEALANE_RIG_GUEST" = 1 ]; then
    cd - >/dev/null || exit 1
    "$@"
    status=$?
    touch "$SEALANE_RIG_SHARED/end"
    exit $status
fi
until [ -e end ]; do
    if [ -e "do" ]; then
        mv "do" doing
        bash doing >said 2>&1 </dev/null
        echo $? >draft
        mv draft "done"
    else
        sleep 0.02
    fi
done
