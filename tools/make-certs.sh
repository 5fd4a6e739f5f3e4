#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes a development CA and certificates for sealane (P-256, by the openssl command line). Not for production: the CA's key
# lies beside what it signed.
#
# usage: tools/make-certs.sh DIR [--days N]
#            DIR/ca.pem ca.key, server.pem server.key (dns:localhost, dns:server.test, ip:127.0.0.1, ip:::1,
#            uri:spiffe://sealane.test/server) and client.pem client.key (dns:client.test, uri:spiffe://sealane.test/client);
#            an existing CA and existing certificates are kept
#        tools/make-certs.sh DIR --add NAME ROLE SAN[,SAN...] [--days N]
#            one more certificate DIR/NAME.pem NAME.key of the CA in DIR (made first when there is none);
#            ROLE is server, client or both; a SAN is dns:NAME, ip:ADDRESS or uri:URI
#
# example: tools/make-certs.sh certs --add worker-0 client uri:spiffe://sealane.test/worker/0
set -euo pipefail
umask 077

usage() { sed -n '3,14p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
fail() { echo "make-certs: $*" >&2; exit 1; }

[ $# -ge 1 ] || usage
case $1 in -*) usage ;; esac
dir=$1; shift
add="" role="" sans="" days=365
while [ $# -gt 0 ]; do
    case $1 in
    --add) [ $# -ge 4 ] || usage; add=$2 role=$3 sans=$4; shift 4 ;;
    --days) [ $# -ge 2 ] || usage; days=$2; shift 2 ;;
    *) usage ;;
    esac
done
[[ $days =~ ^[1-9][0-9]*$ ]] || fail "\"$days\" is no number of days"
command -v openssl >/dev/null || fail "the openssl command is missing (apt-get install openssl)"
mkdir -p "$dir"
log=$(mktemp); trap 'rm -f "$log"' EXIT
quiet() { "$@" 2>"$log" || { cat "$log" >&2; fail "failed: $*"; }; }

make_key() { quiet openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }

make_ca() {
    [ -e "$dir/ca.pem" ] && return
    make_key "$dir/ca.key"
    quiet openssl req -x509 -new -key "$dir/ca.key" -days "$days" -subj "/CN=sealane development CA $(openssl rand -hex 3)" \
        -addext basicConstraints=critical,CA:TRUE,pathlen:0 -addext keyUsage=critical,keyCertSign,cRLSign -out "$dir/ca.pem"
}

san_lines() { # dns:a,ip:b -> DNS:a,IP:b
    local out="" one
    IFS=, read -ra list <<<"$1"
    for one in "${list[@]}"; do
        case $one in
        dns:?*) one="DNS:${one#dns:}" ;;
        ip:?*) one="IP:${one#ip:}" ;;
        uri:?*) one="URI:${one#uri:}" ;;
        *) fail "\"$one\" is no SAN: expected dns:NAME, ip:ADDRESS or uri:URI" ;;
        esac
        out="$out${out:+,}$one"
    done
    echo "$out"
}

make_leaf() { # name role sans
    local name=$1 usage names
    case $2 in
    server) usage=serverAuth ;;
    client) usage=clientAuth ;;
    both) usage=serverAuth,clientAuth ;;
    *) fail "\"$2\" is no role: expected server, client or both" ;;
    esac
    [[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ && $name != ca ]] || fail "\"$name\" is no name of a file: expected letters, digits, . _ -, and not ca"
    names=$(san_lines "$3")
    make_key "$dir/$name.key"
    quiet openssl req -new -key "$dir/$name.key" -subj "/CN=$name" -out "$dir/$name.csr"
    quiet openssl x509 -req -in "$dir/$name.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -set_serial "0x$(openssl rand -hex 15)" \
        -days "$days" -extfile <(printf '%s\n' "basicConstraints=critical,CA:FALSE" "keyUsage=critical,digitalSignature" \
            "extendedKeyUsage=$usage" "subjectAltName=$names") -out "$dir/$name.pem"
    rm -f "$dir/$name.csr"
    echo "make-certs: $dir/$name.pem ($2: $names)"
}

make_ca
if [ -n "$add" ]; then
    [ -e "$dir/$add.pem" ] && fail "$dir/$add.pem is there already"
    make_leaf "$add" "$role" "$sans"
else
    [ -e "$dir/server.pem" ] || make_leaf server server dns:localhost,dns:server.test,ip:127.0.0.1,ip:::1,uri:spiffe://sealane.test/server
    [ -e "$dir/client.pem" ] || make_leaf client client dns:client.test,uri:spiffe://sealane.test/client
fi
