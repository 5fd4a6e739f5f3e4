#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds preset bench and measures: bench/unary (latency and rate of small calls) and bench/tensor (throughput of tensors), sealed and unsealed
# in turn. Arguments go to both programs: --rounds N, --seconds S, --sleep, --bytes N, --outstanding N.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${SEALANE_NO_INSTALL:-}" ] || tools/packages.sh run
cmake --preset bench >/dev/null
cmake --build --preset bench >/dev/null
tools/make-certs.sh build/bench/certs >/dev/null
build/bench/bin/unary --certs build/bench/certs "$@"
build/bench/bin/tensor --certs build/bench/certs "$@"
