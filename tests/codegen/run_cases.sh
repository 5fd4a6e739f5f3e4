#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the plug-in on every line of cases.tsv: what should compile is compiled as C (-Werror), its headers also as C++17, linked and,
# where checks/ has a program of that name, run; what should fail must fail with the wanted words. Then golden files are compared
# (see there), and what a .proto cannot provoke is provoked by hand. Prints "N passed, N failed".
# Usage: run_cases.sh PROTOC PLUGIN WORK_DIR DOOR_LIBRARY IDL_DIR [filter]; CC, CXX and CFLAGS (for what is linked) from outside.
set -u
protoc=$1 plugin=$2 work=$3 door=$4 made_idl=$5 filter=${6:-.}
here=$(cd "$(dirname "$0")" && pwd)
source_dir=$(cd "$here/../.." && pwd)
cc=${CC:-cc} cxx=${CXX:-c++} cflags=${CFLAGS:-}
warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror"
includes="-I$source_dir/rpc -I$source_dir/transport -I$made_idl"
passed=0 failed=0
rm -rf "$work" && mkdir -p "$work" || exit 1

generate() { # dir root file...
    local out=$1 root=$2
    shift 2
    timeout 60 "$protoc" --plugin=protoc-gen-sealane="$plugin" -I"$root" -I"$source_dir/idl" -I/usr/include --sealane_out="$out" "$@"
}

compile() { # dir check file...
    local out=$1 check=$2 sources="" file stem
    shift 2
    for file in "$@"; do
        stem=${file%.proto}
        echo "#include \"$stem.sealane.h\"" >> "$out/all.h"
        # Twice for C: strict, and gnu11, where words like linux are macros.
        "$cc" -std=c11 $warnings -Wconversion $includes -I"$out" $cflags -c "$out/$stem.sealane.c" -o "$out/$stem.sealane.o" &&
            "$cc" -std=gnu11 $warnings $includes -I"$out" -fsyntax-only "$out/$stem.sealane.c" &&
            "$cc" -std=c11 -w $includes -I"$out" $cflags -c "$out/$stem.pb-c.c" -o "$out/$stem.pb-c.o" &&
            "$cc" -std=gnu11 -w $includes -I"$out" -fsyntax-only "$out/$stem.pb-c.c" || return 1
        sources="$sources $out/$stem.sealane.o $out/$stem.pb-c.o"
    done
    "$cxx" -std=c++17 -Wall -Wextra -Wshadow -Werror $includes -I"$out" -fsyntax-only -x c++ "$out/all.h" || return 1
    "$cc" -std=c11 $warnings -D_GNU_SOURCE $includes -I"$out" -I"$here" -include all.h $cflags "$check" $sources "$door" \
        -lprotobuf-c -o "$out/program" && "$out/program"
}

run_case() { # file imports wanted pattern
    local root=$here/${1%%/*} file=${1#*/} name check=$here/checks/none.c
    local files="$file" out
    [ "$2" = - ] || files="$files $2"
    name=$(basename "$file" .proto)
    out=$work/$(echo "$1" | tr / _)
    mkdir -p "$out"
    [ -f "$here/checks/$name.c" ] && check=$here/checks/$name.c
    if [ "$3" = error ]; then
        if generate "$out" "$root" $files; then
            echo "expected an error, but code was made"
            return 1
        fi > "$out/errors" 2>&1
        grep -qE -- "$4" "$out/errors" && ! grep -qE 'Sanitizer|runtime error|signal' "$out/errors" && return 0
        cat "$out/errors"
        return 1
    fi
    generate "$out" "$root" $files && compile "$out" "$check" $files
}

judge() { # name, then what to run
    local name=$1
    shift
    [[ $name =~ $filter ]] || return
    if "$@" > "$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        sed 's/^/    /' "$work/log" | head -40
    fi
}

golden() { # name: what is generated now is what was committed
    local out=$work/golden_$1
    mkdir -p "$out"
    generate "$out" "$here/golden" "$1.proto" &&
        diff -u "$here/golden/$1.sealane.h" "$out/$1.sealane.h" && diff -u "$here/golden/$1.sealane.c" "$out/$1.sealane.c"
}

refuses_garbage() { # bytes on standard input that are no request
    local status
    printf '%b' "$1" | "$plugin" > "$work/out"
    status=$?
    echo "status $status"
    [ $status -eq 1 ] && [ ! -s "$work/out" ]
}

refuses_parameter() {
    mkdir -p "$work/parameter"
    "$protoc" --plugin=protoc-gen-sealane="$plugin" -I"$here/golden" -I"$source_dir/idl" \
        --sealane_out=bytes_fields=x:"$work/parameter" echo.proto 2>&1 |
        tee /dev/stderr | grep -q 'echo.proto: unknown parameter "bytes_fields=x"'
}

refuses_library_protos() {
    generate "$work" "$source_dir/idl" sealane/tensor.proto 2>&1 | tee /dev/stderr | grep -q 'sealane/tensor.proto: its C is in the Sealane library'
}

with_generator() { # script that stands in for protoc-gen-c, words wanted
    local bin=$work/bin
    rm -rf "$bin" && mkdir -p "$bin" && printf '#!/bin/bash\n%s\n' "$1" > "$bin/protoc-gen-c" && chmod +x "$bin/protoc-gen-c"
    PATH=$bin:$PATH generate "$work" "$here/cases" stems/first.proto wkt.proto 2>&1 | tee /dev/stderr | grep -qE "$2"
}

without_generator() {
    local bin=$work/empty program
    program=$(command -v "$protoc")
    mkdir -p "$bin"
    (PATH=$bin && "$program" --plugin=protoc-gen-sealane="$plugin" -I"$here/golden" -I"$source_dir/idl" --sealane_out="$work" echo.proto) 2>&1 |
        tee /dev/stderr | grep -q 'echo.proto: protoc-gen-c is not on PATH'
}

while IFS=$'\t' read -r file imports wanted pattern; do
    case $file in '#'* | '') continue ;; esac
    judge "$file" run_case "$file" "$imports" "$wanted" "$pattern"
done < "$here/cases.tsv"

for proto in "$here"/golden/*.proto; do
    judge "golden $(basename "$proto")" golden "$(basename "$proto" .proto)"
done
judge "garbage on standard input" refuses_garbage 'not a request'
judge "a cut request" refuses_garbage '\x0a\x7fx'
judge "a file to generate that is not there" refuses_garbage '\x0a\x07a.proto'
judge "a descriptor without a name" refuses_garbage '\x7a\x00'
judge "an unknown parameter" refuses_parameter
judge "protos of the library" refuses_library_protos
judge "protoc-gen-c dies" with_generator 'kill -SEGV $$' '(first|wkt)\.proto: protoc-gen-c died of signal 11'
judge "protoc-gen-c dies on one file" with_generator 'if head -c 31 | grep -aq wkt; then kill -SEGV $$; fi; cat > /dev/null' '^--sealane_out: wkt\.proto: protoc-gen-c died of signal 11'
judge "protoc-gen-c does not read" with_generator 'exit 3' 'protoc-gen-c ended with status 3'
judge "protoc-gen-c answers garbage" with_generator 'cat > /dev/null; echo garbage' 'protoc-gen-c answered with bytes that are no CodeGeneratorResponse'
judge "protoc-gen-c is not there" without_generator
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
