#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The first process inside a guest of the rig, started by its kernel: tests/rig/run left the plan in a folder of the host's that the
# kernel's command line names. Mounts, makes the network and the RDMA devices, runs the command, hands back its status, powers off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm /dev/pts
mount -t devpts pts /dev/pts
for folder in /tmp /run /dev/shm; do
    mount -t tmpfs -o mode=1777 tmpfs "$folder"
done
control=$(sed 's/.*rig=\([^ ]*\).*/\1/' /proc/cmdline)
mkdir /run/rig /tmp/home
mount -t hostfs -o "$control" rig /run/rig

power_off() { # without init or systemd: reboot(LINUX_REBOOT_CMD_POWER_OFF)
    sync
    perl -e 'syscall(169, 0xfee1dead, 672274793, 0x4321fedc)'
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

device() { # netdev, IPv4, IPv6: an address of each kind and room for the largest RDMA packet
    ip link set "$1" mtu 9000 up || fail "no network device $1"
    ip addr add "$2/24" dev "$1" && ip addr add "$3/64" dev "$1" nodad
}
rxe() { # RDMA device, netdev
    rdma link add "$1" type rxe netdev "$2" || fail "no RDMA device $1"
}

# Two ends of one wire in one guest: packets really travel (over a single device rxe delivers them within the post).
wire() {
    ip link add wire0 type veth peer name wire1 || fail "no veth"
    device wire0 10.77.1.1 fd77:1::1
    device wire1 10.77.1.2 fd77:1::2
    local end
    for end in 0 1; do
        echo 1 >"/proc/sys/net/ipv4/conf/wire$end/accept_local"
        echo 0 >"/proc/sys/net/ipv4/conf/wire$end/rp_filter"
        ip neigh add "10.77.1.$((2 - end))" lladdr "$(cat "/sys/class/net/wire$((1 - end))/address")" dev "wire$end"
        rxe "rxe$((end + 1))" "wire$end"
    done
    export SEALANE_RIG_WIRE="10.77.1.1 10.77.1.2"
}

ip link set lo up
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
net=dummy0
if [ "$guests" -eq 2 ]; then
    net=vec0
    export SEALANE_RIG_PEER=10.77.0.$((2 - guest)) SEALANE_RIG_PEER6=fd77::$((2 - guest))
else
    ip link show dummy0 >/dev/null 2>&1 || ip link add dummy0 type dummy || fail "no dummy device"
    wire
fi
export SEALANE_RIG=1 SEALANE_RIG_GUEST=$guest HOME=/tmp/home
export SEALANE_RIG_SELF=10.77.0.$((1 + guest)) SEALANE_RIG_SELF6=fd77::$((1 + guest))
export SEALANE_RIG_ADDRESS=$SEALANE_RIG_SELF
# LeakSanitizer cannot read a thread's registers here; leaks are found by the same tests outside.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
device "$net" "$SEALANE_RIG_SELF" "$SEALANE_RIG_SELF6"
rxe rxe0 "$net"

# perftest does not start without a clock rate in here.
{ cat /proc/cpuinfo && echo "cpu MHz		: $mhz"; } >/run/cpuinfo
mount --bind /run/cpuinfo /proc/cpuinfo
ulimit -l unlimited -c 0
cd "$folder" || fail "no folder $folder"

# The consoles lead to the caller's streams. The command sees pipes, as it mostly does elsewhere.
stty -F /dev/tty1 raw -echo
stty -F /dev/tty2 raw -echo
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
stty -F /dev/tty2 raw -echo
echo "$status" >/run/rig/status
power_off
