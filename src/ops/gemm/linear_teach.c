/* linear_teach.c: sums, loss and gradients of a token beside a teacher's.
 *
 * The idea: the divergence needs three sums, which groups of words add to, as they do to that of
 * cross-entropy: with Z(x) = sum e^((x - largest) / T),
 *
 *     sum p(t) (log p(t) - log p(s))  =  sum p(t) (t - s) / T  +  log p's: of s, less of t
 *
 * so no row of either's probabilities is ever written.
 * Invariant: words are added in chunks that the caller cuts, so what is kept of the logits doesn't
 * show. Cost: four exponentials a word where cross-entropy has two. */
#include "ops/gemm/linear_teach.h"

#include <math.h>

#include "ops/gemm/linear.h"

/* Above, e^((s - largest) / T) is 1 for all logits. */
static const float temperature_most = 1e3f;

mnem__exp_sum mnem__exp_sum_add(mnem__exp_sum a, mnem__exp_sum b, double factor) {
    const double top = fmax(a.largest, b.largest);
    return (mnem__exp_sum){top, a.sum * exp((a.largest - top) * factor) +
                                    b.sum * exp((b.largest - top) * factor)};
}

/* ---- the descriptor ---- */

bool mnem__teach_is(const mnem_op_desc *desc) {
    return !mnem__tensor_absent(&desc->in[2]);
}

static mnem_status check_weight(const mnem_op_desc *desc) {
    if (desc->teach_weight >= 0 && desc->teach_weight <= 1) return MNEM_OK;
    return mnem__op_fail(MNEM_INVALID, desc, "teach_weight is %g, expected 0 to 1",
                         (double)desc->teach_weight);
}

mnem_status mnem__teach_check(const mnem_op_desc *desc) {
    if (!mnem__teach_is(desc)) {
        if (mnem__tensor_absent(&desc->in[3])) return check_weight(desc);
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[3] (the teacher's weights) is given without in[2] (the teacher's "
                             "states); give both or neither");
    }
    const mnem_tensor *x = &desc->in[2], *weight = &desc->in[3];
    mnem_op_desc teacher = {.kind = desc->kind, .in = {*x, *weight}};
    if (!mnem__linear_is_matrix(desc, x, desc->in[0].shape[0], x->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[2] must be a matrix of F32, BF16 or F16 (F64 if in[0] is) with as "
                             "many rows as in[0]");
    if (mnem__linear_check_weight(&teacher) != MNEM_OK ||
        weight->shape[0] != desc->in[1].shape[0] || weight->shape[1] != x->shape[1])
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[3] must be a matrix in row layout, of a type for weights, with "
                             "the rows of in[1] and the columns of in[2]");
    MNEM__TRY(check_weight(desc));
    if (!(desc->teach_temperature >= 1 / temperature_most &&
          desc->teach_temperature <= temperature_most))
        return mnem__op_fail(MNEM_INVALID, desc, "teach_temperature is %g, expected 0.001 to 1000",
                             (double)desc->teach_temperature);
    return MNEM_OK;
}

/* ---- a token ---- */

static double factor_of(const mnem_op_desc *desc) {
    return 1 / (double)desc->teach_temperature;
}

void mnem__taught_add(mnem__taught *sums, const mnem_op *op, int64_t n, const void *student,
                      const void *teacher, bool first) {
    const mnem__gemm_kernels *kernels = op->detail;
    const double factor = factor_of(&op->desc);
    mnem__taught now;
    kernels->sum_exp(n, student, factor, &now.student.largest, &now.student.sum);
    kernels->sum_exp(n, teacher, factor, &now.teacher.largest, &now.teacher.sum);
    now.apart = kernels->sum_apart(n, student, teacher, now.teacher.largest, factor);
    if (!first) {
        const double before = sums->teacher.largest, largest = now.teacher.largest;
        now.student = mnem__exp_sum_add(sums->student, now.student, factor);
        now.teacher = mnem__exp_sum_add(sums->teacher, now.teacher, factor);
        now.apart = sums->apart * exp((before - now.teacher.largest) * factor) +
                    now.apart * exp((largest - now.teacher.largest) * factor);
    }
    *sums = now;
}

double mnem__taught_loss(const mnem__taught *sums, const mnem_op_desc *desc, double loss) {
    const double a = (double)desc->teach_weight, t = (double)desc->teach_temperature;
    const mnem__exp_sum s = sums->student, of = sums->teacher;
    const double divergence =
        (sums->apart / of.sum + (s.largest - of.largest)) / t + log(s.sum / of.sum);
    return (1 - a) * loss + a * t * t * divergence;
}

void mnem__taught_turn(const mnem__taught *sums, const mnem_op *op, int64_t n, void *student,
                       const void *teacher, mnem__exp_sum logits, double scale) {
    const mnem__gemm_kernels *kernels = op->detail;
    const double a = (double)op->desc.teach_weight;
    const double soft = scale * a * (double)op->desc.teach_temperature;
    const mnem__gemm_teach t = {.factor = factor_of(&op->desc),
                                .largest = logits.largest,
                                .hard = scale * (1 - a) / logits.sum,
                                .soft = soft / sums->student.sum,
                                .teacher_largest = sums->teacher.largest,
                                .teacher = soft / sums->teacher.sum};
    kernels->teach_exp(n, student, teacher, &t);
}
