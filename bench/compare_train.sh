#!/bin/sh
# compare_train.sh SHAPE [--python PYTHON] [--llmc TRAIN_GPT2]: training steps of bench_train beside
# PyTorch's (an interpreter that has it) and llm.c's (its train_gpt2, compiled with the shape's batch
# and sequence: 4 x 64 as it comes is gpt2-124m's; on one thread: OMP_NUM_THREADS).
#
# In turn, ROUNDS times (default 3), on one thread: the fastest step of each, and the process's peak
# (VmHWM). BENCH: bench_train (default: build/release). Wait for a quiet machine; where there is none,
# run it under `chrt -r 10 taskset -c 1` (round robin: the watcher of llm.c needs its turns).
set -eu
usage() { echo "usage: $0 SHAPE [--python PYTHON] [--llmc TRAIN_GPT2]" >&2 && exit 2; }
[ $# -ge 1 ] || usage
here=$(cd "$(dirname "$0")" && pwd -P)
bench=${BENCH:-$here/../build/release/bench/bench_train}
shape=$1 python='' llmc=''
shift
while [ $# -gt 1 ]; do
    case $1 in
    --python) python=$2 ;;
    --llmc) llmc=$(realpath "$2") ;;
    *) usage ;;
    esac
    shift 2
done
[ $# -eq 0 ] || usage
[ -x "$bench" ] || { echo "$0: $bench isn't built (./run builds it)" >&2 && exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1

# "step 1735 ms ... peak 475.1 MiB" -> name ms MiB
note() {
    awk -v name="$1" '{ for (i = 1; i < NF; i++) {
        if ($i == "step") ms = $(i + 1)
        if ($i == "peak") mib = $(i + 1) } }
        END { print name, ms, mib }' >>"$work/seen"
}

# llm.c runs until its third step; the fastest but the first counts.
run_llmc() {
    (cd "$work/llmc" && exec stdbuf -oL "$llmc") >"$work/llmc.out" 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null && ! grep -q '^step 3' "$work/llmc.out"; do
        peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null || true)
        sleep 0.1
    done
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    grep -q '^step 3' "$work/llmc.out" || { cat "$work/llmc.out" >&2 && exit 1; }
    awk -v kib="$peak" '/^step [1-3]:/ { sub(/.*took /, ""); if (!ms || $1 < ms) ms = $1 }
        END { printf "step %.0f ms  peak %.1f MiB\n", ms, kib / 1024 }' "$work/llmc.out"
}

if [ -n "$llmc" ]; then
    mkdir "$work/llmc"
    python3 "$here/llmc_files.py" "$shape" "$work/llmc"
fi
round=0
while [ "$round" -lt "${ROUNDS:-3}" ]; do
    round=$((round + 1))
    for type in f32 bf16; do
        "$bench" "$shape" --compute "$type" --steps 3 | note "mnem-$type"
        [ -z "$python" ] || "$python" "$here/train_torch.py" "$shape" "$type" 3 | note "torch-$type"
    done
    "$bench" "$shape" --compute bf16 --moments 8bit --steps 3 | note mnem-bf16-8bit
    [ -z "$llmc" ] || run_llmc | note llmc-f32
done
awk -v shape="$shape" '
    { if (!($1 in ms) || $2 < ms[$1]) ms[$1] = $2; if ($3 > mib[$1]) mib[$1] = $3 }
    END {
        print shape
        printf "%-16s %10s %10s\n", "", "ms a step", "peak MiB"
        n = split("mnem-f32 torch-f32 llmc-f32 mnem-bf16 torch-bf16 mnem-bf16-8bit", name, " ")
        for (i = 1; i <= n; i++) if (name[i] in ms)
            printf "%-16s %10d %10.0f\n", name[i], ms[name[i]], mib[name[i]]
    }' "$work/seen"
