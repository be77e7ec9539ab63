#!/bin/sh
# compare_speed.sh OLD_TREE NEW_TREE [MODEL]: is the new build as fast as the old one?
#
# Pairs of runs, in turn, and who begins alternates: a change of the machine's speed between pairs
# leaves their ratios alone. Measured are, new/old of what is done in a second:
#   prompt, generate   `mnem bench` on MODEL (bench/make_1b.sh makes that of compare_llama.sh);
#                      without MODEL neither
#   mnem, pool TRACE   an operation of the offset allocator and of the pool (`bench_pool --time`), on
#                      each trace of TRACES (default: ../shared/data/traces, where that is there)
#   streamed           prompt and generation of MODEL, or of a random one of 28 MB, in a budget of its
#                      least and a quarter of the file: the rest is read from the disk each pass
#   experts            generation of a random mixture (or of EXPERTS, a file) in such a budget
#   sequences          the same model in memory, eight sequences that generate together
#   ranks CUT          prompt and generation of it over two ranks, by layers and by rows (left out,
#                      and said so, where mpirun or mnem-mpi of a tree isn't there)
#   train SHAPE        the fastest step of `bench_train` (SHAPE: default gpt2-6x384; none: no training)
# For each the median of the ratios, and the interval that holds the true median with 95 %: that of
# the sign test, from order statistics (of 15 pairs the 4th and the 12th), which asks nothing of how
# times are spread. SLOWER, and exit code 1, where it lies wholly below 0.99 or the median below 0.97.
#
# WHAT: those to measure, by default all of "model pool streamed experts sequences ranks train".
# PAIRS (15), THREADS (1), PROMPT (512) and TOKENS (128) of the model, STEPS of training (3). Trees
# are built in build/release, with tests. Wait for a quiet machine.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 OLD_TREE NEW_TREE [MODEL]" >&2 && exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd -P)
old_tree=$1 new_tree=$2 model=${3-}
what=${WHAT:-model pool streamed experts sequences ranks train}
pairs=${PAIRS:-15} threads=${THREADS:-1} shape=${SHAPE-gpt2-6x384}
traces=${TRACES:-$root/../shared/data/traces}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work" # the machine's profile, measured once

# program SIDE NAME: of that side's build, wherever its folder is.
program() {
    if [ "$1" = old ]; then tree=$old_tree; else tree=$new_tree; fi
    found=$(find "$tree/build/release" -name "$2" -type f -perm -u+x | head -n 1)
    [ -n "$found" ] || { echo "$0: no $2 in $tree/build/release (./test builds it)" >&2 && exit 2; }
    echo "$found"
}
for side in old new; do
    for name in mnem bench_pool bench_train; do
        found=$(program "$side" "$name") || exit 2
        ln -s "$(realpath "$found")" "$work/$name-$side"
    done
done

# number KEY FILE: the last value of a key in JSON.
number() { sed -n 's/.*"'"$1"'": *\([0-9.eE+-]*\).*/\1/p' "$2" | tail -n 1; }

# Each measurement writes "NAME SIDE RATE" lines for one side.
measure_model() {
    "$work/mnem-$1" bench "$model" --threads "$threads" --pp "${PROMPT:-512}" \
        --tg "${TOKENS:-128}" --repeats 1 --json -q >"$work/out"
    echo "prompt $1 $(number prompt_tokens_per_s "$work/out")"
    echo "generate $1 $(number tokens_per_s "$work/out")"
}
measure_pool() {
    for trace in "$work"/*.trace; do
        [ -e "$trace" ] || continue
        "$work/bench_pool-$1" --time --only mnem,pool --json - "$trace" >"$work/out"
        sed -n 's/.*"name": "\(mnem\|pool\)", "ns_mean": \([0-9.]*\).*/\1 \2/p' "$work/out" |
            awk -v trace="$(basename "$trace" .trace)" -v side="$1" \
                '{ printf "%s.%s %s %.6f\n", $1, trace, side, 1e3 / $2 }'
    done
}
measure_train() {
    "$work/bench_train-$1" "$shape" --threads "$threads" --steps "${STEPS:-3}" >"$work/out"
    awk -v name="train.$shape" -v side="$1" \
        '$1 == "step" { printf "%s %s %.6f\n", name, side, 1e3 / $2 }' "$work/out"
}

# bench_of SIDE ROW [ARGUMENT...]: of `mnem bench`, what is a number.
bench_of() {
    side=$1 row=$2
    shift 2
    $launcher "$work/mnem-$side" bench "$@" --threads "$threads" --repeats 1 --json -q >"$work/out"
    for of in prompt:prompt_tokens_per_s generate:tokens_per_s together:together_tokens_per_s; do
        rate=$(sed -n 's/.*[{,]"'"${of#*:}"'": *\([0-9.eE+-]*\).*/\1/p' "$work/out" | tail -n 1)
        [ -z "$rate" ] || echo "$row.${of%:*} $side $rate"
    done
}
measure_streamed() {
    bench_of "$1" streamed "$some" --memory "$some_budget" --ctx 256 --pp 64 --tg 16
}
measure_experts() {
    bench_of "$1" experts "$mixture" --memory "$mixture_budget" --ctx 256 --pp 0 --tg 32
}
measure_sequences() {
    bench_of "$1" sequences "$some" --ctx 256 --pp 0 --tg 32 --sequences 8
}
measure_ranks() {
    launcher="mpirun -n 2"
    for cut in layers rows; do
        bench_of "$1" "ranks.$cut" "$some" --ctx 256 --pp 64 --tg 32 --memory 2G --cut $cut
    done
    launcher=
}

# budget_of MODEL: the larger least of both, and a quarter of the file.
budget_of() {
    bytes=$(($(wc -c <"$1") / 4)) most=0
    for side in old new; do
        "$work/mnem-$side" bench "$1" --threads "$threads" --ctx 256 --pp 64 --tg 16 --memory 64K \
            --json -q >"$work/out" 2>/dev/null || true
        needed=$(number needed_bytes "$work/out")
        [ "$needed" -le "$most" ] || most=$needed
    done
    echo $((most + bytes))
}

# make NAME ARGUMENT...: a random model, by whichever tree has the program.
make() {
    name=$1
    shift
    "$(program new make_model)" "$work/$name.gguf" "$@" --vocab 2048 --context 1024 --type Q8_0
}
launcher='' some=$model mixture=${EXPERTS-}
case " $what " in *" streamed "* | *" sequences "* | *" ranks "*)
    [ -n "$some" ] || make some --arch llama --embd 512 --layers 8 --heads 8 --kv-heads 4 --ff 1536
    some=${some:-$work/some.gguf}
    some_budget=$(budget_of "$some")
    ;;
esac
case " $what " in *" experts "*)
    [ -n "$mixture" ] || make mixture --arch mixtral --embd 256 --layers 6 --heads 4 \
        --kv-heads 2 --experts 16 --experts-used 2 --ff 512 --ff-expert 512
    mixture=${mixture:-$work/mixture.gguf}
    mixture_budget=$(budget_of "$mixture")
    ;;
esac

# What can't be measured here isn't.
without() { what=$(echo " $what " | sed "s/ $1 / /"); }
[ -n "$model" ] || without model
[ -n "$shape" ] || without train
for side in old new; do
    [ -x "$(dirname "$(realpath "$work/mnem-$side")")/mnem-mpi" ] && command -v mpirun >/dev/null || {
        case " $what " in *" ranks "*) echo "$0: no ranks: no mpirun, or no mnem-mpi ($side)" >&2 ;; esac
        without ranks
    }
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

for file in "$traces"/*.trace.xz; do
    [ ! -e "$file" ] || xz -dc "$file" >"$work/$(basename "$file" .xz)"
done
[ -z "$model" ] || [ -r "$model" ] || { echo "$0: no model at $model" >&2 && exit 2; }

: >"$work/seen"
round=0
while [ "$round" -lt "$pairs" ]; do
    round=$((round + 1))
    [ ! -t 2 ] || printf '\rpair %d of %d ' "$round" "$pairs" >&2
    order="old new"
    [ $((round % 2)) = 1 ] || order="new old"
    for one in $what; do
        for side in $order; do
            "measure_$one" "$side" >>"$work/seen"
        done
    done
done
[ ! -t 2 ] || printf '\r%20s\r' '' >&2

awk -v pairs="$pairs" '
function sort(list, n,    i, j, swap) {
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j - 1] > list[j]; j--) {
            swap = list[j]; list[j] = list[j - 1]; list[j - 1] = swap
        }
}
function median(list, n) {
    return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}
# The largest rank k for which fewer than k of n tosses are heads with at most 2.5 %; 0: none is.
function rank(n,    k, term, sum) {
    term = 0.5 ^ n
    for (sum = term; sum <= 0.025; sum += term) term *= (n - k) / ++k
    return k
}
function line(name,    n, i, k, a, b, r, low, high, slow) {
    n = count[name, "new"]
    if (n != pairs || count[name, "old"] != n) {
        printf "%-18s was not measured in every pair\n", name
        return 1
    }
    for (i = 1; i <= n; i++) {
        a[i] = rate[name, "old", i]; b[i] = rate[name, "new", i]; r[i] = b[i] / a[i]
    }
    sort(a, n); sort(b, n); sort(r, n)
    k = rank(n)
    low = k ? sprintf("%.4f", r[k]) : "-"; high = k ? sprintf("%.4f", r[n + 1 - k]) : "-"
    slow = median(r, n) < 0.97 || k && r[n + 1 - k] < 0.99
    printf "%-18s %12.4f %12.4f %8.4f  %s to %s%s\n", name, median(a, n), median(b, n),
        median(r, n), low, high, slow ? "  SLOWER" : ""
    return slow
}
!(($1, $2) in count) && $2 == "old" { names[++n_names] = $1 }
{ rate[$1, $2, ++count[$1, $2]] = $3 }
END {
    printf "%-18s %12s %12s %8s  %s\n", "a second", "old", "new", "new/old", "95 % of " pairs
    for (i = 1; i <= n_names; i++) slower += line(names[i])
    print slower ? slower " slower" : "as fast"
    exit slower > 0
}' "$work/seen"
