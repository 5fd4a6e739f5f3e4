#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes TLS test material with the openssl command line (3.0 or newer): three hierarchies (p256, ed25519, rsa2048), good server and
# client certificates, and a set of bad ones. All keys are throw-away test keys, made once at build time, never committed.
#
# usage: make-test-certs.sh OUTDIR
# writes OUTDIR/{ca,good,bad}/*.pem and OUTDIR/index.tsv:
#   name  role  chain(pem, leaf first)  key  trust(pem)  verify  expect(accept|reject)  why
# "verify" is the name that the peer must be told to want (dns:, ip:, uri:), or -. Where the standards leave the choice to a
# deployment, "expect" is sealane's.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '3,11p' "$0" >&2; exit 2; }
mkdir -p "$1"; OUT=$(cd "$1" && pwd); TD=cluster.test
cd "$OUT"; rm -rf ca good bad work index.tsv; mkdir -p ca good bad work
export OPENSSL_CONF=/dev/null
NOW=$(date -u +%s)
t() { date -u -d "@$((NOW + $1))" +%Y%m%d%H%M%SZ; }   # t SECONDS: a time relative to now
DAY=86400
q() { "$@" 2>>work/log || { echo "failed: $*" >&2; tail -5 work/log >&2; exit 1; }; }

key() { # key FILE KIND
  case $2 in
    p256) q openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1";;
    p384) q openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out "$1";;
    ed25519) q openssl genpkey -algorithm ED25519 -out "$1";;
    rsa2048) q openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$1";;
    rsa1024) q openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024 -out "$1";;
  esac
}
# sign ISSUER NAME SUBJECT START END EXTENSIONS [MD] [SERIAL]: issue work/NAME.key -> work/NAME.crt by ca ISSUER
# (ISSUER "self" signs with its own key). EXTENSIONS are lines of an x509v3 section.
sign() {
  local iss=$1 name=$2 subj=$3 start=$4 end=$5 ext=$6 md=${7:-default} ser=${8:-} db=work/db-$1
  mkdir -p "$db"; [ -f "$db/index" ] || { : > "$db/index"; echo 1000 > "$db/serial"; echo 01 > "$db/crlnumber"; }
  [ -n "$ser" ] && echo "$ser" > "$db/serial"
  cat > work/cnf <<C
[ca]
default_ca=d
[d]
database=$db/index
serial=$db/serial
crlnumber=$db/crlnumber
new_certs_dir=$db
default_md=$md
policy=p
unique_subject=no
email_in_dn=no
default_crl_days=30
[p]
commonName=optional
[req]
distinguished_name=dn
prompt=no
utf8=yes
[dn]
CN=$subj
[x]
$ext
C
  q openssl req -new -key "work/$name.key" -config work/cnf -out "work/$name.csr"
  local k=(-keyfile "work/$iss.key" -cert "work/$iss.crt"); [ "$iss" = self ] && k=(-selfsign -keyfile "work/$name.key")
  q openssl ca -batch -config work/cnf -in "work/$name.csr" "${k[@]}" -startdate "$start" -enddate "$end" -extensions x -extfile work/cnf -notext -out "work/$name.crt"
}
CAX='basicConstraints=critical,CA:TRUE
keyUsage=critical,keyCertSign,cRLSign
subjectKeyIdentifier=hash'
ICAX='basicConstraints=critical,CA:TRUE,pathlen:0
keyUsage=critical,keyCertSign,cRLSign
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid'
san() { # san ROLE EXTRA: the usual leaf extensions
  echo "basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=$1
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
subjectAltName=$2"
}
SRV_SAN="DNS:server.test,DNS:*.pool.test,DNS:localhost,IP:127.0.0.1,IP:::1,URI:spiffe://$TD/ns/default/sa/server"
CLI_SAN="DNS:client.test,IP:127.0.0.1,URI:spiffe://$TD/ns/default/sa/client"
S=$(t $((-30*DAY))); L=$(t $((3650*DAY)))

printf 'name\trole\tchain\tkey\ttrust\tverify\texpect\twhy\n' > work/index.tsv
# row NAME ROLE DIR TRUST VERIFY EXPECT WHY CHAINFILES... : writes DIR/NAME.pem, DIR/NAME.key and the index row
row() {
  local name=$1 role=$2 dir=$3 trust=$4 ver=$5 exp=$6 why=$7; shift 7
  cat "$@" > "$dir/$name.pem"; cp "work/$name.key" "$dir/$name.key"
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$role" "$dir/$name.pem" "$dir/$name.key" "$trust" "$ver" "$exp" "$why" >> work/index.tsv
}
for K in p256 ed25519 rsa2048; do
  key work/root-$K.key $K; sign self root-$K "Test Root $K" "$S" "$L" "$CAX"
  key work/int-$K.key $K;  sign root-$K int-$K "Test Intermediate $K" "$S" "$L" "$ICAX"
  cp work/root-$K.crt ca/root-$K.pem; cp work/int-$K.crt ca/int-$K.pem; cp work/int-$K.key ca/int-$K.key; cp work/root-$K.key ca/root-$K.key
  for R in server client; do
    [ $R = server ] && X=$(san serverAuth "$SRV_SAN") || X=$(san clientAuth "$CLI_SAN")
    key work/$R-$K.key $K; sign int-$K $R-$K "$R.test" "$S" "$L" "$X"
    row $R-$K $R good ca/root-$K.pem dns:$R.test accept "plain good chain" work/$R-$K.crt work/int-$K.crt
  done
done
cat ca/root-*.pem > ca/roots-all.pem
I=int-p256; R=ca/root-p256.pem; IC=work/$I.crt
# mk NAME ROLE KEYKIND START END EXT: a leaf under the p256 intermediate
mk() { key work/$1.key $3; sign ${ISS:-$I} $1 "${CN:-$2.test}" "$4" "$5" "$6" ${MD:-default} ${SER:-}; }
SX=$(san serverAuth "$SRV_SAN"); CX=$(san clientAuth "$CLI_SAN")
# --- good but unusual
mk both server p256 "$S" "$L" "$(san serverAuth,clientAuth "$SRV_SAN")"; row both server good $R dns:server.test accept "both usages" work/both.crt $IC
mk wildcard server p256 "$S" "$L" "$SX"; row wildcard server good $R dns:a.pool.test accept "wildcard matches one label" work/wildcard.crt $IC
mk ipv6 server p256 "$S" "$L" "$SX"; row ipv6 server good $R ip:::1 accept "IPv6 address in SAN" work/ipv6.crt $IC
mk p384-leaf server p384 "$S" "$L" "$SX"; row p384-leaf server good $R dns:server.test accept "P-384 leaf under P-256 CA" work/p384-leaf.crt $IC
key work/mixed.key ed25519; sign int-rsa2048 mixed server.test "$S" "$L" "$SX"; row mixed server good ca/root-rsa2048.pem dns:server.test accept "Ed25519 leaf under RSA CA" work/mixed.crt work/int-rsa2048.crt
names() { for i in $(seq 1 $1); do printf 'DNS:host-%04d.very-long-label-to-make-a-big-certificate.pool.test,' $i; done; }
mk big server p256 "$S" "$L" "$(san serverAuth "$(names 320)DNS:server.test")"; row big server bad $R dns:server.test reject "more names than a certificate may have" work/big.crt $IC
mk huge server p256 "$S" "$L" "$(san serverAuth "$(names 900)DNS:server.test")"; row huge server bad $R dns:server.test reject "more bytes than a handshake may have" work/huge.crt $IC
cp work/server-p256.key work/direct.key; key work/direct.key p256; sign root-p256 direct server.test "$S" "$L" "$SX"; row direct server good $R dns:server.test accept "leaf issued by the root, no intermediate" work/direct.crt
# --- time
mk expired server p256 "$(t $((-20*DAY)))" "$(t $((-1*DAY)))" "$SX"; row expired server bad $R dns:server.test reject "expired yesterday" work/expired.crt $IC
mk expired-client client p256 "$(t $((-20*DAY)))" "$(t $((-1*DAY)))" "$CX"; row expired-client client bad $R - reject "expired yesterday" work/expired-client.crt $IC
mk future server p256 "$(t $((1825*DAY)))" "$L" "$SX"; row future server bad $R dns:server.test reject "not yet valid" work/future.crt $IC
key work/int-old.key p256; sign root-p256 int-old "Test Intermediate old" "$(t $((-20*DAY)))" "$(t $((-1*DAY)))" "$ICAX"
ISS=int-old mk expired-intermediate server p256 "$S" "$L" "$SX"; row expired-intermediate server bad $R dns:server.test reject "intermediate expired, leaf valid" work/expired-intermediate.crt work/int-old.crt
# --- trust
key work/evil-root.key p256; sign self evil-root "Test Root p256" "$S" "$L" "$CAX"; key work/evil-int.key p256; sign evil-root evil-int "Test Intermediate p256" "$S" "$L" "$ICAX"
ISS=evil-int mk wrong-ca server p256 "$S" "$L" "$SX"; row wrong-ca server bad $R dns:server.test reject "other CA that has the same names" work/wrong-ca.crt work/evil-int.crt
ISS=evil-int mk wrong-ca-client client p256 "$S" "$L" "$CX"; row wrong-ca-client client bad $R - reject "other CA that has the same names" work/wrong-ca-client.crt work/evil-int.crt
ISS=evil-int mk wrong-ca-with-root server p256 "$S" "$L" "$SX"; row wrong-ca-with-root server bad $R dns:server.test reject "other CA, its root sent in the chain" work/wrong-ca-with-root.crt work/evil-int.crt work/evil-root.crt
key work/self-signed.key p256; sign self self-signed server.test "$S" "$L" "$(echo "$SX" | grep -v authorityKey)"; row self-signed server bad $R dns:server.test reject "self-signed leaf" work/self-signed.crt
mk no-intermediate server p256 "$S" "$L" "$SX"; row no-intermediate server bad $R dns:server.test reject "intermediate not sent" work/no-intermediate.crt
mk wrong-intermediate server p256 "$S" "$L" "$SX"; row wrong-intermediate server bad $R dns:server.test reject "intermediate of another hierarchy sent" work/wrong-intermediate.crt work/int-rsa2048.crt
cp work/server-p256.key work/tampered.key; openssl x509 -in work/server-p256.crt -outform DER | perl -0pe 's/server\.test/servfr.test/' | openssl x509 -inform DER > work/tampered.crt
row tampered server bad $R - reject "one byte of the subject changed after signing" work/tampered.crt $IC
key work/key-mismatch.key p256; cp work/server-p256.crt work/key-mismatch.crt; row key-mismatch server bad $R dns:server.test reject "private key is not the certificate's (CertificateVerify must fail, or loading must)" work/key-mismatch.crt $IC
# --- names
mk wrong-name server p256 "$S" "$L" "$(san serverAuth "DNS:other.test,IP:192.0.2.1,URI:spiffe://$TD/ns/default/sa/other")"; row wrong-name server bad $R "dns:server.test" reject "SAN has another name, CN is right (CN must not count)" work/wrong-name.crt $IC
mk wrong-ip server p256 "$S" "$L" "$(san serverAuth "DNS:server.test,IP:192.0.2.1")"; row wrong-ip server bad $R ip:127.0.0.1 reject "SAN has another address" work/wrong-ip.crt $IC
CN=127.0.0.1 mk ip-as-dns server p256 "$S" "$L" "$(san serverAuth "DNS:127.0.0.1")"; row ip-as-dns server bad $R ip:127.0.0.1 reject "address only as a DNS name and CN" work/ip-as-dns.crt $IC
mk wildcard-deep server p256 "$S" "$L" "$SX"; row wildcard-deep server bad $R dns:a.b.pool.test reject "wildcard must not match two labels" work/wildcard-deep.crt $IC
mk wildcard-tld server p256 "$S" "$L" "$(san serverAuth "DNS:*.test")"; row wildcard-tld server bad $R dns:test reject "wildcard must not match the bare parent" work/wildcard-tld.crt $IC
mk no-san server p256 "$S" "$L" "$(san serverAuth x | grep -v subjectAltName)"; row no-san server bad $R dns:server.test reject "no SAN, only a CN (openssl falls back to CN; RFC 9525 forbids)" work/no-san.crt $IC
mk spiffe-other-td client p256 "$S" "$L" "$(san clientAuth "URI:spiffe://evil.test/ns/default/sa/client")"; row spiffe-other-td client bad $R "uri:spiffe://$TD/ns/default/sa/client" reject "SPIFFE id of another trust domain" work/spiffe-other-td.crt $IC
mk spiffe-two client p256 "$S" "$L" "$(san clientAuth "URI:spiffe://$TD/ns/default/sa/client,URI:spiffe://$TD/ns/default/sa/admin")"; row spiffe-two client bad $R "uri:spiffe://$TD/ns/default/sa/client" reject "two URI SANs (X509-SVID allows one)" work/spiffe-two.crt $IC
mk spiffe-prefix client p256 "$S" "$L" "$(san clientAuth "URI:spiffe://$TD/ns/default/sa/client2")"; row spiffe-prefix client bad $R "uri:spiffe://$TD/ns/default/sa/client" reject "id that has the wanted one as a prefix" work/spiffe-prefix.crt $IC
mk spiffe-case client p256 "$S" "$L" "$(san clientAuth "URI:SPIFFE://$TD/ns/default/sa/CLIENT")"; row spiffe-case client bad $R "uri:spiffe://$TD/ns/default/sa/client" reject "path differs in case (path is case-sensitive)" work/spiffe-case.crt $IC
mk spiffe-dots client p256 "$S" "$L" "$(san clientAuth "URI:spiffe://$TD/ns/default/sa/x/../client")"; row spiffe-dots client bad $R "uri:spiffe://$TD/ns/default/sa/client" reject "dot segments in the path" work/spiffe-dots.crt $IC
mk spiffe-none client p256 "$S" "$L" "$(san clientAuth "DNS:client.test")"; row spiffe-none client bad $R "uri:spiffe://$TD/ns/default/sa/client" reject "no URI SAN at all" work/spiffe-none.crt $IC
mk san-nul server p256 "$S" "$L" "$(san serverAuth x | sed 's/^subjectAltName=.*/subjectAltName=DER:30:17:82:15:73:65:72:76:65:72:2E:74:65:73:74:00:2E:65:76:69:6C:2E:74:65:73/')"; row san-nul server bad $R dns:server.test reject "NUL byte inside the DNS name: server.test\\0.evil.tes" work/san-nul.crt $IC
# --- usage
mk no-eku server p256 "$S" "$L" "$(san serverAuth "$SRV_SAN" | grep -v extendedKeyUsage)"; row no-eku server bad $R dns:server.test accept "no extendedKeyUsage: any use (RFC 5280)" work/no-eku.crt $IC
mk wrong-eku server p256 "$S" "$L" "$(san clientAuth "$SRV_SAN")"; row wrong-eku server bad $R dns:server.test reject "server has clientAuth only" work/wrong-eku.crt $IC
mk wrong-eku-client client p256 "$S" "$L" "$(san serverAuth "$CLI_SAN")"; row wrong-eku-client client bad $R - reject "client has serverAuth only" work/wrong-eku-client.crt $IC
mk eku-codesign client p256 "$S" "$L" "$(san codeSigning "$CLI_SAN")"; row eku-codesign client bad $R - reject "client has codeSigning only" work/eku-codesign.crt $IC
mk wrong-ku server p256 "$S" "$L" "$(san serverAuth "$SRV_SAN" | sed 's/digitalSignature/keyAgreement/')"; row wrong-ku server bad $R dns:server.test reject "keyUsage without digitalSignature (TLS 1.3 must refuse)" work/wrong-ku.crt $IC
mk unknown-critical server p256 "$S" "$L" "$SX
1.3.6.1.4.1.99999.1=critical,DER:05:00"; row unknown-critical server bad $R dns:server.test reject "unknown critical extension" work/unknown-critical.crt $IC
mk ca-leaf server p256 "$S" "$L" "$(san serverAuth "$SRV_SAN" | sed 's/CA:FALSE/CA:TRUE/;s/critical,digitalSignature/critical,digitalSignature,keyCertSign/')"; row ca-leaf server bad $R dns:server.test reject "CA certificate used as a leaf" work/ca-leaf.crt $IC
# --- chain
ISS=server-p256 mk leaf-signs server p256 "$S" "$L" "$SX"; row leaf-signs server bad $R dns:server.test reject "issued by an ordinary leaf (CA:FALSE)" work/leaf-signs.crt work/server-p256.crt $IC
key work/int2.key p256; sign $I int2 "Test Intermediate 2" "$S" "$L" "$(echo "$ICAX" | sed 's/,pathlen:0//')"
ISS=int2 mk pathlen server p256 "$S" "$L" "$SX"; row pathlen server bad $R dns:server.test reject "second intermediate below pathlen:0" work/pathlen.crt work/int2.crt $IC
p=root-p256; files=(); for n in $(seq 1 12); do key work/deep$n.key p256; sign $p deep$n "Deep $n" "$S" "$L" "$(echo "$ICAX" | sed 's/,pathlen:0//')"; files=(work/deep$n.crt "${files[@]}"); p=deep$n; done
ISS=deep12 mk chain-too-long server p256 "$S" "$L" "$SX"; row chain-too-long server bad $R dns:server.test reject "12 intermediates" work/chain-too-long.crt "${files[@]}"
p=root-p256; files=(); for n in $(seq 1 3); do key work/three$n.key p256; sign $p three$n "Three $n" "$S" "$L" "$(echo "$ICAX" | sed 's/,pathlen:0//')"; files=(work/three$n.crt "${files[@]}"); p=three$n; done
ISS=three3 mk chain-three server p256 "$S" "$L" "$SX"; row chain-three server good $R dns:server.test accept "three intermediates" work/chain-three.crt "${files[@]}"
key work/int-nosign.key p256; sign root-p256 int-nosign "Test Intermediate nosign" "$S" "$L" "$(echo "$ICAX" | sed 's/keyCertSign,//')"
ISS=int-nosign mk ca-no-keycertsign server p256 "$S" "$L" "$SX"; row ca-no-keycertsign server bad $R dns:server.test reject "intermediate lacks keyCertSign" work/ca-no-keycertsign.crt work/int-nosign.crt
key work/int-nc.key p256; sign root-p256 int-nc "Test Intermediate constrained" "$S" "$L" "$ICAX
nameConstraints=critical,permitted;DNS:allowed.test"
ISS=int-nc mk name-constraint server p256 "$S" "$L" "$(san serverAuth "DNS:server.test")"; row name-constraint server bad $R dns:server.test reject "outside the intermediate's name constraints" work/name-constraint.crt work/int-nc.crt
mk unordered server p256 "$S" "$L" "$SX"; row unordered server bad $R dns:server.test accept "extra unrelated certificate between leaf and intermediate (RFC 8446 4.4.2)" work/unordered.crt work/int-rsa2048.crt $IC
# --- strength
mk weak-key server rsa1024 "$S" "$L" "$SX"; row weak-key server bad $R dns:server.test reject "RSA-1024 key" work/weak-key.crt $IC
mk weak-key-client client rsa1024 "$S" "$L" "$CX"; row weak-key-client client bad $R - reject "RSA-1024 key" work/weak-key-client.crt $IC
MD=sha1 mk sha1 server p256 "$S" "$L" "$SX"; row sha1 server bad $R dns:server.test reject "signed with SHA-1" work/sha1.crt $IC
# --- what tests of both sides' words want beside the cases
mk future-client client p256 "$(t $((1825*DAY)))" "$L" "$CX"; row future-client client bad $R - reject "not yet valid" work/future-client.crt $IC
mk wrong-ku-client client p256 "$S" "$L" "$(san clientAuth "$CLI_SAN" | sed 's/digitalSignature/keyAgreement/')"; row wrong-ku-client client bad $R - reject "keyUsage without digitalSignature" work/wrong-ku-client.crt $IC
mk p384-client client p384 "$S" "$L" "$CX"; row p384-client client good $R - accept "P-384 leaf" work/p384-client.crt $IC
key work/old-root.key p256; sign self old-root "Old Root" "$(t $((-20*DAY)))" "$(t $((-1*DAY)))" "$CAX"; cp work/old-root.crt ca/old-root.pem
cat ca/root-p256.pem ca/old-root.pem > ca/good-and-old.pem; cat ca/old-root.pem ca/root-p256.pem > ca/old-and-good.pem
for K in p384:p384-leaf ed25519:server-ed25519 rsa2048:server-rsa2048; do
  key bad/key-mismatch-${K%%:*}.key ${K%%:*}; cp good/${K##*:}.pem bad/key-mismatch-${K%%:*}.pem
done
cp good/server-p256.pem bad/key-mismatch-kind.pem; cp good/server-rsa2048.key bad/key-mismatch-kind.key
cp good/server-p256.pem good/sec1.pem; q openssl ec -in good/server-p256.key -no_public -out good/sec1.key # the older form, no point
openssl x509 -in work/server-p256.crt -outform DER -out good/server-p256.der
mv work/index.tsv index.tsv # last: where it is, all is
rm -rf work
echo "$(($(wc -l < index.tsv) - 1)) cases in $OUT/index.tsv"
