/* mnem/train.h: a trainer: a transformer's weights, gradients and moments, and steps over them,
 * inside a budget.
 *
 * mnem_train_plan_make computes what training would take and refuses what doesn't fit;
 * mnem_trainer_create takes exactly that; a step allocates nothing. A smaller budget changes how a
 * step is divided (sequences run together, gradient accumulation, activations that are recomputed
 * in the backward pass), not its results.
 * Not here: text and batches (corpus.h), progress and log files (the command).
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
 * models", 2021): a matrix W [rows, k] of a model acts as W + alpha / rank * B A, and only A [rank,
 * k] and B [rows, rank] are trained. W keeps the type that it has in the file, which may be any;
 * gradients, moments and checkpoints are of A and B only. */
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
/* Parses a list such as "q,v" into a set; MNEM_INVALID names a word that is not a target. */
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

/* Weights of the layers' matrices that were zero when they were loaded and stay zero, in any
 * pattern. */
typedef struct mnem_train_masked {
    int32_t matrices, matrices_2_4; /* 2_4: two of every four neighbours are zero */
    int64_t weights, zeros;         /* of these matrices; zeros: those that stay zero */
} mnem_train_masked;

/* The type of the moments of AdamW, stored beside each weight. */
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

/* What is sharded over the ranks of options.comm, besides the sequences of a batch. The choice
 * changes no bit of the results, as long as a rank's share of a batch is one micro-batch when
 * gradients are sharded: those of smaller micro-batches are accumulated over the ranks. */
#define MNEM_SHARD_LIST(X)                                                                         \
    X(NONE, "none") /* nothing: every rank updates all weights */                                  \
    X(OPTIMIZER,                                                                                   \
      "optimizer") /* moments: each updates its part of the weights, and gives it to    \
                                 the others */          \
    X(GRADIENTS,                                                                                   \
      "gradients") /* and gradients: a layer's are sent to those that they are of, and  \
                                 its room is the next one's; not with masked */
typedef enum mnem_shard {
    /* The faster of OPTIMIZER and GRADIENTS under all ranks' budgets (NONE is never faster than
     * OPTIMIZER, and takes more memory); GRADIENTS only where it changes no bit. */
    MNEM_SHARD_CHOSEN,
#define MNEM_SHARD_ENUM(name, text) MNEM_SHARD_##name,
    MNEM_SHARD_LIST(MNEM_SHARD_ENUM)
#undef MNEM_SHARD_ENUM
} mnem_shard;

/* Zero means default. */
typedef struct mnem_train_options {
    mnem_ledger *ledger; /* required; its budget is the budget of the plan. While it is preparing,
                            the peak of live bytes so far must fit the budget too, because the same
                            run reaches that peak again */
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
    int32_t micro_batch; /* sequences run together; divides batch (default: chosen) */
    int32_t threads;     /* default: the processors this process may use */
    mnem_type compute;   /* MNEM_TYPE_F32 (0), BF16 or F16: type of activations; weights,
                               gradients and sums are f32 */
    float dropout;       /* of embeddings and of what a layer adds; 0 to below 1 */
    uint64_t seed;       /* of dropout */
    mnem_optimizer_options optimizer;
    mnem_schedule schedule;
    double norm_max; /* clipping; 0: none */
    mnem_comm *comm; /* ranks that train together, each with the same options except budget, threads
                        and micro_batch; NULL: alone. A batch is that of all ranks: each rank runs
                        its share, and gradients are added in the order of the ranks. Functions
                        marked (ranks) are called by all ranks, and return the same status on all of
                        them */
    mnem_shard shard;
    mnem_device *device; /* on which weights, gradients and moments lie and steps run (default: a
                            host of its own); borrowed until the trainer is destroyed. Ranks may
                            have devices of different kinds */
    /* Bytes that the caller will take besides (batches, files), for the plan: a minimum, and the
     * bytes for each sequence of a micro-batch. */
    uint64_t io_bytes, io_bytes_sequence;
} mnem_train_options;

enum { MNEM_TRAIN_LINES = 40, MNEM_TRAIN_LAYERS = 1024, MNEM_TRAIN_SAVE_WAYS = 32 };

/* What a layer keeps for its backward pass, as a set of these values; its input is always kept. All
 * else is recomputed by the same operators from the same numbers, with bit-identical results. */
typedef enum mnem_train_keep {
    MNEM_KEEP_NORMS = 1,     /* both norms' outputs, and the activation's */
    MNEM_KEEP_FF = 2,        /* the inputs of the activation (gate and up) */
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
    char sharding[160];                /* the alternatives, or why there are none; "": was given */
    uint8_t keep[MNEM_TRAIN_LAYERS];   /* mnem_train_keep of each layer */
    int32_t layers, layers_recomputed; /* recomputed: those that don't keep all */
    double recomputed;                 /* multiply-adds of a step that are done twice */
    /* bytes: lines sum to peak_bytes */
    uint64_t budget_bytes, peak_bytes;
    uint64_t parameters, weight_bytes, gradient_bytes, optimizer_bytes; /* of what is trained */
    uint64_t frozen_bytes;
    bool teacher_streamed;       /* its layers are streamed, one after another */
    uint64_t teacher_bytes_read; /* from its file, for each micro-batch; 0: it is resident */
    uint64_t activation_bytes, activation_bytes_all; /* as planned; _all: with nothing recomputed,
                                                        at this micro-batch */
    unsigned lines;
    mnem_plan_line line[MNEM_TRAIN_LINES];
    double macs_per_step; /* multiply-adds of a step, recomputed ones included */
    /* what another budget would change; 0: no such step */
    uint64_t smaller_bytes, larger_bytes;
    double smaller_cost, larger_cost; /* predicted time of a step against this plan's */
    char smaller[160], larger[160];
    /* on MNEM_OVER_BUDGET: the smallest budget that is enough with these options, and an option
     * that takes less */
    uint64_t needed_bytes;
    mnem_knob knob;
    int32_t needed_rank; /* with several ranks: the rank whose budget is meant */
} mnem_train_plan;

/* (ranks) Makes a plan, without allocating the trainer's memory. MNEM_OVER_BUDGET: the text states
 * the bytes and the budget; with several ranks, those of the first rank whose budget is too small,
 * which are also in the plan. */
mnem_status mnem_train_plan_make(const mnem_train_options *options, mnem_train_plan *plan);

/* Calls on_way for every way that no other way beats in both bytes and predicted time, from the
 * smallest; if it returns false, the calls stop. */
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
/* Predicts the seconds of a step from a test of this machine: products of the model's width, for
 * about 0.1 s, in memory of at most two f32 matrices of the model, which is freed again.
 * MNEM_OVER_BUDGET where there is no room for it, MNEM_NO_MEMORY; seconds is 0 then. */
mnem_status mnem_train_seconds(const mnem_train_options *options, const mnem_train_plan *plan,
                               double *seconds);

/* Creates the graph of a plan's micro-batch, with its backward pass or forward only, compiled: for
 * inspection with graph.h. The caller destroys it. Statuses are those of planning. */
mnem_status mnem_train_graph_create(const mnem_train_options *options, const mnem_train_plan *plan,
                                    bool forward, mnem_graph **graph, mnem_graph_sizes *sizes);

typedef struct mnem_trainer mnem_trainer;

/* (ranks) */
mnem_status mnem_trainer_create(const mnem_train_options *options, const mnem_train_plan *plan,
                                mnem_trainer **trainer);
void mnem_trainer_destroy(mnem_trainer *trainer); /* NULL is fine; nothing in a forked child */

/* ---- weights ---- */

/* A parameter: its name in a GGUF file, and its numbers in the memory of the trainer. */
typedef struct mnem_parameter {
    const char *name;
    int dims;
    int64_t shape[2];           /* slowest first */
    float *weights, *gradients; /* gradients NULL: sharded over ranks; both NULL: in memory that the
                                   host can't access */
} mnem_parameter;
/* false past the last. */
bool mnem_trainer_parameter_get(const mnem_trainer *trainer, int32_t index,
                                mnem_parameter *parameter);
/* Initializes the weights before step 1: normal numbers of standard deviation 0.02 (for matrices
 * that add to the residual stream: divided by sqrt(2 layers); Radford et al. 2019), ones for norms,
 * zeros for biases. Adapters: A with deviation 1 / sqrt(k), B zero, so that at first the adapted
 * model equals the base. */
void mnem_trainer_init(mnem_trainer *trainer, uint64_t seed);
/* Loads the weights of a model file of the same shape: F32, F16, BF16 or quantized (these are
 * dequantized). With adapters: loads the frozen weights, from the base model of the plan. Required
 * before step 1 with adapters, and with options.masked; with masked at least one weight must be
 * zero, otherwise MNEM_INVALID. */
mnem_status mnem_trainer_load(mnem_trainer *trainer, const mnem_model *model);
/* Loads the teacher of the plan, in the types of its file; required before step 1. A checkpoint
 * contains only a checksum of the teacher: resuming with another teacher is refused. */
mnem_status mnem_trainer_load_teacher(mnem_trainer *trainer, const mnem_model *teacher);
/* The weights that stay zero, valid after loading or resuming; zeros if options.masked is not set.
 */
mnem_train_masked mnem_trainer_masked(const mnem_trainer *trainer);
/* Adds the model's keys and tensors to a GGUF file; the caller writes the keys of the tokenizer
 * before, and finishes the file. type: MNEM_TYPE_F32, F16 or BF16, of matrices. With adapters:
 * writes only the adapters, as llama.cpp and mnem_merge_file read them. */
mnem_status mnem_trainer_write(mnem_trainer *trainer, mnem_type type, mnem_gguf_writer *writer);

/* ---- steps ---- */

/* The next sequences, up to micro_batch of them (a step requires all): ids and targets [sequences *
 * sequence], borrowed until the next call; a target of -1 isn't counted. */
typedef struct mnem_train_batch {
    const int32_t *ids, *targets;
    int32_t sequences;
} mnem_train_batch;

/* The source of batches. */
typedef struct mnem_train_source {
    mnem_status (*next)(void *context, mnem_train_batch *batch);
    void *context;
} mnem_train_source;

typedef struct mnem_train_report {
    uint64_t step; /* number of the step, from 1 */
    double loss;   /* mean over the counted tokens, nats; with a teacher, what is learned from */
    double rate, norm, clip, loss_scale;
    bool applied; /* false: skipped, because f16 overflowed */
    int64_t tokens;
    double waited; /* seconds spent waiting for other ranks, messages included */
} mnem_train_report;

/* Sets the observer (mnem/graph.h), which is called for each node that the trainer's graphs run;
 * borrowed until another replaces it. NULL: no observer. */
void mnem_trainer_observe(mnem_trainer *trainer, const mnem_graph_observer *observer);
/* (ranks) Runs one step: forward and backward over batch sequences, then the update.
 * MNEM_CANCELLED: the weights are those before the step; with several ranks, a cancelled rank
 * cancels all. Errors of next are returned. MNEM_NOT_FINITE: the text names the step and the first
 * tensor; weights and moments are those before the step. */
mnem_status mnem_trainer_step(mnem_trainer *trainer, const mnem_train_source *source,
                              mnem_train_report *report);
/* (ranks) Computes the gradients of one step without the update, and leaves them in the parameters'
 * gradients (for tests). MNEM_UNSUPPORTED where gradients are sharded. */
mnem_status mnem_trainer_gradients(mnem_trainer *trainer, const mnem_train_source *source,
                                   double *loss);
/* (ranks, each with windows of its own, or none) Computes the mean loss over micro-batches until
 * next returns MNEM_NOT_FOUND; changes nothing. */
mnem_status mnem_trainer_evaluate(mnem_trainer *trainer, const mnem_train_source *source,
                                  double *loss, int64_t *tokens);
/* Computes the logits [vocab] that follow ids[count - 1], from a context of count tokens, at most
 * sequence. It runs a forward pass over these tokens only. */
mnem_status mnem_trainer_logits(mnem_trainer *trainer, const int32_t *ids, int32_t count,
                                float *logits);
void mnem_trainer_cancel(mnem_trainer *trainer);

/* ---- checkpoints: weights, moments, steps, loss scale; and a note of the caller ---- */

/* (ranks; rank 0 writes the file, which is the same for any number of ranks) Writes a checkpoint:
 * the old file stays until the new one is complete. */
mnem_status mnem_trainer_save(mnem_trainer *trainer, const char *path, const char *note);
/* (ranks; all read the file) Restores everything from a checkpoint, so that training continues as
 * if it had not been interrupted; note receives the caller's note (n bytes of room). MNEM_BAD_FILE
 * for damage or a model of another shape; nothing has changed then, unless the file changed while
 * it was read. */
mnem_status mnem_trainer_resume(mnem_trainer *trainer, const char *path, char *note, size_t n);
uint64_t mnem_trainer_steps(const mnem_trainer *trainer); /* done, skipped ones included */
/* The number of steps of the trainer that wrote a checkpoint. MNEM_NOT_FOUND, MNEM_BAD_FILE,
 * MNEM_IO, MNEM_NO_MEMORY, MNEM_OVER_BUDGET. */
mnem_status mnem_trainer_steps_saved(const char *path, uint64_t *steps);
/* Sets another schedule from the next step on. */
mnem_status mnem_trainer_schedule_set(mnem_trainer *trainer, const mnem_schedule *schedule);

#ifdef __cplusplus
}
#endif
#endif
