#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs one libFuzzer program from a committed corpus. Usage: run.sh <program> <corpus> <work folder>
# SEALANE_FUZZ_SECONDS (5) says how long. What it finds is left in the work folder as crash-…, leak-… or timeout-…; once the bug is
# fixed the finding belongs into the corpus.
set -euo pipefail
program=$1 corpus=$2 work=$3
mkdir -p "$work/new"
cd "$work"
# rss: the limit catches what an input makes us allocate; close_fd_mask: what a target prints is not read by anybody.
exec "$program" -max_total_time="${SEALANE_FUZZ_SECONDS:-5}" -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
    -malloc_limit_mb=512 -print_final_stats=1 -close_fd_mask=1 new "$corpus"
