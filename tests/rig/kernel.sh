#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The guest kernel of the rig: User Mode Linux with soft RDMA devices, built from Debian's linux-source-6.1 as kernel.config and
# kernel.patch say, and kept in a cache. Prints the kernel's path.
#
#   tests/rig/kernel.sh         builds it when the cache has none (three minutes on two idle cores, 1.1 GB of scratch)
#   tests/rig/kernel.sh --find  only looks
#
# The cache is $SEALANE_RIG_CACHE, by default ~/.cache/sealane/rig. Exit status: 77 when there is no kernel and none can be built here,
# with the reason on stderr; 1 when building one went wrong.
set -euo pipefail
rig=$(cd "$(dirname "$0")" && pwd)
cache=${SEALANE_RIG_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/sealane/rig}
source=/usr/src/linux-source-6.1.tar.xz
scratch_kib=1300000

cannot() {
    echo "rig: no guest kernel: $*" >&2
    exit 77
}

recipe=$(cat "$rig/kernel.config" "$rig/kernel.patch" | sha256sum | cut -c 1-12)
version=$(dpkg-query -W -f '${Version}' linux-source-6.1 2>/dev/null || true)

# Prints the kernel that this recipe made: of the installed source's version, or of any where no source is installed.
find_kernel() {
    local kernels=("$cache/linux-"*"-$recipe")
    [ -z "$version" ] || kernels=("$cache/linux-$version-$recipe")
    [ -x "${kernels[0]}" ] && echo "${kernels[0]}"
}

[ "$(uname -m)" = x86_64 ] || cannot "User Mode Linux runs on x86_64 only, this is $(uname -m)"
! find_kernel || exit 0
[ "${1:-}" != --find ] || cannot "$cache has none of this recipe ($recipe); tests/rig/kernel.sh builds it"
[ -f "$source" ] || cannot "$source is missing (tools/packages.sh rig installs it)"
for tool in make gcc bc flex bison patch xz; do
    command -v "$tool" >/dev/null || cannot "$tool is missing (tools/packages.sh rig installs it)"
done
mkdir -p "$cache" || cannot "$cache cannot be made"

# One builder at a time; who waited for another finds what that one built.
exec 9>"$cache/lock"
flock 9
! find_kernel || exit 0
free_kib=$(df --output=avail -k "$cache" | tail -n 1)
[ "$free_kib" -gt "$scratch_kib" ] || cannot "$cache has $free_kib KiB left, building takes $scratch_kib"

work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
log=$work/log

step() { # <what> <command…>
    local what=$1
    shift
    "$@" >"$log" 2>&1 9>&- || {
        tail -n 30 "$log" >&2
        echo "rig: could not $what" >&2
        exit 1
    }
}
kernel_make() { make -s -C "$work/source" ARCH=um O="$work/build" KCONFIG_ALLCONFIG="$rig/kernel.config" -j "$(nproc)" "$@"; }

echo "rig: building the guest kernel from linux-source-6.1 $version (some minutes, once)" >&2
began=$SECONDS
mkdir "$work/source" "$work/build"
# Half of the tree is of no use here: documents, sound, the largest of the graphics drivers.
step "unpack $source" tar -x -f "$source" -C "$work/source" --strip-components=1 --wildcards --exclude='*/Documentation/[a-z]*' \
    --exclude='*/drivers/gpu/drm/amd/*.[ch]' --exclude='*/sound/*.[ch]'
step "apply kernel.patch" patch -d "$work/source" -p 1 -i "$rig/kernel.patch"
step "configure the kernel" kernel_make allnoconfig
lost=$(grep '^CONFIG_' "$rig/kernel.config" | grep -vxFf "$work/build/.config" || true)
[ -z "$lost" ] || {
    echo "rig: this source does not take:" "$lost" >&2
    exit 1
}
step "build the kernel" kernel_make linux
step "strip the kernel" strip "$work/build/linux"
rm -f "$cache"/linux-* # of older recipes and sources
mv "$work/build/linux" "$cache/linux-$version-$recipe"
echo "rig: built in $((SECONDS - began)) s" >&2
find_kernel
