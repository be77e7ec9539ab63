/* train_waiting.c: what the embedding's tokens give waits until all micro-batches have run.
 *
 * A matrix that is embedding and output too gets gradients from both ends: H from the head, at the
 * end of the forward pass, and E from the embedding, at the end of the backward pass. Added as they
 * come, their order would tell how the batch is divided, and sums of floats depend on the order:
 *
 *     one micro-batch      H1 H2 H3 H4 E1 E2 E3 E4
 *     two                  H1 H2 E1 E2 H3 H4 E3 E4
 *
 * So all H are added first, which a micro-batch of the whole batch does by itself. In smaller ones
 * E waits, in a row for each token of the batch; the rows are added in the order of the tokens.
 * Where that is more than WAITING_BYTES and more than the matrix itself has, there is a row for
 * each word instead, which its tokens are added to in their order, in a whole batch too.
 *
 * Invariant: the order depends on the tokens' places in the batch only; what decides between tokens
 * and words is not the micro-batch. Micro-batches that aren't whole blocks of 256 tokens have bits
 * of their own (linear.h), and nothing waits there; so have those of a rank whose gradients are
 * cut, which gives them away after each.
 * Cost: the rows are written, read and cleared once in a step. */
#include "ops/gemm/linear.h"
#include "train/ways/train_plan.h"

enum { WAITING_BYTES = 4 << 20 };

mnem__train_rows mnem__train_rows_get(const mnem__train_setup *setup, int32_t micro_batch) {
    const mnem_transformer *t = &setup->shape->t;
    const int64_t tokens = (int64_t)setup->share.count * setup->o.sequence;
    const int64_t least = WAITING_BYTES / (t->embd * (int64_t)sizeof(float));
    const mnem__train_rows none = {MNEM__TRAIN_WAITING_NONE, 0};
    if (setup->shape->frozen_count || (setup->cut.sums && micro_batch != setup->share.count) ||
        (int64_t)micro_batch * setup->o.sequence % MNEM__LINEAR_TOKENS != 0)
        return none;
    if (tokens > t->vocab && tokens > least)
        return (mnem__train_rows){MNEM__TRAIN_WAITING_WORDS, t->vocab};
    if (micro_batch == setup->share.count) return none;
    return (mnem__train_rows){MNEM__TRAIN_WAITING_TOKENS, tokens};
}

mnem_status mnem__train_rows_op(const mnem__train_setup *setup, const mnem__train_rows *rows,
                                mnem_op *op) {
    const mnem_transformer *t = &setup->shape->t;
    mnem_op_desc desc = {.kind = MNEM_OP_EMBED_GRAD,
                         .by_token = rows->waiting == MNEM__TRAIN_WAITING_WORDS,
                         .workers = setup->o.threads};
    desc.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, rows->rows, t->embd);
    desc.out = mnem_tensor_2d(MNEM_TYPE_F32, t->vocab, t->embd);
    return mnem_op_prepare(&desc, op);
}
