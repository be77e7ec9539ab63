#!/bin/sh
# compare_llama.sh PATH_TO_LLAMA_BENCH MODEL [THREADS]: mnem beside llama.cpp on one file.
#
# Speed: a prompt of 512 tokens and 128 generated ones, each program in turn, ROUNDS times (default
# 5); the medians, and the median of the ratios of each pair, with the least and the greatest, which
# a change of the machine's speed between rounds leaves alone. Memory: VmHWM at a context of 512 with
# each program's own defaults.
# MNEM: the command (default: build/release). Wait for a quiet machine.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 PATH_TO_LLAMA_BENCH MODEL [THREADS]" >&2 && exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd -P)
mnem=${MNEM:-$root/build/release/tools/mnem/mnem}
llama=$1
model=$2
threads=${3:-$(nproc)}
rounds=${ROUNDS:-5}
[ -x "$llama" ] || { echo "$0: no llama-bench at $llama" >&2 && exit 2; }
[ -x "$mnem" ] || { echo "$0: $mnem isn't built (./run builds it)" >&2 && exit 2; }
[ -r "$model" ] || { echo "$0: no model at $model" >&2 && exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# number KEY FILE: the last value of a key in JSON.
number() { sed -n 's/.*"'"$1"'": *\([0-9.eE+-]*\).*/\1/p' "$2" | tail -n 1; }

# watch COMMAND...: runs it, output in $work/out, and prints its VmHWM in kB. The count only grows,
# so the last look before the end is the peak, but for what happens in the last 20 ms.
watch() {
    "$@" >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
    peak=0
    while now=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null) &&
        [ -n "$now" ]; do
        peak=$now
        sleep 0.02
    done
    wait "$pid" || { cat "$work/err" >&2 && echo "$0: $1 failed" >&2 && exit 1; }
    echo "$peak"
}

run_llama() {
    watch "$llama" -m "$model" -t "$threads" -p 512 -n 128 -r 1 -o json >"$work/llama.kb"
}
run_mnem() {
    watch "$mnem" bench "$model" --threads "$threads" --pp 512 --tg 128 --repeats 1 \
        --json >/dev/null
}
# llama_rate "512 0": tokens per second of the test with so many prompt and generated tokens.
llama_rate() {
    awk -F '[:,]' -v test="$1" '
        /"n_prompt"/ { prompt = $2 + 0 }
        /"n_gen"/ { gen = $2 + 0 }
        /"avg_ts"/ && prompt " " gen == test { print $2 + 0 }' "$work/out"
}

: >"$work/pairs"
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    [ ! -t 2 ] || printf '\rround %d of %d ' "$round" "$rounds" >&2
    # Who begins alternates, so that a trend favours nobody.
    for turn in 1 2; do
        if [ $(((round + turn) % 2)) = 0 ]; then
            run_llama
            llama_prompt=$(llama_rate "512 0")
            llama_generate=$(llama_rate "0 128")
        else
            run_mnem
            mnem_prompt=$(number prompt_tokens_per_s "$work/out")
            mnem_generate=$(number tokens_per_s "$work/out")
        fi
    done
    echo "prompt $mnem_prompt $llama_prompt" >>"$work/pairs"
    echo "generate $mnem_generate $llama_generate" >>"$work/pairs"
done
[ ! -t 2 ] || printf '\r%20s\r' '' >&2

watch "$mnem" run "$model" -p "In the beginning God created" --threads "$threads" --ctx 512 -n 16 \
    --temp 0 --json >/dev/null
mnem_bytes=$(number vmhwm "$work/out")
echo "memory $((mnem_bytes / 1024)) $(cat "$work/llama.kb")" >>"$work/pairs"

echo "$(basename "$model"), $threads threads, medians of $rounds rounds"
awk '
function median(list, n,    i, j, swap) {
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j - 1] > list[j]; j--) {
            swap = list[j]; list[j] = list[j - 1]; list[j - 1] = swap
        }
    return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}
function line(what, unit, digits,    i, n, a, b, r, ratio) {
    for (i = 1; i <= count[what]; i++) {
        a[i] = mnem[what, i]; b[i] = llama[what, i]; r[i] = a[i] / b[i]
    }
    n = count[what]
    ratio = median(r, n) # which sorts them
    printf "%-10s %12." digits "f %12." digits "f %9.2f  %4.2f to %4.2f  %s\n", what, median(a, n),
        median(b, n), ratio, r[1], r[n], unit
}
{ n = ++count[$1]; mnem[$1, n] = $2; llama[$1, n] = $3 }
$1 == "memory" { mnem[$1, n] /= 1024; llama[$1, n] /= 1024 }
END {
    printf "%-10s %12s %12s %9s  %12s\n", "", "mnem", "llama.cpp", "ratio", "of all pairs"
    line("prompt", "tokens/s, 512 tokens", 1)
    line("generate", "tokens/s, 128 tokens", 1)
    line("memory", "MiB at the peak, context 512", 1)
}' "$work/pairs"
