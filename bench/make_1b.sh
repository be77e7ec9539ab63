#!/bin/sh
# make_1b.sh FOLDER: the model of the benchmarks: random weights in the 1.1 B llama shape, as F16
# (2.1 GiB), and from it Q8_0 (1.1 GiB) and Q4_K_M (0.6 GiB) by `mnem quantize`; Q4_0 (0.6 GiB) is
# made directly. Speed and bytes depend on the shape, not on what the weights say.
# What is there already is kept.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2 && exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd -P)
build=${BUILD:-$root/build/release}
[ -x "$build/tests/make_model" ] || { echo "$0: make_model isn't built (./test does)" >&2 && exit 2; }
mkdir -p "$1"

# make TYPE FILE: the same seed and shape for every type.
make() {
    [ ! -e "$2" ] || return 0
    echo "making $2"
    "$build/tests/make_model" "$2.part" --arch llama --embd 2048 --layers 22 --heads 32 \
        --kv-heads 4 --ff 5632 --vocab 32000 --type "$1"
    mv "$2.part" "$2"
}
quantize() {
    [ ! -e "$2" ] || return 0
    "$build/tools/mnem/mnem" quantize "$1/1b-f16.gguf" "$2" --type "$3"
}

make Q4_0 "$1/1b-q4_0.gguf"
make F16 "$1/1b-f16.gguf"
quantize "$1" "$1/1b-q8_0.gguf" Q8_0
quantize "$1" "$1/1b-q4_k_m.gguf" Q4_K_M
ls -l "$1"/1b-*.gguf
