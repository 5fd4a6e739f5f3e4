#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The first process inside a guest of the rig, started by its kernel: tests/rig/run left the plan in a folder of the host's that the
# kernel's command line names. Mounts, makes the network and the RDMA devices, runs the command, hands back its status, powers off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm /dev/pts
ln -s /proc/self/fd /dev/fd
mount -t devpts pts /dev/pts
for folder in /tmp /run /dev/shm; do
    mount -t tmpfs -o mode=1777 tmpfs "$folder"
done
control=$(</proc/cmdline)
control=${control#* rig=}
control=${control%% *}
mkdir /run/rig /tmp/home
mount -t hostfs -o "$control" rig /run/rig

power_off() { # without init or systemd: sync(), reboot(LINUX_REBOOT_CMD_POWER_OFF)
    perl -e 'syscall(162); syscall(169, 0xfee1dead, 672274793, 0x4321fedc)'
    exit
}
fail() {
    echo "guest: $*"
    power_off
}

exec </dev/null >/run/rig/guest.log 2>&1
# What run says about this guest, and the environment of the command.
guest=0 guests=1 folder=/ readable=() writable=() mhz=0 one_stream="" command=()
# shellcheck source=/dev/null
. /run/rig/plan || fail "no plan"

# A folder of the host's that a tmpfs hides, or that may be written.
share() { # ro or rw, folder
    mkdir -p "$2" 2>/dev/null
    mount -t hostfs -o "$2,$1" host "$2" || fail "$2 cannot be shared"
}
for path in "${readable[@]}"; do share ro "$path"; done
for path in "${writable[@]}"; do share rw "$path"; done

# ip's and rdma's commands are collected and run by one process each: a process costs 50 ms in here.
ip_commands=$'link set lo up\n' rdma_commands=""
device() { # netdev, IPv4, IPv6, RDMA device: an address of each kind and room for the largest RDMA packet
    ip_commands+="link set $1 mtu 9000 up"$'\n'"addr add $2/24 dev $1"$'\n'"addr add $3/64 dev $1 nodad"$'\n'
    rdma_commands+="link add $4 type rxe netdev $1"$'\n'
}

# Two ends of one wire in one guest: packets really travel (over a single device rxe delivers them within the post).
wire() {
    ip_commands+=$'link add wire0 address 02:00:00:00:01:01 type veth peer name wire1 address 02:00:00:00:01:02\n'
    device wire0 10.77.1.1 fd77:1::1 rxe1
    device wire1 10.77.1.2 fd77:1::2 rxe2
    ip_commands+=$'neigh add 10.77.1.2 lladdr 02:00:00:00:01:02 dev wire0\nneigh add 10.77.1.1 lladdr 02:00:00:00:01:01 dev wire1\n'
    export SEALANE_RIG_WIRE="10.77.1.1 10.77.1.2"
}

# For the wire: each end hears its own machine's addresses.
echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter
export SEALANE_RIG=1 SEALANE_RIG_GUEST=$guest HOME=/tmp/home
export SEALANE_RIG_SELF=10.77.0.$((1 + guest)) SEALANE_RIG_SELF6=fd77::$((1 + guest))
export SEALANE_RIG_ADDRESS=$SEALANE_RIG_SELF
# LeakSanitizer cannot read a thread's registers here; leaks are found by the same tests outside.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
if [ "$guests" -eq 2 ]; then
    device vec0 "$SEALANE_RIG_SELF" "$SEALANE_RIG_SELF6" rxe0
    export SEALANE_RIG_PEER=10.77.0.$((2 - guest)) SEALANE_RIG_PEER6=fd77::$((2 - guest))
else
    [ -e /sys/class/net/dummy0 ] || ip_commands+=$'link add dummy0 type dummy\n'
    device dummy0 "$SEALANE_RIG_SELF" "$SEALANE_RIG_SELF6" rxe0
    wire
fi
ip -batch - <<<"$ip_commands" || fail "no network"
rdma -b - <<<"$rdma_commands" || fail "no RDMA devices"

# perftest does not start without a clock rate in here.
{ cat /proc/cpuinfo && echo "cpu MHz		: $mhz"; } >/run/cpuinfo
mount --bind /run/cpuinfo /proc/cpuinfo
ulimit -l unlimited -c 0
cd "$folder" || fail "no folder $folder"

# The consoles lead to the caller's streams. The command sees pipes, as it mostly does elsewhere.
stty -F /dev/tty1 raw -echo
[ -n "$one_stream" ] || stty -F /dev/tty2 raw -echo
mkfifo /run/out /run/err
cat /run/out >/dev/tty1 &
readers=$!
if [ -n "$one_stream" ]; then
    "${command[@]}" >/run/out 2>&1
    status=$?
else
    cat /run/err >/dev/tty2 &
    readers="$readers $!"
    "${command[@]}" >/run/out 2>/run/err
    status=$?
fi
# What the command left running may hold a pipe: it has half a second.
for _ in {1..50}; do
    # shellcheck disable=SC2086
    kill -0 $readers 2>/dev/null || break
    sleep 0.01
done
stty -F /dev/tty1 raw -echo # returns when all is written
[ -n "$one_stream" ] || stty -F /dev/tty2 raw -echo
echo "$status" >/run/rig/status
power_off
