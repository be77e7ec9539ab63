#!/bin/sh
# compare_pool.sh [OPTIONS OF bench_pool] TRACE[.xz]...: our allocators and their peers on the same
# traces in one run, one after the other in each measurement.
#
# Peers: glibc's malloc; jemalloc and mimalloc if Debian's libraries are there; and what
# --peer NAME=FILE names, a shared object of bench/pool_peer.h. A heap's blocks are taken and given
# back, never touched; it has no capacity, so it has no fit, but what it takes of the address space.
# bench/bench_pool.c says what is measured and how. BENCH_POOL: the command (default:
# build/release/bench/bench_pool). For timings keep the machine quiet: chrt -f 10 taskset -c 1 $0.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
bench=${BENCH_POOL:-$root/build/release/bench/bench_pool}
[ -x "$bench" ] || { echo "$0: $bench isn't built" >&2 && exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The arguments once more, in order: options as they are, traces unpacked.
count=$#
traces=0
while [ "$count" -gt 0 ]; do
    count=$((count - 1))
    argument=$1
    shift
    case $argument in
    --only | --peer | --malloc | --json | --capacity)
        [ "$count" -gt 0 ] || { echo "$0: $argument needs a value" >&2 && exit 2; }
        count=$((count - 1))
        set -- "$@" "$argument" "$1"
        shift
        ;;
    *.xz)
        file=$work/$(basename "$argument" .xz)
        xz -dc "$argument" >"$file"
        traces=$((traces + 1))
        set -- "$@" "$file"
        ;;
    --*) set -- "$@" "$argument" ;;
    *)
        traces=$((traces + 1))
        set -- "$@" "$argument"
        ;;
    esac
done
[ "$traces" -gt 0 ] || { echo "usage: $0 [OPTIONS OF bench_pool] TRACE[.xz]..." >&2 && exit 2; }

for name in mimalloc jemalloc; do
    file=$(ldconfig -p | awk -v want="lib$name.so.2" '$1 == want { print $NF; exit }')
    if [ -n "$file" ]; then
        set -- --malloc "$name=$file" "$@"
    else
        echo "$0: no lib$name.so.2 (Debian: lib${name}2*)" >&2
    fi
done
# jemalloc's thread-local variables want room in the block that is fixed when a process starts.
GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536 "$bench" --malloc glibc "$@"
