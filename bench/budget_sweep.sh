#!/bin/sh
# budget_sweep.sh MODEL [SMALLEST]: the promises about budgets, on one model, for eleven budgets.
#
# Each budget is either refused (exit code 3, in under a second) or held: VmHWM <= budget,
# VmHWM <= predicted <= VmHWM + max(2 %, 4 MiB), the same greedy tokens as every other budget, and
# no slower than a smaller one by more than noise. SMALLEST: a budget that must run.
# MNEM: the command (default: build/release). ROUNDS: runs per budget, the fastest counts (default
# 3). NOISE: in percent (default 15). Exit code 1 when a promise breaks.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 MODEL [SMALLEST]" >&2 && exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd -P)
mnem=${MNEM:-$root/build/release/tools/mnem/mnem}
[ -x "$mnem" ] || { echo "$0: $mnem isn't built (./run builds it)" >&2 && exit 2; }
model=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seconds() { date +%s.%N; }

# number KEY FILE: the last value of a key in JSON lines.
number() { sed -n 's/.*"'"$1"'": *\([0-9.eE+-]*\).*/\1/p' "$2" | tail -n 1; }

# One line per budget: budget, exit code, seconds, predicted, VmHWM, tokens/s, sum of the tokens.
for budget in 64M 96M 128M 192M 256M 384M 512M 640M 768M 1G 2G; do
    best=0
    round=${ROUNDS:-3}
    while [ "$round" -gt 0 ]; do
        round=$((round - 1))
        code=0
        begin=$(seconds)
        "$mnem" run "$model" -p "In the beginning God created" --memory "$budget" --ctx 256 \
            --kv f16 --temp 0 --seed 1 -n 16 --json >"$work/out" 2>"$work/err" || code=$?
        end=$(seconds)
        [ "$code" = 0 ] || break
        rate=$(number tokens_per_s "$work/out")
        best=$(echo "$best ${rate:-0}" | awk '{ print ($2 > $1 ? $2 : $1) }')
    done
    tokens=$(sed -n 's/.*"token": *\([0-9]*\).*/\1/p' "$work/out" | cksum | cut -d ' ' -f 1)
    [ "$code" = 0 ] || [ "$code" = 3 ] || sed 's/^/    /' "$work/err" >&2
    echo "$budget $code $(echo "$begin $end" | awk '{ print $2 - $1 }')" \
        "$(number predicted_peak "$work/out" | grep . || echo 0)" \
        "$(number vmhwm "$work/out" | grep . || echo 0)" "$best" "$tokens"
done | awk -v noise="${NOISE:-15}" -v smallest="${2-}" '
function bytes(size,    n) {
    n = size + 0
    return size ~ /G/ ? n * 1073741824 : n * 1048576
}
function mib(n) { return sprintf("%.2f", n / 1048576) }
function broken(text) { fault[++faults] = budget ": " text }

BEGIN {
    printf "%-8s %-8s %9s %14s %12s %7s %10s\n", "budget", "outcome", "seconds", "predicted MiB",
        "VmHWM MiB", "tokens", "tokens/s"
}
{
    budget = $1; limit = bytes($1); seconds = $3; predicted = $4; peak = $5; rate = $6
    if ($2 == 3) {
        printf "%-8s %-8s %9.2f\n", budget, "refused", seconds
        if (seconds >= 1) broken("refused after " seconds " s")
        if (ran) broken("refused, though a smaller budget ran")
        if (smallest && limit >= bytes(smallest)) broken("refused, but should run")
        next
    }
    if ($2 != 0) { printf "%-8s failed with %d\n", budget, $2; broken("exit code " $2); next }
    if (!ran++) first = $7
    same = $7 == first ? "same" : "DIFFER"
    printf "%-8s %-8s %9.2f %14s %12s %7s %10.2f\n", budget, "ran", seconds, mib(predicted),
        mib(peak), same, rate
    slack = peak * 0.02 > 4194304 ? peak * 0.02 : 4194304
    if (peak <= 0) broken("no VmHWM in the output")
    if (peak > limit) broken("VmHWM is " mib(peak - limit) " MiB over the budget")
    if (peak > predicted) broken("VmHWM is " mib(peak - predicted) " MiB over the prediction")
    if (predicted > peak + slack) broken("predicted " mib(predicted - peak) " MiB too much")
    if (same != "same") broken("other tokens")
    if (rate < fastest * (1 - noise / 100)) broken("slower than a smaller budget")
    if (rate > fastest) fastest = rate
}
END {
    if (!ran) { budget = "all"; broken("nothing ran") }
    for (i = 1; i <= faults; i++) print "broken: " fault[i]
    if (!faults) print "every promise held"
    exit faults > 0
}'
