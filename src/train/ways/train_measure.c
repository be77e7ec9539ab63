/* train_measure.c: the bytes of every part of a trainer, for planning and for creating.
 *
 * Invariant: nothing here takes the trainer's memory; graphs are built to be measured by the code
 * that builds them to be run, and create takes the bytes that are measured here. */
#include <stdio.h>

#include "base/checked.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "base/thread.h"
#include "device/backend/backend.h"
#include "train/checkpoint/checkpoint.h"
#include "train/program/train_mask.h"
#include "train/step/trainer_private.h"
#include "train/teacher/teacher_stream.h"
#include "train/ways/train_plan.h"

enum { BATCH_DEFAULT = 8, BRIEF_TOKENS = 64 };
/* 36 PB and 8.8e12: far over any machine, far under 2^64 and the optimizer's 2^44. */
static const double bytes_most = 0x1p55, parameters_most = 0x1p43;

/* ---- options ---- */

/* Positions and tokens of a batch are counted in int32_t. */
static mnem_status check_tokens(const mnem_train_options *o) {
    const int64_t tokens = (int64_t)o->batch * o->sequence;
    if (tokens <= INT32_MAX) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "train: a batch of %d sequences of %d tokens has %lld tokens, expected at "
                      "most %d; use a smaller batch, or shorter sequences",
                      o->batch, o->sequence, (long long)tokens, INT32_MAX);
}

/* Every sum of bytes of the plan is a few times this one, so that none passes 2^64. */
static mnem_status check_bytes(const mnem_train_options *o) {
    const mnem_transformer *t = &o->shape;
    const double d = t->embd, q = (double)t->heads * t->head_dim,
                 kv = (double)t->kv_heads * t->head_dim;
    const double of_token =
        t->layers * (6 * d + 3.0 * t->ff + 2 * q + 2 * kv + t->heads) + t->vocab;
    const double of_model = t->layers * d * (2 * q + 2 * kv + 3.0 * t->ff) + t->vocab * d;
    const double bytes = sizeof(float) * (of_model + of_token * o->batch * o->sequence) +
                         (double)o->io_bytes + (double)o->io_bytes_sequence * o->batch;
    if (of_model <= parameters_most && bytes <= bytes_most) return MNEM_OK;
    return mnem__fail(
        MNEM_INVALID,
        "train: layers %d, embd %d, ff %d, vocab %d and a batch of %d sequences of %d tokens are "
        "too large: about %.2g parameters (at most %.2g) and %.2g bytes (at most %.2g)",
        t->layers, t->embd, t->ff, t->vocab, o->batch, o->sequence, of_model, parameters_most,
        bytes, bytes_most);
}

/* Scores that grow with the position are what they are without up to the original context. */
static int32_t sequence_most(const mnem_transformer *t) {
    const bool grow = t->attention_temperature > 0;
    return grow ? mnem__min_i32(t->context, t->rope.original_context) : t->context;
}

static mnem_status check_sizes(const mnem_train_options *o) {
    const int32_t most = sequence_most(&o->shape);
    if (o->sequence < 1 || o->sequence > most)
        return mnem__fail(MNEM_INVALID,
                          "train: a sequence has %d tokens, expected 1 to %d, the model's context",
                          o->sequence, most);
    if (o->batch < 1 || o->batch > 1 << 20)
        return mnem__fail(MNEM_INVALID, "train: a batch has %d sequences, expected 1 to 2^20",
                          o->batch);
    if (o->micro_batch < 0)
        return mnem__fail(MNEM_INVALID, "train: micro_batch is %d, expected 0 or more",
                          o->micro_batch);
    if (o->threads < 1 || o->threads > MNEM_TEAM_MAX)
        return mnem__fail(MNEM_INVALID, "train: the number of threads is %d, expected 1 to %d",
                          o->threads, MNEM_TEAM_MAX);
    const mnem_status status = check_tokens(o);
    return status == MNEM_OK ? check_bytes(o) : status;
}

static mnem_status check_options(const mnem_train_options *o) {
    if (!o->ledger) return mnem__fail(MNEM_INVALID, "train: options.ledger is missing");
    const mnem_type c = o->compute;
    if (c != MNEM_TYPE_F32 && c != MNEM_TYPE_BF16 && c != MNEM_TYPE_F16)
        return mnem__fail(MNEM_INVALID,
                          "train: the type to compute in is %d, expected F32, BF16 or F16", (int)c);
    if (!(o->dropout >= 0 && o->dropout < 1))
        return mnem__fail(MNEM_INVALID, "train: dropout is %g, expected 0 to less than 1",
                          (double)o->dropout);
    if (!(o->norm_max >= 0))
        return mnem__fail(MNEM_INVALID, "train: norm_max is %g, expected 0 or more", o->norm_max);
    const mnem_status status = check_sizes(o);
    return status == MNEM_OK ? mnem__schedule_check(&o->schedule) : status;
}

static mnem_status check_teacher(const mnem__train_setup *setup) {
    const mnem_train_options *o = &setup->o;
    const mnem_transformer *t = &setup->teacher->t;
    if (t->vocab != o->shape.vocab)
        return mnem__fail(MNEM_INVALID,
                          "train: the teacher has a vocabulary of %d tokens, but the model has %d; "
                          "use a teacher with the model's vocabulary",
                          t->vocab, o->shape.vocab);
    if (o->sequence > sequence_most(t))
        return mnem__fail(
            MNEM_INVALID,
            "train: a sequence has %d tokens, expected at most %d, the teacher's context",
            o->sequence, sequence_most(t));
    if (!(o->distill.weight > 0 && o->distill.weight <= 1))
        return mnem__fail(MNEM_INVALID,
                          "train: the teacher's weight is %g, expected more than 0, up to 1",
                          (double)o->distill.weight);
    if (o->distill.temperature >= 0.1f && o->distill.temperature <= 100) return MNEM_OK;
    return mnem__fail(MNEM_INVALID, "train: the teacher's temperature is %g, expected 0.1 to 100",
                      (double)o->distill.temperature);
}

/* States can be compared number by number, and each layer needs one of its own. */
static mnem_status check_states(const mnem__train_setup *setup) {
    const mnem_transformer *ours = &setup->shape->t, *theirs = &setup->teacher->t;
    if (!setup->teach.states) return MNEM_OK;
    if (ours->embd != theirs->embd)
        return mnem__fail(MNEM_INVALID,
                          "train: the teacher's hidden states have width %d, but the model's have "
                          "%d; set distill.on to MNEM_DISTILL_LOGITS",
                          theirs->embd, ours->embd);
    if (ours->layers <= theirs->layers) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "train: the teacher has %d layers with hidden states, but the model has %d "
                      "layers; set distill.on to MNEM_DISTILL_LOGITS",
                      theirs->layers, ours->layers);
}

static mnem_status add_teacher(mnem__train_setup *setup) {
    const mnem_distill *d = &setup->o.distill;
    const unsigned on = d->on ? d->on : MNEM_DISTILL_LOGITS;
    if (!d->teacher) return MNEM_OK;
    if (on > MNEM_DISTILL_BOTH)
        return mnem__fail(MNEM_INVALID,
                          "train: distill.on is %u, expected MNEM_DISTILL_LOGITS, "
                          "MNEM_DISTILL_STATES or MNEM_DISTILL_BOTH",
                          on);
    MNEM__TRY(mnem__train_shape_create_frozen(d->teacher, &setup->teacher));
    setup->teach = (mnem__train_teaching){.logits = on & MNEM_DISTILL_LOGITS,
                                          .states = on & MNEM_DISTILL_STATES,
                                          .weight = d->weight,
                                          .temperature = d->temperature,
                                          .layers = setup->shape->t.layers};
    MNEM__TRY(check_teacher(setup));
    return check_states(setup);
}

/* ---- ranks ---- */

static mnem_status share_batch(mnem__train_setup *setup) {
    mnem_train_options *o = &setup->o;
    const int32_t ranks = o->comm ? mnem_comm_size(o->comm) : 1;
    const int32_t rank = o->comm ? mnem_comm_rank(o->comm) : 0;
    char whose[40] = "a batch";
    if (ranks > 1) snprintf(whose, sizeof whose, "rank %d's share", rank);
    setup->comm = ranks > 1 ? o->comm : NULL;
    setup->share = mnem__ranks_share_get(o->batch, ranks, rank);
    if ((unsigned)o->shard > MNEM_SHARD_GRADIENTS)
        return mnem__fail(MNEM_INVALID, "train: shard is %d, expected a constant of mnem_shard",
                          (int)o->shard);
    if (!o->shard) o->shard = ranks > 1 ? MNEM_SHARD_OPTIMIZER : MNEM_SHARD_NONE;
    if (o->shard == MNEM_SHARD_GRADIENTS && (ranks == 1 || o->masked))
        return mnem__fail(MNEM_INVALID, "train: sharding gradients needs several ranks, and is not "
                                        "supported with masked training");
    if (ranks > o->batch)
        return mnem__fail(
            MNEM_INVALID,
            "train: a batch has %d sequence%s, too few for %d ranks: each rank needs at least one",
            o->batch, o->batch == 1 ? "" : "s", ranks);
    if (!o->micro_batch || setup->share.count % o->micro_batch == 0) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "train: micro_batch is %d, which doesn't divide %s of %d sequences",
                      o->micro_batch, whose, setup->share.count);
}

/* In one allocation: segments, parts of them, and where the buckets are cut. */
uint64_t mnem__train_setup_bytes(const mnem__train_setup *setup) {
    const uint64_t each = sizeof(mnem__segment), params = (uint64_t)setup->shape->params;
    if (!setup->comm) return params * each;
    return 2 * params * each +
           mnem__ranks_cut_numbers(setup->shape, mnem_comm_size(setup->comm)) * sizeof(int64_t);
}

static void cut_gradients(mnem__train_setup *setup) {
    mnem__train_shape *s = setup->shape;
    mnem__ranks_cut_gradients(mnem_comm_rank(setup->comm), &setup->cut);
    for (int32_t i = 0, bucket = 0; i < s->params; i++) {
        bucket = mnem__ranks_bucket_next(s, i, bucket);
        s->param[i].gradients = s->param[i].offset - setup->cut.local[bucket];
    }
}

static mnem_status add_segments(mnem__train_setup *setup) {
    mnem__train_shape *s = setup->shape;
    setup->segments = mnem__alloc("train", mnem__train_setup_bytes(setup));
    if (!setup->segments) return mnem__heap_status();
    for (int32_t i = 0; i < s->params; i++)
        setup->segments[i] = mnem__segment_make(s->param[i].name, s->param[i].offset,
                                                s->param[i].count, s->param[i].dims);
    setup->parts = setup->segments;
    setup->part_count = s->params;
    if (!setup->comm) return MNEM_OK;
    setup->parts = setup->segments + s->params;
    mnem__ranks_cut_make(s, mnem_comm_size(setup->comm), (int64_t *)(setup->parts + s->params),
                         &setup->cut);
    if (setup->o.shard == MNEM_SHARD_GRADIENTS) cut_gradients(setup);
    setup->part_count = mnem__ranks_parts(&setup->cut, s, setup->segments,
                                          mnem_comm_rank(setup->comm), setup->parts);
    if (setup->part_count > 0) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "train: the model's %lld parameters are too few: rank %d of %d would get "
                      "none; use fewer ranks",
                      (long long)s->count, mnem_comm_rank(setup->comm), setup->cut.ranks);
}

/* ---- the whole setup ---- */

mnem_status mnem__train_setup_init(mnem__train_setup *setup, const mnem_train_options *options) {
    *setup = (mnem__train_setup){.o = *options};
    mnem_train_options *o = &setup->o;
    if (o->lora.rank && o->masked)
        return mnem__fail(MNEM_INVALID, "train: adapters (lora) and masked can't be combined: "
                                        "adapters don't change the model's zeros");
    MNEM__TRY(o->lora.rank ? mnem__train_shape_create_lora(&o->lora, &setup->shape)
                           : mnem__train_shape_create(&o->shape, &setup->shape));
    o->shape = setup->shape->t;
    if (!o->sequence) o->sequence = o->shape.context;
    if (!o->batch) o->batch = BATCH_DEFAULT;
    if (!o->threads) o->threads = mnem__processors();
    if (o->threads > MNEM_TEAM_MAX && !options->threads) o->threads = MNEM_TEAM_MAX;
    mnem_status status = check_options(o);
    if (status == MNEM_OK) status = share_batch(setup);
    if (status == MNEM_OK) status = add_teacher(setup);
    if (status == MNEM_OK) status = add_segments(setup);
    if (status != MNEM_OK) mnem__train_setup_fini(setup);
    return status;
}

void mnem__train_setup_fini(mnem__train_setup *setup) {
    mnem__train_shape_destroy(setup->shape);
    mnem__train_shape_destroy(setup->teacher);
    mnem__free(setup->segments);
    setup->shape = setup->teacher = NULL;
    setup->segments = NULL;
}

/* ---- graphs ---- */

/* keep NULL: forward only, and then in F32, as the model will be run: there is room for it, since
 * nothing is kept. */
static mnem__train_graph_options graph_options(const mnem__train_setup *setup, int32_t micro_batch,
                                               const uint8_t *keep) {
    return (mnem__train_graph_options){.shape = setup->shape,
                                       .layers = setup->shape->t.layers,
                                       .sequences = micro_batch,
                                       .sequence = setup->o.sequence,
                                       .workers = setup->o.threads,
                                       .compute = keep ? setup->o.compute : MNEM_TYPE_F32,
                                       .dropout = keep ? setup->o.dropout : 0,
                                       .waiting = mnem__train_rows_get(setup, micro_batch).waiting,
                                       .teacher = keep ? setup->teacher : NULL,
                                       .teach = setup->teach,
                                       .keep = keep};
}

/* A sample's first tokens: the logits of a short text shouldn't cost a pass of the whole sequence,
 * which is forward's graph. */
static mnem__train_graph_options brief_options(const mnem__train_setup *setup) {
    mnem__train_graph_options brief = graph_options(setup, 1, NULL);
    if (brief.sequence > BRIEF_TOKENS) brief.sequence = BRIEF_TOKENS;
    return brief;
}

/* The teacher's forward pass, in the type of the step that it is for. */
static mnem__train_graph_options teacher_options(const mnem__train_setup *setup,
                                                 int32_t micro_batch) {
    return (mnem__train_graph_options){.shape = setup->teacher,
                                       .layers = setup->teacher->t.layers,
                                       .sequences = micro_batch,
                                       .sequence = setup->o.sequence,
                                       .workers = setup->o.threads,
                                       .compute = setup->o.compute,
                                       .teach = setup->teach,
                                       .teaches = true,
                                       .streams = setup->streams};
}

typedef mnem_status make(const mnem__train_graph_options *options, mnem__train_graph *out);

/* The same graphs, whether they are built or measured: `one` says which, so a plan can't
 * measure another set than create builds. */
static mnem_status make_graphs(const mnem__train_setup *setup, int32_t micro_batch,
                               const uint8_t *keep, make *one, mnem__train_scratch *scratch,
                               mnem__train_graphs *graphs) {
    mnem__train_graph_options step = graph_options(setup, micro_batch, keep);
    mnem__train_graph_options forward = graph_options(setup, micro_batch, NULL);
    mnem__train_graph_options brief = brief_options(setup);
    step.scratch = forward.scratch = brief.scratch = scratch;
    graphs->brief_sequence = brief.sequence;
    MNEM__TRY(one(&step, &graphs->step));
    MNEM__TRY(one(&forward, &graphs->forward));
    if (setup->teacher) {
        mnem__train_graph_options teacher = teacher_options(setup, micro_batch);
        teacher.scratch = scratch;
        MNEM__TRY(one(&teacher, &graphs->teacher));
    }
    return one(&brief, &graphs->brief);
}

mnem_status mnem__train_graphs_create(const mnem__train_setup *setup, int32_t micro_batch,
                                      const uint8_t *keep, mnem__train_graphs *graphs) {
    *graphs = (mnem__train_graphs){.step.graph = NULL};
    const mnem_status status =
        make_graphs(setup, micro_batch, keep, mnem__train_graph_create, NULL, graphs);
    if (status != MNEM_OK) mnem__train_graphs_destroy(graphs);
    return status;
}

/* Planning tries many ways to keep layers with the same micro-batch; forward and brief keep nothing
 * and are measured once for all of them. */
static mnem_status measure_unknown(const mnem__train_graph_options *options,
                                   mnem__train_graph *out) {
    return out->room.tensors ? MNEM_OK : mnem__train_graph_measure(options, out);
}

mnem_status mnem__train_brief_measure(const mnem__train_setup *setup, mnem__train_graph *brief) {
    const mnem__train_graph_options options = brief_options(setup);
    return mnem__train_graph_measure(&options, brief);
}

mnem_status mnem__train_graphs_measure(const mnem__train_setup *setup, int32_t micro_batch,
                                       const uint8_t *keep, mnem__train_scratch *scratch,
                                       mnem__train_graphs *graphs) {
    graphs->step = (mnem__train_graph){.graph = NULL};
    return make_graphs(setup, micro_batch, keep, measure_unknown, scratch, graphs);
}

void mnem__train_graphs_destroy(mnem__train_graphs *graphs) {
    mnem_graph_destroy(graphs->step.graph);
    mnem_graph_destroy(graphs->forward.graph);
    mnem_graph_destroy(graphs->brief.graph);
    mnem_graph_destroy(graphs->teacher.graph);
    *graphs = (mnem__train_graphs){.step.graph = NULL};
}

mnem_status mnem__train_logits_op(const mnem__train_setup *setup, mnem_op *op) {
    const mnem_transformer *t = &setup->shape->t;
    mnem_op_desc desc = {.kind = MNEM_OP_LINEAR, .workers = 1};
    desc.in[0] = mnem_tensor_2d(MNEM_TYPE_F32, 1, t->embd);
    const mnem__train_frozen *frozen = mnem__train_output_get(setup->shape);
    desc.in[1] = mnem_tensor_2d(frozen ? frozen->type : MNEM_TYPE_F32, t->vocab, t->embd);
    desc.out = mnem_tensor_2d(MNEM_TYPE_F32, 1, t->vocab);
    return mnem_op_prepare(&desc, op);
}

/* ---- the parts ---- */

/* Behind the trainer, in its allocation:
 *
 *     [ mnem_trainer | positions[tokens] | ids, targets[sequence] | waiting[rows] | parts
 *       | ready, begin[buckets] ]
 *
 * waiting only where each token's row waits; where a row waits for each word, the id is its
 * place. parts only where a teacher is streamed, ready only of several ranks. */
uint64_t mnem__train_tables_lay_out(const mnem__train_setup *setup, int32_t micro_batch,
                                    uint8_t *base, mnem__train_tables *tables) {
    const uint64_t tokens = (uint64_t)micro_batch * (uint64_t)setup->o.sequence;
    const uint64_t at = mnem__align_up(sizeof(mnem_trainer), 64);
    const uint64_t sequence = (uint64_t)setup->o.sequence;
    const mnem__train_rows rows = mnem__train_rows_get(setup, micro_batch);
    const uint64_t waiting = rows.waiting == MNEM__TRAIN_WAITING_TOKENS ? (uint64_t)rows.rows : 0;
    const uint64_t parts = setup->streams ? (uint64_t)setup->teacher->t.layers + 1 : 0;
    if (base) {
        tables->positions = (void *)(base + at);
        tables->ids = tables->positions + tokens;
        tables->targets = tables->ids + sequence;
        tables->waiting = tables->targets + sequence;
        tables->parts = tables->waiting + waiting;
        tables->ready = tables->parts + parts;
    }
    const uint64_t buckets = (uint64_t)setup->cut.buckets; /* 0: alone */
    if (base) tables->begin = tables->ready + buckets;
    return at + (tokens + 2 * sequence + waiting + parts + 2 * buckets) * sizeof(int32_t);
}

/* What create takes of the heap: asked from those that will take it, never written down twice. */
static void measure_host(const mnem__train_setup *setup, int32_t micro_batch,
                         const mnem__train_graphs *graphs, mnem__train_sizes *sizes) {
    uint64_t *bytes = sizes->all.bytes;
    bytes[MNEM__PART_HOST_TRAIN] = mnem__train_tables_lay_out(setup, micro_batch, NULL, NULL) +
                                   setup->shape->bytes + mnem__train_setup_bytes(setup) +
                                   (setup->teacher ? setup->teacher->bytes : 0);
    bytes[MNEM__PART_HOST_GRAPH] = mnem_graph_host_bytes(&graphs->step.room) +
                                   mnem_graph_host_bytes(&graphs->forward.room) +
                                   mnem_graph_host_bytes(&graphs->brief.room);
    if (setup->teacher)
        bytes[MNEM__PART_HOST_GRAPH] += mnem_graph_host_bytes(&graphs->teacher.room);
    size_t n;
    mnem__train_updated(setup, &n);
    bytes[MNEM__PART_HOST_OPTIMIZER] = mnem__optimizer_host_bytes(n);
    if (setup->comm && setup->o.shard == MNEM_SHARD_NONE) /* of norms */
        bytes[MNEM__PART_HOST_OPTIMIZER] += mnem__optimizer_host_bytes((size_t)setup->part_count);
    bytes[MNEM__PART_CHECKPOINT] = mnem__checkpoint_host_bytes(
        setup->o.masked ? MNEM__TRAINER_ENTRIES_MASKED : MNEM__TRAINER_ENTRIES);
}

static uint64_t largest(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return mnem__max_u64(mnem__max_u64(a, b), mnem__max_u64(c, d));
}

/* What a teacher says of these tokens, until the student has run. */
static uint64_t taught_bytes(const mnem__train_setup *setup, uint64_t tokens) {
    if (!setup->teacher) return 0;
    return mnem__train_taught_at(&setup->teach, setup->o.compute, (int64_t)tokens,
                                 setup->teacher->t.embd, setup->teach.layers);
}

static uint64_t widest_row(const mnem__train_shape *s) {
    uint64_t most = 0;
    for (int32_t i = 0; s && i < s->params; i++)
        most = mnem__max_u64(most, (uint64_t)s->param[i].shape[1] * sizeof(float));
    for (int32_t i = 0; s && i < s->frozen_count; i++)
        most = mnem__max_u64(most, mnem__train_frozen_row(&s->frozen[i]));
    return most;
}

uint64_t mnem__train_piece_bytes(const mnem__train_setup *setup) {
    const uint64_t row = mnem__max_u64(widest_row(setup->shape), widest_row(setup->teacher));
    return mnem__align_up(mnem__max_u64(row, 64 << 10), 64);
}

/* [a piece][a row in a file's type], or all losses, or logits: one after another. */
static uint64_t staging_bytes(const mnem__train_setup *setup, const mnem__train_sizes *sizes) {
    const uint64_t vocab = (uint64_t)setup->shape->t.vocab * sizeof(float);
    const uint64_t losses = sizes->losses_bytes * (uint64_t)mnem__train_losses(&setup->teach);
    if (!mnem__device_is_apart(setup->o.device)) return 0;
    return mnem__max_u64(2 * mnem__train_piece_bytes(setup), mnem__max_u64(losses, vocab));
}

static void measure_teacher(const mnem__train_setup *setup, uint64_t *bytes) {
    const mnem__train_shape *s = setup->teacher;
    if (!s) return;
    bytes[MNEM__PART_TEACHER] =
        setup->streams ? mnem__train_stretch_get(s, -1).bytes : s->frozen_bytes;
    if (!setup->streams) return;
    bytes[MNEM__PART_TEACHER_RING] = mnem__teacher_ring_bytes(s);
    bytes[MNEM__PART_TEACHER_READER] = MNEM__TEACHER_STACK_BYTES;
}

/* One graph runs at a time: the step's, the teacher's, the forward pass's and the short one's share
 * a block of activations and a workspace, as large as the largest wants.
 *
 *     activations   [ block of whichever graph runs | losses | taught ] */
mnem_status mnem__train_measure(const mnem__train_setup *setup, int32_t micro_batch,
                                const mnem__train_graphs *graphs, mnem__train_sizes *sizes) {
    const uint64_t tokens = (uint64_t)micro_batch * (uint64_t)setup->o.sequence;
    *sizes = (mnem__train_sizes){.losses_offset = 0};
    uint64_t *bytes = sizes->all.bytes;
    mnem_op logits;
    size_t n;
    const mnem__segment *updated = mnem__train_updated(setup, &n);
    MNEM__TRY(mnem__optimizer_measure(&setup->o.optimizer, updated, n, &bytes[MNEM__PART_MOMENTS]));
    bytes[MNEM__PART_EXCHANGE] =
        mnem__exchange_bytes(setup->cut.ranks, mnem__device_is_apart(setup->o.device));
    MNEM__TRY(mnem__train_logits_op(setup, &logits));
    bytes[setup->shape->lora_rank ? MNEM__PART_ADAPTERS : MNEM__PART_TRAINED] =
        (uint64_t)setup->shape->count * sizeof(float);
    bytes[MNEM__PART_GRADIENTS] = mnem__train_gradient_numbers(setup) * sizeof(float);
    bytes[MNEM__PART_WAITING] = (uint64_t)mnem__train_rows_get(setup, micro_batch).rows *
                                (uint64_t)setup->shape->t.embd * sizeof(float);
    bytes[MNEM__PART_FROZEN] = setup->shape->frozen_bytes;
    measure_teacher(setup, bytes);
    if (setup->o.masked) bytes[MNEM__PART_MASKS] = mnem__train_mask_bytes(setup->shape);
    const mnem_graph_sizes *step = &graphs->step.sizes, *forward = &graphs->forward.sizes;
    const mnem_graph_sizes *brief = &graphs->brief.sizes;
    const mnem_graph_sizes *teacher = &graphs->teacher.sizes; /* zeros: none */
    sizes->losses_offset = mnem__align_up(
        largest(step->block_bytes, forward->block_bytes, brief->block_bytes, teacher->block_bytes),
        64);
    sizes->losses_bytes = mnem__train_losses_bytes((int64_t)tokens, MNEM_TYPE_F32);
    sizes->taught_offset =
        sizes->losses_offset + sizes->losses_bytes * (uint64_t)mnem__train_losses(&setup->teach);
    bytes[MNEM__PART_ACTIVATIONS] = setup->teacher
                                        ? sizes->taught_offset + taught_bytes(setup, tokens)
                                        : sizes->losses_offset + tokens * sizeof(float);
    bytes[MNEM__PART_WORKSPACE] =
        mnem__max_u64(largest(logits.workspace_bytes, brief->workspace_bytes, step->workspace_bytes,
                              forward->workspace_bytes),
                      teacher->workspace_bytes);
    bytes[MNEM__PART_BATCHES] =
        setup->o.io_bytes + (uint64_t)micro_batch * setup->o.io_bytes_sequence;
    bytes[MNEM__PART_STAGING] = staging_bytes(setup, sizes);
    measure_host(setup, micro_batch, graphs, sizes);
    mnem__parts_complete(&sizes->all, setup->o.device, setup->o.threads);
    return MNEM_OK;
}
