/* mnem/engine.h: a model that runs many sequences at once, inside a budget.
 *
 * plan says what an engine would take and refuses what doesn't fit; create takes exactly that; a
 * step runs tokens and allocates nothing. The ledger's live bytes when planning (code, libraries,
 * the model's tables, the tokenizer) are part of the plan.
 * An engine holds weights, programs, pages of keys and values and a team of threads; a sequence is
 * one generation: its length and its table of pages. A step runs tokens of any number of sequences,
 * some in their prompts, some generating. Every sequence gets the bits that it gets alone, whatever
 * shares its step. A step reads each streamed weight once for all that go through a pass together.
 * Not here: one sequence made simple, and choosing tokens (session.h), text (tokenizer.h).
 * Threads: an engine and its sequences belong to one thread at a time; mnem_engine_cancel may be
 * called from any thread and from a signal handler.
 *
 *     mnem_engine_options o = {.ledger = ledger, .context = 256, .sequences = 2};
 *     mnem_engine_plan plan;
 *     if (mnem_engine_plan_make(model, &o, &plan) != MNEM_OK) ...;     // nothing read yet
 *     mnem_engine_create(model, &o, &plan, &engine);
 *     mnem_sequence *a, *b;
 *     mnem_sequence_create(engine, &a);
 *     mnem_sequence_create(engine, &b);
 *     mnem_engine_step(engine, (mnem_step_part[]){{a, prompt, 40, 39}, {b, &next, 1, 0}}, 2,
 *                      on_logits, context);
 */
#ifndef MNEM_ENGINE_H
#define MNEM_ENGINE_H

#include "mnem/comm.h"
#include "mnem/graph.h"
#include "mnem/ledger.h"
#include "mnem/model.h"
#include "mnem/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys and values in pages. AUTO: F16, or Q8_0 where that buys more; F32 is for comparing. */
typedef enum mnem_kv_choice { MNEM_KV_F16, MNEM_KV_Q8_0, MNEM_KV_AUTO, MNEM_KV_F32 } mnem_kv_choice;

/* What `mnem bench` measured of this machine. Zero: not known. */
typedef struct mnem_machine_profile {
    double read_bytes_per_s; /* memory, all cores */
    double disk_bytes_per_s; /* sequential, past the page cache */
    double macs_per_s;       /* 8-bit multiply-accumulates, all cores, as the kernels reach them */
    double generate_bytes_per_s; /* weights read to generate, one sequence's, as the kernels reach
                                    them, with what that takes beside them; 0: as memory is read */
} mnem_machine_profile;

/* How ranks share a model: each has some of the layers, or some rows of every matrix. */
typedef enum mnem_cut { MNEM_CUT_LAYERS, MNEM_CUT_ROWS } mnem_cut;

/* Zero means default. */
typedef struct mnem_engine_options {
    mnem_ledger *ledger; /* required; its budget is the plan's. While it is preparing, what was live
                            at the most so far must fit too: the same run has that peak again */
    mnem_device *device; /* default: host, opened by the engine */
    int32_t context;     /* tokens; default: the most that fits, up to the model's and 4096 */
    /* Without a context: what a text wants (a prompt and what may follow), and what of it is needed
     * at the least (the prompt and a token). The plan holds what is wanted where the budget does,
     * else what is needed; its wanted_bytes tells. */
    int32_t context_wanted, context_needed;
    int32_t threads;   /* default: the processors this process may use */
    int32_t chunk;     /* prompt tokens run together; default: the largest up to 512 that fits
                          well */
    int32_t sequences; /* that an engine has open at once, each up to context (default 1) */
    /* Tokens that all of them hold together, what they share counted once; rounded up to whole
     * pages, and to one context (default: sequences x context, more is never taken). */
    int32_t pages_tokens;
    bool pages_fill;     /* that is the least then (default: one context): what the budget leaves
                            beside the way that is chosen for it becomes pages, too; where weights
                            are read from disk, as many more as let sequences read together, up to
                            logits_rows of them, have the most tokens a second */
    int32_t logits_rows; /* rows of logits computed together (default: one for each sequence) */
    mnem_kv_choice kv;
    bool page_cache; /* stream through the page cache */
    const mnem_machine_profile *profile;
    const mnem_adapter *adapters; /* [adapter_count]; all of them count, one after another */
    int32_t adapter_count;
    mnem_progress progress; /* of loading: bytes */
    /* Ranks that run one model together (below); default: this one alone. Then also the layers that
     * are this rank's, which mnem_engine_plan_ranks sets in the plan; 0, 0: all. */
    mnem_comm *comm;
    int32_t layer_begin, layer_end;
    mnem_cut cut;       /* what mnem_engine_plan_ranks gives each rank a part of */
    mnem_row_part rows; /* of every layer, which it sets in the plan, too; vocab.end 0: all */
    mnem_comm_link
        link; /* of each rank to all others, for the prediction (default: takes no time) */
    /* Of experts that aren't all resident, what every layer wants, told while a step runs. */
    mnem_on_experts *on_experts;
    void *on_experts_context;
} mnem_engine_options;

enum { MNEM_PLAN_LINES = 40, MNEM_TOGETHER = 8 };
typedef struct mnem_engine_plan {
    /* chosen */
    int32_t context, threads, chunk, logits_rows, sequences;
    int32_t pages;       /* for all sequences: of layers that see everything, and at most so many of
                            those with windows */
    int32_t page_tokens; /* positions of a page */
    uint64_t page_bytes; /* of a page of each kind that the model has, together */
    mnem_type kv_type;   /* MNEM_TYPE_F16, MNEM_TYPE_Q8_0 or MNEM_TYPE_F32 */
    bool streamed;       /* some weights come from disk for every token */
    bool embedding_resident;
    int32_t layers, layers_resident; /* layers whose matrices are all resident */
    int32_t layer_begin, layer_end;  /* of a part of the model: those that are here; 0, 0: all */
    mnem_row_part rows;              /* so too; vocab.end 0: all */
    int32_t matrices, matrices_resident;
    uint64_t weight_bytes; /* all matrices, packed */
    uint64_t weight_bytes_resident;
    int32_t matrices_sparse;          /* those that are 2:4 and packed so */
    int32_t matrices_compact;         /* of them those that are so in the file, too */
    int32_t matrices_dense;           /* 2:4 too, but it doesn't pay on this processor */
    uint64_t sparse_saved_bytes;      /* of weight_bytes, against all of them dense */
    uint64_t bytes_streamed_per_pass; /* read from disk for one token, or one chunk of a prompt */
    int32_t residency_order; /* which matrices: 0 the output matrix last, 1 first; both after
                                         a spread over the layers that is fixed by the shapes */
    /* Of a mixture whose experts aren't all resident: how many have a place in memory, of how
     * many; the part of a token's uses that is assumed to find them there. Both counts 0: all
     * are resident. */
    int32_t expert_slots, experts;
    double expert_hit_rate;
    uint64_t expert_bytes_per_token; /* of bytes_streamed_per_pass, with wrong guesses */
    int32_t ring_slots;
    uint64_t ring_slot_bytes;
    bool direct_io;
    /* bytes: lines sum to peak_bytes */
    uint64_t budget_bytes, peak_bytes; /* budget 0: none */
    unsigned lines;
    mnem_plan_line line[MNEM_PLAN_LINES];
    /* why, and what another budget would change */
    char why[256];
    uint64_t smaller_bytes, larger_bytes; /* 0: no such step */
    double smaller_speed, larger_speed;   /* times as fast as this plan */
    char smaller[160], larger[160];
    /* tokens per second from the profile; 0: no profile */
    double predicted_prompt, predicted_generate;
    double predicted_together; /* of all sequences that generate at once */
    int32_t together;          /* so many: the plan's, or where it is of one MNEM_TOGETHER */
    /* Of a rank: whether layers were cut by what ranks take of time, not by their room; the seconds
     * of its part of a token, of a chunk of a prompt and of a step of sequences that run together
     * (0: no profile), and the bytes that it sends for the first two. Of all ranks: the seconds of
     * a token, and of each further chunk. */
    bool part_by_work;
    double part_token_seconds, part_chunk_seconds, part_together_seconds;
    uint64_t part_token_sent, part_chunk_sent;
    double ranks_token_seconds, ranks_chunk_seconds;
    /* of a prompt of up to 512 tokens and 128 more generated, on a plain machine without a profile:
     * what the choice makes small. A larger budget never makes it larger. */
    double predicted_seconds;
    /* The context that was asked for, or that context_wanted or context_needed decided; 0: any
     * would have done. Also of a refusal. */
    int32_t context_fixed;
    uint64_t wanted_bytes; /* where context is below context_wanted: the least that holds that */
    /* On MNEM_OVER_BUDGET: the least that would do with these options, and the one that would
     * help instead. */
    uint64_t needed_bytes;
    mnem_knob knob;
    int32_t needed_rank; /* of several: whose budget it is */
} mnem_engine_plan;

/* Reads nothing but the header. MNEM_OVER_BUDGET: the text says bytes and budget. MNEM_INVALID,
 * MNEM_BAD_FILE and MNEM_UNSUPPORTED of an adapter name its file and tensor. */
mnem_status mnem_engine_plan_make(const mnem_model *model, const mnem_engine_options *options,
                                  mnem_engine_plan *plan);

/* ---- the frontier: what every budget would buy ---- */

typedef struct mnem_engine_way {
    uint64_t peak_bytes;
    double seconds;                           /* as predicted_seconds of the plan */
    double tokens_per_s, prompt_tokens_per_s; /* on a plain machine without a profile */
    int32_t context, chunk;
    mnem_type kv_type;
    int32_t matrices_resident;
    uint64_t bytes_streamed_per_pass;
    int32_t expert_slots;   /* as in the plan; 0: there are none, or all are resident */
    double expert_hit_rate; /* then 1 */
    bool chosen;            /* it is the plan's */
    char gave_up[160];      /* against the fastest way; "" for that one */
} mnem_engine_way;

/* Calls on_way for every way to run with the plan's context that no other one beats in both bytes
 * and seconds, from the smallest to the fastest; false from it stops, with MNEM_OK. options and
 * what the ledger holds are those that the plan was made with. */
typedef bool mnem_on_way(void *context, const mnem_engine_way *way);
mnem_status mnem_engine_frontier(const mnem_model *model, const mnem_engine_options *options,
                                 const mnem_engine_plan *plan, mnem_on_way *on_way, void *context);

/* ---- several devices, known as numbers only ---- */

/* One of a row of devices that work one after another, and what it holds. */
typedef struct mnem_engine_device {
    uint64_t capacity_bytes;
    /* out */
    int32_t layer_begin, layers;
    bool embedding, head; /* holds the embedding matrix, the output matrix */
    uint64_t weight_bytes, kv_bytes,
        activation_bytes; /* activations with the operators' workspace */
    uint64_t bytes_used;  /* their sum; 0: not needed */
} mnem_engine_device;

typedef struct mnem_engine_split {
    int32_t context, chunk; /* chosen where options left them open */
    mnem_type kv_type;
    uint64_t room_bytes; /* left on the fullest device: no other cut leaves more */
    /* on MNEM_OVER_BUDGET: what every device would need more, at least, and what would help */
    uint64_t short_bytes;
    mnem_knob knob;
} mnem_engine_split;

/* Cuts the model's layers over the devices, all weights resident, so that the fullest one has the
 * most room left: the embedding before the first layer, the output matrix behind the
 * last. Bytes of the devices' own rounding and runtime aren't counted. The largest context that
 * fits, then the largest chunk. MNEM_OVER_BUDGET: the text says the bytes. */
mnem_status mnem_engine_split_make(const mnem_model *model, const mnem_engine_options *options,
                                   mnem_engine_device *devices, int32_t count,
                                   mnem_engine_split *split);

/* The program of a plan: the body (ids to hidden rows), or the head (hidden rows to logits), for at
 * most so many tokens (0: the plan's chunk, or its rows of logits). It is compiled, to be looked at
 * with graph.h; the caller destroys it. A session runs the body of the plan's chunk for any number
 * of tokens up to it. */
mnem_status mnem_engine_graph_create(const mnem_model *model, const mnem_engine_options *options,
                                     const mnem_engine_plan *plan, bool head, int32_t tokens,
                                     mnem_graph **graph, mnem_graph_sizes *sizes);

/* ---- running ---- */

typedef struct mnem_engine mnem_engine;
typedef struct mnem_sequence mnem_sequence;

/* Takes the plan's memory, loads what is resident, starts the reader. Everything is charged to the
 * ledger, which is held to its budget from now on (mnem_ledger_hold); a step takes nothing more. */
mnem_status mnem_engine_create(const mnem_model *model, const mnem_engine_options *options,
                               const mnem_engine_plan *plan, mnem_engine **engine);
/* With its sequences. NULL is fine. */
void mnem_engine_destroy(mnem_engine *engine);

/* An empty sequence. MNEM_OVER_BUDGET when options.sequences are open. */
mnem_status mnem_sequence_create(mnem_engine *engine, mnem_sequence **sequence);
/* One that begins with the first n tokens of another: their pages are shared until one of the two
 * writes into them. MNEM_INVALID when the other has fewer, MNEM_UNSUPPORTED as truncate. */
mnem_status mnem_sequence_fork(const mnem_sequence *of, int32_t n, mnem_sequence **sequence);
/* Gives its pages back. NULL is fine. */
void mnem_sequence_destroy(mnem_sequence *sequence);
int32_t mnem_sequence_length(const mnem_sequence *sequence);
/* Keeps the first n tokens. Layers with windows hold a window and a chunk of positions at the
 * least: where what token n would see is gone, MNEM_UNSUPPORTED, and nothing has changed. 0 always
 * can be kept. */
mnem_status mnem_sequence_truncate(mnem_sequence *sequence, int32_t n);

/* Tokens that a step appends to a sequence, ids [n]. Logits are wanted for those with index >=
 * first_logits; n: for none. */
typedef struct mnem_step_part {
    mnem_sequence *sequence;
    const int32_t *ids;
    int32_t n, first_logits;
} mnem_step_part;

/* Called with the logits [vocab] that follow token index of part; a part's come in order. false
 * stops the step with MNEM_CANCELLED. */
typedef bool mnem_on_step_logits(void *context, int32_t part, int32_t index, const float *logits);
/* Runs all parts, in passes of up to the plan's chunk of tokens, filled in the order of the parts.
 * MNEM_UNSUPPORTED for an encoder.
 * MNEM_INVALID for ids that the vocabulary lacks, a sequence named twice or of another engine;
 * MNEM_OVER_BUDGET when a context has no room, or too few pages are free (mnem_engine_step_pages):
 * nothing has changed then. MNEM_CANCELLED after mnem_engine_cancel, or on_logits; after that, or
 * an error while running, every sequence ends before the pass that was stopped. */
mnem_status mnem_engine_step(mnem_engine *engine, const mnem_step_part *parts, int32_t count,
                             mnem_on_step_logits *on_logits, void *context);

/* ---- steps under way ----
 *
 * Of several ranks each has a part of the layers, and of one step only one computes at a time. So
 * that none waits, steps of other sequences begin before the logits of the one before have come:
 *
 *     bool ended;
 *     mnem_engine_step_begin(engine, a, n, on_logits, context, &ended); // of some sequences
 *     mnem_engine_step_begin(engine, b, n, on_logits, context, &ended); // of others
 *     mnem_engine_step_end(engine);                                     // the logits of the first
 */

/* How many steps can be under way: 1 for an engine alone, and where ranks have rows of all layers;
 * else one for each rank, up to 8. */
int32_t mnem_engine_steps_most(const mnem_engine *engine);
/* As mnem_engine_step, but its logits come with a later mnem_engine_step_end, in the order of the
 * steps; what on_logits returns doesn't count. Its tokens are the sequences' at once, which may be
 * forked, cut and destroyed meanwhile. *ended: it has ended already, and its logits were told: of
 * an engine alone, of several passes, where none are wanted, or more rows than logits_rows.
 * MNEM_BUSY, and nothing has changed: as many as can be are under way, the rows of those leave no
 * place among logits_rows, or it is one that ends at once, and others are. */
mnem_status mnem_engine_step_begin(mnem_engine *engine, const mnem_step_part *parts, int32_t count,
                                   mnem_on_step_logits *on_logits, void *context, bool *ended);
/* Waits for the oldest one. MNEM_INVALID: none is under way; MNEM_BAD_FILE: its logits aren't
 * finite. */
mnem_status mnem_engine_step_end(mnem_engine *engine);

/* ---- one model over several ranks ---- */

/* Plans for all ranks of options->comm at once, each with its own ledger: where the layers are cut,
 * so that the slowest rank is as fast as can be, or where that would cost a rank weights from disk
 * or context, so that the fullest has the most room; a context and a chunk that all hold, and what
 * each rank takes of its budget for its layers. With MNEM_CUT_ROWS each has a part of every matrix:
 * as large a one as every other has, but where its budget hasn't the room; whole groups of heads,
 * or where there are fewer than ranks a part of one with a copy of its keys and values. Ranks meet
 * four times in a layer then. Every rank calls it with its own ledger, profile and
 * threads; what else is asked counts as rank 0 says it. Another version of mnem or another file on
 * a rank is refused by name on every rank (MNEM_INVALID). MNEM_OVER_BUDGET on every rank where one
 * hasn't the room; the text names it. MNEM_UNSUPPORTED: encoders, models that convolve, and
 * adapters; of rows also attention through a latent. */
mnem_status mnem_engine_plan_ranks(const mnem_model *model, const mnem_engine_options *options,
                                   mnem_engine_plan *plan);
/* Tells which bytes of the model's files an engine of this plan reads, while it is created and
 * later: whole matrices, or the rows of a part, an embedding, norms and biases. Ranges may touch,
 * overlap and come in any order. A status that isn't MNEM_OK ends it and is returned. */
typedef mnem_status mnem_on_engine_read(void *context, uint32_t file, uint64_t offset,
                                        uint64_t bytes);
mnem_status mnem_engine_reads(const mnem_model *model, const mnem_engine_options *options,
                              const mnem_engine_plan *plan, mnem_on_engine_read *tell,
                              void *context);
/* An engine of a plan for ranks, whose options have the same comm, runs on rank 0 as any other;
 * states of files are MNEM_UNSUPPORTED. Every other rank calls this after create: it does what
 * rank 0 says, and returns MNEM_OK when that destroys its engine. MNEM_IO: a rank ended or failed,
 * which the text names. A failure of this rank's own is told to all others. */
mnem_status mnem_engine_follow(mnem_engine *engine);

/* ---- pages ---- */

/* Pages by the layers whose keys and values they hold: those that see everything, and those with
 * windows, which forget. Most models have one kind only; the other's counts are 0. */
typedef struct mnem_page_count {
    int32_t full, window;
} mnem_page_count;
typedef struct mnem_engine_pages {
    int32_t tokens;                    /* positions of a page */
    uint64_t full_bytes, window_bytes; /* of a page; 0: no layer is of this kind */
    mnem_page_count all, free;
    mnem_page_count most; /* that one sequence has: those of its whole context */
} mnem_engine_pages;
void mnem_engine_pages_get(const mnem_engine *engine, mnem_engine_pages *pages);
/* Those of one sequence: its own, which destroying it frees, and those that others have too. */
void mnem_sequence_pages_get(const mnem_sequence *sequence, mnem_page_count *own,
                             mnem_page_count *shared);
/* How many of the free pages a step of these parts would have taken at the most, copies of shared
 * ones included: it is refused exactly where fewer are free. Statuses of parts as of a step, which
 * isn't run; nothing changes. */
mnem_status mnem_engine_step_pages(mnem_engine *engine, const mnem_step_part *parts, int32_t count,
                                   mnem_page_count *pages);

/* ---- embeddings ---- */

typedef struct mnem_embed_text {
    const int32_t *ids; /* [n] */
    int32_t n;          /* 1 or more, up to the context */
} mnem_embed_text;
/* Zero means default. */
typedef struct mnem_embed_options {
    mnem_pooling pooling; /* default: the file's */
    bool raw;             /* default: every embedding is scaled to a length of 1 */
} mnem_embed_options;
/* The embeddings of texts, out [count][embd] f32. An encoder sees a text whole, so one is a pass
 * (its plan's chunk is its context), as many texts in each as fit; any other model sees it in
 * chunks, and its last norm is part of an embedding. Texts run together, as many as the plan has
 * sequences that aren't open and pages that are free; the bits are those that each gets alone.
 * Nothing of them is kept. Steps may be under way, and stay so. options may be NULL. MNEM_INVALID:
 * a text without tokens, ids that the vocabulary lacks, no pooling named and none in the file;
 * MNEM_OVER_BUDGET: a text is longer than the context, all sequences are open, or too few pages are
 * free; MNEM_BAD_FILE and MNEM_CANCELLED as a step. */
mnem_status mnem_engine_embed(mnem_engine *engine, const mnem_embed_text *texts, int32_t count,
                              const mnem_embed_options *options, float *out);

/* Async-signal-safe; cleared by the next step's end. */
void mnem_engine_cancel(mnem_engine *engine);
typedef struct mnem_engine_stats {
    uint64_t tokens, passes;
    uint64_t bytes_streamed;
    uint64_t expert_hits, expert_misses;  /* of experts that layers wanted; 0: all are resident */
    uint64_t expert_guesses;              /* read ahead, before a layer wanted them */
    uint64_t expert_guessed;              /* hits that were read ahead */
    double seconds_eval, seconds_waiting; /* waiting: for the disk */
    uint64_t pages_used, pages;
} mnem_engine_stats;
void mnem_engine_stats_get(const mnem_engine *engine, mnem_engine_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
