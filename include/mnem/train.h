/* mnem/train.h: a trainer: a transformer's weights, gradients and moments, and steps over them,
 * inside a budget.
 *
 * plan says what training would take and refuses what doesn't fit; create takes exactly that; a
 * step allocates nothing. A smaller budget changes how a step is cut (sequences run together, what
 * is computed again in the backward pass), not what it computes.
 * Not here: text and batches (corpus.h), progress and files of logs (the command).
 * Threads: a trainer belongs to one thread at a time; mnem_trainer_cancel may be called from any
 * thread and from a signal handler.
 *
 *     mnem_train_options o = {.ledger = ledger, .shape = shape, .batch = 12, .sequence = 256};
 *     mnem_train_plan plan;
 *     if (mnem_train_plan_make(&o, &plan) != MNEM_OK) ...;      // nothing taken yet
 *     mnem_trainer_create(&o, &plan, &trainer);
 *     mnem_trainer_init(trainer, seed);
 *     while (mnem_trainer_step(trainer, &source, &report) == MNEM_OK) ...
 */
#ifndef MNEM_TRAIN_H
#define MNEM_TRAIN_H

#include "mnem/comm.h"
#include "mnem/graph.h"
#include "mnem/ledger.h"
#include "mnem/model.h"
#include "mnem/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Low-rank adapters on frozen weights (Hu et al., "LoRA: Low-rank adaptation of large language
 * models", 2021): a matrix W [rows, k] of a model acts as W + alpha / rank * B A, and only A
 * [rank, k] and B [rows, rank] are trained. W stays in the type that it has in the file, whichever
 * that is; gradients, moments and checkpoints are of A and B only. */
#define MNEM_LORA_TARGETS(X)                                                                       \
    X(Q, "q", 1)                                                                                   \
    X(K, "k", 2)                                                                                   \
    X(V, "v", 4)                                                                                   \
    X(QKV, "qkv", 8) /* gpt2: the three in one matrix */                                           \
    X(O, "o", 16)                                                                                  \
    X(GATE, "gate", 32)                                                                            \
    X(UP, "up", 64)                                                                                \
    X(DOWN, "down", 128)
typedef enum mnem_lora_target {
#define MNEM_LORA_ENUM(name, text, bit) MNEM_LORA_##name = bit,
    MNEM_LORA_TARGETS(MNEM_LORA_ENUM)
#undef MNEM_LORA_ENUM
} mnem_lora_target;
typedef struct mnem_lora {
    int32_t rank;     /* at most the smaller side of each matrix; 0: all weights are trained */
    float alpha;      /* default: twice the rank */
    uint32_t targets; /* set of mnem_lora_target (default: every matrix of the layers) */
    const mnem_model *base; /* required; open until the weights are loaded. Any architecture of
                               mnem_model_transformer */
} mnem_lora;
/* "q,v" as a set; MNEM_INVALID names the word that isn't one of them. */
mnem_status mnem_lora_targets_parse(const char *text, uint32_t *targets);

/* A model that is learned from beside the text: a token's loss is (1 - weight) of its
 * cross-entropy, and weight times the sum of
 *
 *   logits   temperature^2 times the divergence of softmax(logits / temperature) from the
 *            teacher's (Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network",
 *            2015)
 *   states   the mean over the layers of |x - y|^2 / |y|^2, x what comes out of the layer, y what
 *            comes out of the teacher's (as TinyBERT does; Jiao et al. 2020). Layer i of S learns
 *            from the teacher's layer i T / S of T, counted from 1, rounded down */
typedef enum mnem_distill_on {
    MNEM_DISTILL_LOGITS = 1,
    MNEM_DISTILL_STATES = 2, /* the teacher is as wide, and has as many layers or more */
    MNEM_DISTILL_BOTH = 3,
} mnem_distill_on;

typedef struct mnem_distill {
    const mnem_model *teacher; /* of the same vocabulary, word for word, and any architecture of
                                  mnem_model_transformer; open until it is loaded, or, where the
                                  plan streams it, until the trainer is gone. NULL: none */
    float weight;              /* above 0 to 1 */
    float temperature;         /* 0.1 to 100 */
    mnem_distill_on on;        /* 0: logits */
} mnem_distill;

/* Weights that were zero when they were loaded and stay so: in the matrices of the layers, in any
 * pattern. */
typedef struct mnem_train_masked {
    int32_t matrices, matrices_2_4; /* of the latter, every four neighbours have two zeros */
    int64_t weights, zeros;         /* of these matrices; of those, that stay zero */
} mnem_train_masked;

/* Of AdamW, beside the weight. */
typedef enum mnem_moments {
    MNEM_MOMENTS_F32,  /* 8 bytes for each weight */
    MNEM_MOMENTS_8BIT, /* 2 bytes, and 4 for each block of 256 (adam_kernels.c says how) */
} mnem_moments;

/* Zero means default, but for weight_decay. */
typedef struct mnem_optimizer_options {
    mnem_moments moments;
    double beta1, beta2; /* decay of the moments, above 0 and below 1 (0.9, 0.95) */
    double epsilon;      /* beside the root of the second moment, 1e-16 to 1 (1e-8) */
    double weight_decay; /* 0: none */
    uint64_t seed;       /* of the rounding of 8-bit moments */
} mnem_optimizer_options;

/* Warm-up, then half a cosine down to a floor (Loshchilov and Hutter, "SGDR", 2017). Of step t,
 * counted from 1, with W = warmup_steps and T = total_steps:
 *     t <= W:      peak t / W
 *     W < t < T:   floor + (peak - floor) (1 + cos(pi (t - W) / (T - W))) / 2
 *     t >= T:      floor */
typedef struct mnem_schedule {
    double rate_peak, rate_floor;
    uint64_t warmup_steps, total_steps;
} mnem_schedule;

/* What of training is cut over the ranks of options.comm, beside the sequences of a batch. A choice
 * changes no bit of what is computed, as long as a rank's share of a batch is one micro-batch where
 * gradients are cut: those of smaller ones are added to each other over the ranks. */
#define MNEM_SHARD_LIST(X)                                                                         \
    X(NONE, "none") /* nothing: every rank updates all weights */                                  \
    X(OPTIMIZER,                                                                                   \
      "optimizer") /* moments: each updates its part of the weights, and gives it to    \
                                 the others */          \
    X(GRADIENTS,                                                                                   \
      "gradients") /* and gradients: a layer's are sent to those that they are of, and  \
                                 its room is the next one's; not with masked */
typedef enum mnem_shard {
    /* The faster of optimizer and gradients under all ranks' budgets (none is never faster than
     * optimizer, and takes more); gradients only where no bit depends on it. */
    MNEM_SHARD_CHOSEN,
#define MNEM_SHARD_ENUM(name, text) MNEM_SHARD_##name,
    MNEM_SHARD_LIST(MNEM_SHARD_ENUM)
#undef MNEM_SHARD_ENUM
} mnem_shard;

/* Zero means default. */
typedef struct mnem_train_options {
    mnem_ledger *ledger; /* required; its budget is the plan's. While it is preparing, what was live
                            at the most so far must fit too: the same run has that peak again */
    mnem_transformer
        shape; /* "llama" or "gpt2"; layers, embd, heads, kv_heads, head_dim, ff, vocab,
                               context, epsilon and rope are used. With lora.rank: that of its
                               base, whatever is said here */
    mnem_lora lora;
    bool masked; /* weights that mnem_trainer_load finds to be zero stay zero; not with
                            lora */
    mnem_distill distill;
    int32_t sequence;    /* tokens of a sequence (default: shape.context) */
    int32_t batch;       /* sequences of a step (default 8) */
    int32_t micro_batch; /* of them run together; divides batch (default: chosen) */
    int32_t threads;     /* default: the processors this process may use */
    mnem_type compute;   /* MNEM_TYPE_F32 (0), BF16 or F16: type of activations; weights,
                               gradients and sums are f32 */
    float dropout;       /* of embeddings and of what a layer adds; 0 to below 1 */
    uint64_t seed;       /* of dropout */
    mnem_optimizer_options optimizer;
    mnem_schedule schedule;
    double norm_max; /* clipping; 0: none */
    mnem_comm *comm; /* ranks that train together, each with this trainer's options but budget,
                        threads and micro_batch; NULL: alone. A batch is that of all ranks: each
                        runs its share, gradients are added in the order of the ranks. Functions
                        marked (ranks) are called by all of them, and end alike on all of them */
    mnem_shard shard;
    /* What the caller will take beside (batches, files), for the plan: at least so much, and so
     * much for each sequence of a micro-batch. */
    uint64_t io_bytes, io_bytes_sequence;
} mnem_train_options;

enum { MNEM_TRAIN_LINES = 40, MNEM_TRAIN_LAYERS = 1024, MNEM_TRAIN_SAVE_WAYS = 32 };

/* What a layer keeps for its backward pass, as a set of these; its input is always kept. What isn't
 * kept is computed again, by the same operators on the same numbers: the same bits. */
typedef enum mnem_train_keep {
    MNEM_KEEP_NORMS = 1,     /* both norms' outputs, and the activation's */
    MNEM_KEEP_FF = 2,        /* what the activation reads (gate and up) */
    MNEM_KEEP_QKV = 4,       /* queries, keys, values */
    MNEM_KEEP_ATTENTION = 8, /* attention's output and log-sum-exp */
    MNEM_KEEP_MIDDLE = 16,   /* the sum after attention */
    MNEM_KEEP_ALL = 31,
} mnem_train_keep;

typedef struct mnem_train_plan {
    /* chosen */
    int32_t micro_batch, accumulation; /* their product is batch, or a rank's share of it */
    int32_t threads;
    int32_t ranks, first, share; /* sequences [first, first + share) of a batch are run here */
    mnem_shard shard;
    char sharding[160];                /* what else it could be, or why not; "": was given */
    uint8_t keep[MNEM_TRAIN_LAYERS];   /* mnem_train_keep of each layer */
    int32_t layers, layers_recomputed; /* that don't keep all */
    double recomputed;                 /* multiply-adds done twice over all of a step */
    /* bytes: lines sum to peak_bytes */
    uint64_t budget_bytes, peak_bytes;
    uint64_t parameters, weight_bytes, gradient_bytes, optimizer_bytes; /* of what is trained */
    uint64_t frozen_bytes;
    bool teacher_streamed;       /* its layers don't stay: they are read one behind the other */
    uint64_t teacher_bytes_read; /* from its file, for each micro-batch; 0: it is resident */
    uint64_t activation_bytes, activation_bytes_all; /* placed; when nothing is computed again with
                                                        this micro-batch */
    unsigned lines;
    mnem_plan_line line[MNEM_TRAIN_LINES];
    double macs_per_step; /* multiply-adds of a step, recomputed ones included */
    /* what another budget would change; 0: no such step */
    uint64_t smaller_bytes, larger_bytes;
    double smaller_cost, larger_cost; /* predicted time of a step against this plan's */
    char smaller[160], larger[160];
    /* on MNEM_OVER_BUDGET: the least that would do with these options, and what takes less */
    uint64_t needed_bytes;
    mnem_knob knob;
    int32_t needed_rank; /* of several: whose budget it is */
} mnem_train_plan;

/* (ranks) Takes no memory of the trainer's. MNEM_OVER_BUDGET: the text says bytes and budget; of
 * ranks, the first that has too little, whose needs and budget are the plan's then. */
mnem_status mnem_train_plan_make(const mnem_train_options *options, mnem_train_plan *plan);

/* Every way that no other beats in bytes and predicted time, from the smallest; false stops. */
typedef struct mnem_train_way {
    uint64_t peak_bytes;
    double cost; /* predicted time of a step against the fastest way's; 1 and above */
    int32_t micro_batch, layers_recomputed;
    bool teacher_streamed;
    bool chosen;
} mnem_train_way;
mnem_status mnem_train_frontier(const mnem_train_options *options, const mnem_train_plan *plan,
                                bool (*on_way)(void *context, const mnem_train_way *way),
                                void *context);
/* Predicts the time of a step from a test of this machine: products of the model's width, for some
 * 0.1 s, in memory of two f32 matrices of the model or less, which is given back.
 * MNEM_OVER_BUDGET where there is no room for it, MNEM_NO_MEMORY; seconds is 0 then. */
mnem_status mnem_train_seconds(const mnem_train_options *options, const mnem_train_plan *plan,
                               double *seconds);

/* The graph of a plan's micro-batch, with its backward pass or forward only, compiled: to be looked
 * at with graph.h. The caller destroys it. Statuses of planning. */
mnem_status mnem_train_graph_create(const mnem_train_options *options, const mnem_train_plan *plan,
                                    bool forward, mnem_graph **graph, mnem_graph_sizes *sizes);

typedef struct mnem_trainer mnem_trainer;

/* (ranks) */
mnem_status mnem_trainer_create(const mnem_train_options *options, const mnem_train_plan *plan,
                                mnem_trainer **trainer);
void mnem_trainer_destroy(mnem_trainer *trainer); /* NULL is fine */

/* ---- weights ---- */

/* A parameter as it is named in a GGUF file; its numbers in the trainer's own block. */
typedef struct mnem_parameter {
    const char *name;
    int dims;
    int64_t shape[2];           /* slowest first */
    float *weights, *gradients; /* gradients NULL: cut over ranks */
} mnem_parameter;
/* false past the last. */
bool mnem_trainer_parameter_get(const mnem_trainer *trainer, int32_t index,
                                mnem_parameter *parameter);
/* Before step 1: normal numbers of deviation 0.02 (matrices that add to the residual stream: over
 * sqrt(2 layers); Radford et al. 2019), ones for norms, zeros for biases. Adapters: A of deviation
 * 1 / sqrt(k), B zero, so that the model is at first what it was. */
void mnem_trainer_init(mnem_trainer *trainer, uint64_t seed);
/* Weights of a model file of the same shape, F32, F16, BF16 or quantized (then as dequantized).
 * With adapters: the frozen weights, from the model of the plan; required before step 1, as it is
 * where zeros stay (masked), of which there must be one: else MNEM_INVALID. */
mnem_status mnem_trainer_load(mnem_trainer *trainer, const mnem_model *model);
/* The teacher of the plan, as it is in its file; required before step 1. Nothing of it is in a
 * checkpoint, but a checksum: going on with another is refused. */
mnem_status mnem_trainer_load_teacher(mnem_trainer *trainer, const mnem_model *teacher);
/* What stays zero, from loading or resuming on; zeros where the options don't say masked. */
mnem_train_masked mnem_trainer_masked(const mnem_trainer *trainer);
/* Adds the model's keys and tensors to a GGUF file; keys of the tokenizer are the caller's, written
 * before, and so is finishing. type: MNEM_TYPE_F32, F16 or BF16, of matrices. With adapters: those
 * only, as llama.cpp and mnem_merge_file open them. */
mnem_status mnem_trainer_write(mnem_trainer *trainer, mnem_type type, mnem_gguf_writer *writer);

/* ---- steps ---- */

/* The next sequences, up to micro_batch of them (a step wants all): ids and targets
 * [sequences * sequence], borrowed until the next call; -1 in targets isn't counted. */
typedef struct mnem_train_batch {
    const int32_t *ids, *targets;
    int32_t sequences;
} mnem_train_batch;

/* Where they come from. */
typedef struct mnem_train_source {
    mnem_status (*next)(void *context, mnem_train_batch *batch);
    void *context;
} mnem_train_source;

typedef struct mnem_train_report {
    uint64_t step; /* that was done, counted from 1 */
    double loss;   /* mean over the counted tokens, nats; with a teacher, what is learned from */
    double rate, norm, clip, loss_scale;
    bool applied; /* false: left out, because f16 overflowed */
    int64_t tokens;
    double waited; /* seconds for other ranks, their messages included */
} mnem_train_report;

/* From now on observer (mnem/graph.h; borrowed until another takes its place) is told of each node
 * that the trainer's graphs run. NULL: nobody. */
void mnem_trainer_observe(mnem_trainer *trainer, const mnem_graph_observer *observer);
/* (ranks) One step: forward and backward over batch sequences, then the update. MNEM_CANCELLED
 * (weights are those before the step; of ranks, where any of them was), what next said,
 * MNEM_NOT_FINITE: the text names the step and the first tensor; weights and moments are those
 * before the step. */
mnem_status mnem_trainer_step(mnem_trainer *trainer, const mnem_train_source *source,
                              mnem_train_report *report);
/* (ranks) The gradients of one step without the update, left in the parameters' gradients (tests).
 * MNEM_UNSUPPORTED where they are cut. */
mnem_status mnem_trainer_gradients(mnem_trainer *trainer, const mnem_train_source *source,
                                   double *loss);
/* (ranks, each with windows of its own, or none) Mean loss over micro-batches until next says
 * MNEM_NOT_FOUND; nothing changes. */
mnem_status mnem_trainer_evaluate(mnem_trainer *trainer, const mnem_train_source *source,
                                  double *loss, int64_t *tokens);
/* Logits [vocab] that follow ids[count - 1], from a context of at most sequence tokens. */
mnem_status mnem_trainer_logits(mnem_trainer *trainer, const int32_t *ids, int32_t count,
                                float *logits);
void mnem_trainer_cancel(mnem_trainer *trainer);

/* ---- checkpoints: weights, moments, steps done, loss scale; and a text of the caller's ---- */

/* (ranks; rank 0 writes the file, which is the same for any number of them) Writes a checkpoint:
 * the old file stays until the new one is whole. */
mnem_status mnem_trainer_save(mnem_trainer *trainer, const char *path, const char *note);
/* (ranks; all read the file) All of a checkpoint, to go on as though nothing had happened; note
 * gets the text (n bytes of room). MNEM_BAD_FILE for damage or a model of another shape; nothing
 * has changed then, unless the file changed while it was read. */
mnem_status mnem_trainer_resume(mnem_trainer *trainer, const char *path, char *note, size_t n);
uint64_t mnem_trainer_steps(const mnem_trainer *trainer); /* done, those left out counted too */
/* The same of the trainer that wrote a checkpoint. MNEM_NOT_FOUND, MNEM_BAD_FILE, MNEM_IO,
 * MNEM_NO_MEMORY, MNEM_OVER_BUDGET. */
mnem_status mnem_trainer_steps_saved(const char *path, uint64_t *steps);
/* Another schedule from the next step on. */
mnem_status mnem_trainer_schedule_set(mnem_trainer *trainer, const mnem_schedule *schedule);

#ifdef __cplusplus
}
#endif
#endif
