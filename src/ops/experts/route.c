/* route.c: ROUTE: the experts of each token, and their weights, from a router's scores (Shazeer et
 * al. 2017, "Outrageously large neural networks").
 *
 * At last weights are multiplied with a factor of each expert, where there are such (Gemma 4).
 * A row's weights are made of all its scores by a kernel of lanes; choosing is plain C. Ties go to
 * the lower number, so that a choice depends on the scores only, and what isn't a number never
 * leads out of the list: an expert is chosen, with a weight that is none either.
 * Cost: N k comparisons a token. */
#include <math.h>
#include <string.h>

#include "ops/core/op_rows.h"
#include "ops/rows/row_kernels.h"

enum { EXPERTS_MAX = 4096 };

/* Groups of two experts or more, and enough of them in the groups that are used. */
static bool groups_fit(const mnem_route *route, int64_t experts) {
    const int32_t groups = route->groups, used = route->groups_used;
    if (groups == 0) return true;
    if (groups < 1 || experts % groups || experts / groups < 2 || used < 1 || used > groups)
        return false;
    return experts / groups * used >= route->used;
}

static mnem_status check_route(const mnem_op_desc *desc) {
    const mnem_tensor *scores = &desc->in[0], *bias = &desc->in[1], *out = &desc->out;
    const mnem_route *route = &desc->route;
    if (!mnem__tensor_is_f32(scores, 2) || scores->shape[1] > EXPERTS_MAX)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[0] must be F32 [T, N], with at most 4096 experts (N)");
    if (!mnem__tensor_absent(bias) &&
        (!mnem__tensor_is_f32(bias, 1) || bias->shape[0] != scores->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[1] must be F32 [N], with the N (number of experts) of in[0]");
    const mnem_tensor *factors = &desc->in[2];
    if (!mnem__tensor_absent(factors) &&
        (!mnem__tensor_is_f32(factors, 1) || factors->shape[0] != scores->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[2] must be F32 [N], with the N (number of experts) of in[0]");
    if (route->used < 1 || route->used > scores->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc,
                             "route.used is %d, expected 1 to %lld, the number of experts",
                             (int)route->used, (long long)scores->shape[1]);
    if (!groups_fit(route, scores->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "route.groups is %d and groups_used %d: the number of experts must be "
                             "a multiple of groups, each group must have at least 2 experts, and "
                             "groups_used groups together at least route.used (%d)",
                             (int)route->groups, (int)route->groups_used, (int)route->used);
    if (!isfinite(route->scale))
        return mnem__op_fail(MNEM_INVALID, desc, "route.scale is %g, expected a finite number",
                             (double)route->scale);
    if (!(route->mixer >= 0 && route->mixer <= 1) ||
        (route->mixer > 0 && (route->groups > 0 || !mnem__tensor_absent(bias))))
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "route.mixer is %g, expected 0 to 1, or 0 where route.groups or in[1] is set",
            (double)route->mixer);
    if (!mnem__tensor_is_f32(out, 2) || out->shape[0] != scores->shape[0] ||
        out->shape[1] != 2 * (int64_t)route->used)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "out must be F32 [T, 2 * route.used], with the T of in[0]");
    return MNEM_OK;
}

/* One worker's weights of all experts, and what the choice is made by. */
static uint64_t scratch_bytes(const mnem_op_desc *desc) {
    return mnem__align_up(2 * (uint64_t)desc->in[0].shape[1] * sizeof(float), 64);
}

static uint64_t workspace(const mnem_op *op) {
    return scratch_bytes(&op->desc) * (uint64_t)op->desc.workers;
}

static bool is_chosen(const float *numbers, int32_t count, int64_t expert) {
    for (int32_t i = 0; i < count; i++)
        if (numbers[i] == (float)expert) return true;
    return false;
}

static int64_t best_of_rest(int64_t n, const float *by, const float *numbers, int32_t count) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if ((best < 0 || by[i] > by[best]) && !is_chosen(numbers, count, i)) best = i;
    return best;
}

/* Puts a number where it belongs among ascending ones. */
static void insert(float *numbers, int32_t count, float number) {
    for (; count > 0 && numbers[count - 1] > number; count--) numbers[count] = numbers[count - 1];
    numbers[count] = number;
}

/* The sum of the two best, or the best. */
static float group_score(const mnem_route *route, int64_t n, const float *by) {
    float best[2] = {-INFINITY, -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        if (by[i] > best[0]) {
            best[1] = best[0];
            best[0] = by[i];
        } else if (by[i] > best[1]) {
            best[1] = by[i];
        }
    }
    return route->groups_by_best ? best[0] : best[0] + best[1];
}

/* Those of the worst groups are chosen after all others. */
static void leave_groups(const mnem_route *route, int64_t n, float *by) {
    const int64_t size = n / route->groups;
    for (int32_t out = route->groups - route->groups_used; out > 0; out--) {
        int64_t worst = -1;
        float least = 0;
        for (int32_t g = 0; g < route->groups; g++) {
            const float score = group_score(route, size, by + g * size);
            if (score == -INFINITY || (worst >= 0 && !(score <= least))) continue;
            worst = g;
            least = score;
        }
        for (int64_t i = 0; i < size && worst >= 0; i++) by[worst * size + i] = -INFINITY;
    }
}

/* Those chosen, times a factor of each expert. */
static void multiply(const mnem_route *route, const float *factors, float *out) {
    for (int32_t i = 0; i < route->used; i++) out[route->used + i] *= factors[(int64_t)out[i]];
}

/* by: what is largest is chosen; weights [n] -> out [2 used] */
static void choose(const mnem_route *route, int64_t n, const float *by, const float *weights,
                   float *out) {
    const int32_t used = route->used;
    float sum = 0, *chosen = out + used;
    for (int32_t i = 0; i < used; i++) insert(out, i, (float)best_of_rest(n, by, out, i));
    for (int32_t i = 0; i < used; i++) {
        chosen[i] = weights[(int64_t)out[i]];
        sum += chosen[i];
    }
    const float scale = route->scale != 0 ? route->scale : 1;
    for (int32_t i = 0; i < used; i++) {
        if (route->normalized) chosen[i] /= sum;
        chosen[i] *= scale;
    }
}

/* ---- SparseMixer ---- */

static const float away = -1e30f; /* a score of no weight */

/* left: scores, away for those chosen before. The weight of the largest of them. */
static float mixer_weight(const mnem__row_kernels *kernels, float mixer, int64_t n,
                          const float *scores, float *left, float *weights) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (left[i] > left[best]) best = i;
    const float top = left[best];
    for (int64_t i = 0; i < n; i++) {
        const float size = fmaxf(fabsf(scores[i]), top);
        weights[i] = (top - scores[i]) / size > mixer ? away : left[i];
    }
    kernels->softmax(n, weights, weights);
    left[best] = away;
    return weights[best];
}

/* One expert after another, each by what is left. */
static void choose_mixed(const mnem__row_kernels *kernels, const mnem_route *route, int64_t n,
                         const float *scores, float *scratch, float *out) {
    float *left = scratch, *weights = scratch + n, *chosen = out + route->used;
    memcpy(left, scores, (size_t)n * sizeof *left);
    for (int32_t k = 0; k < route->used; k++) {
        const float number = (float)best_of_rest(n, left, out, k);
        const float weight = mixer_weight(kernels, route->mixer, n, scores, left, weights);
        int32_t at = k;
        for (; at > 0 && out[at - 1] > number; at--) {
            out[at] = out[at - 1];
            chosen[at] = chosen[at - 1];
        }
        out[at] = number;
        chosen[at] = weight;
    }
}

static void run_route(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *d = &op->desc;
    const mnem__row_kernels *kernels = op->detail;
    const mnem__op_rows in = mnem__op_rows_get(&d->in[0], args->in[0]);
    const mnem__op_rows out = mnem__op_rows_get(&d->out, args->out);
    float *weights = mnem__op_scratch(args, worker, scratch_bytes(d)), *by = weights + in.n;
    const float *factors = mnem__tensor_absent(&d->in[2])
                               ? NULL
                               : (const void *)((const char *)args->in[2] + d->in[2].offset);
    const bool biased = !mnem__tensor_absent(&d->in[1]);
    int64_t begin, end;
    mnem_team_split(worker, args->tokens, 1, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        const float *scores = mnem__op_row(&in, t, 0);
        if (d->route.mixer > 0) {
            choose_mixed(kernels, &d->route, in.n, scores, weights, mnem__op_row(&out, t, 0));
            continue;
        }
        (d->route.sigmoid ? kernels->sigmoid : kernels->softmax)(in.n, scores, weights);
        /* Scores are in the order of weights, but can't be added up. */
        memcpy(by, biased || d->route.groups > 0 ? weights : scores, (size_t)in.n * sizeof *by);
        if (biased) kernels->add(in.n, by, (const char *)args->in[1] + d->in[1].offset, by);
        if (d->route.groups > 0) leave_groups(&d->route, in.n, by);
        choose(&d->route, in.n, by, weights, mnem__op_row(&out, t, 0));
        if (factors) multiply(&d->route, factors, mnem__op_row(&out, t, 0));
    }
}

MNEM__ROW_OP(route, check_route, workspace, run_route)
