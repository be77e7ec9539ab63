#!/bin/sh
# compare_gemm.sh PYTHON [THREADS [TOKENS ROWS K [BENCH]]]: the matrix products of training beside
# PyTorch's, which the interpreter PYTHON has. Both run three times in turn; the best times are shown.
# TOKENS ROWS K must be one of bench_gemm's shapes (default 2048 1536 384).
set -eu
python=$1 threads=${2:-1} tokens=${3:-2048} rows=${4:-1536} k=${5:-384}
here=$(dirname "$0")
bench=${6:-$here/../build/release/bench/bench_gemm}
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for _ in 1 2 3; do
    "$bench" "$threads" "$tokens x $rows x $k weight F32" | awk '$1 ~ /^linear/ { for (i = 1; i < NF; i++)
        if ($(i + 1) == "ms") print "ours", $1, $2, $i }' >>"$lines"
    "$python" "$here/gemm_torch.py" "$threads" "$tokens" "$rows" "$k" | sed 's/^/theirs /' >>"$lines"
done
awk -v what="$tokens x $rows x $k, $threads threads" '
    { name = $2 " " $3; if (!(($1, name) in t) || $4 < t[$1, name]) t[$1, name] = $4; seen[name] = 1 }
    END {
        print what
        printf "%-28s %10s %10s %8s\n", "", "ours ms", "theirs ms", "ours /"
        for (name in seen) if (("ours", name) in t && ("theirs", name) in t)
            printf "%-28s %10.3f %10.3f %8.3f\n", name, t["ours", name], t["theirs", name],
                t["ours", name] / t["theirs", name]
    }' "$lines"
