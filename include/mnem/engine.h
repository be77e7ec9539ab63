/* mnem/engine.h: a model that runs many sequences at once, inside a budget.
 *
 * mnem_engine_plan_make computes what an engine would take and refuses what doesn't fit;
 * mnem_engine_create takes exactly that; a step runs tokens and allocates nothing. Bytes that the
 * ledger holds when the plan is made (code, libraries, the model's tables, the tokenizer) are part
 * of the plan.
 * An engine holds weights, programs, pages of keys and values, and a team of threads; a sequence is
 * one generation: its length and its table of pages. A step runs tokens of any number of sequences,
 * some in their prompts, some generating. The results of a sequence are bit-identical to those that
 * it gets alone, whatever other sequences share its steps. A step reads each streamed weight once
 * for all tokens of a pass.
 * Not here: the simple interface for one sequence, and sampling (session.h); text (tokenizer.h).
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
#include "mnem/kv_types.h"
#include "mnem/ledger.h"
#include "mnem/model.h"
#include "mnem/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rates that `mnem bench` measured on this machine. Zero: not known. */
typedef struct mnem_machine_profile {
    double read_bytes_per_s; /* memory, all cores */
    double disk_bytes_per_s; /* sequential, past the page cache */
    double macs_per_s;       /* 8-bit multiply-accumulates, all cores, as the kernels reach them */
    double generate_bytes_per_s; /* weights read to generate, one sequence's, as the kernels reach
                                    them, with what that takes beside them; 0: as memory is read */
} mnem_machine_profile;

/* How a model is split over ranks: each rank has some of the layers, or some rows of every matrix.
 */
typedef enum mnem_cut { MNEM_CUT_LAYERS, MNEM_CUT_ROWS } mnem_cut;

typedef uint64_t mnem_bytes_of_context(void *context, int32_t tokens);

/* Zero means default. */
typedef struct mnem_engine_options {
    mnem_ledger *ledger; /* required; its budget is the budget of the plan. While it is preparing,
                            the peak of live bytes so far must fit the budget too, because the same
                            run reaches that peak again */
    mnem_device *device; /* default: host, opened by the engine */
    int32_t context;     /* tokens; default: the most that fits, up to the model's and 4096 */
    /* If context is 0: the context that a text wants (the prompt and what may follow), and the
     * least that it needs (the prompt and one token). The plan holds the wanted context if the
     * budget allows it, otherwise at least the needed one; wanted_bytes of the plan then gives the
     * budget for the wanted one. */
    int32_t context_wanted, context_needed;
    int32_t threads;   /* default: the processors this process may use */
    int32_t chunk;     /* prompt tokens run together; default: the largest up to 512 that fits
                          well */
    int32_t sequences; /* open at the same time, each up to context tokens (default 1) */
    /* Tokens that all sequences hold together, shared tokens counted once; rounded up to whole
     * pages, and to at least one context (default: sequences x context, which is also the
     * maximum). */
    int32_t pages_tokens;
    bool pages_fill; /* pages_tokens is a minimum then (default: one context): room in the
                            budget beside the chosen way becomes pages too; where weights are
                            streamed, as many more as give the most tokens a second to sequences
                            that run together, up to logits_rows of them */
    /* States of recurrent layers. A sequence has one, of its last token; a fork or a cut before it
     * goes on from the nearest snapshot (default: from token 0). snapshots: those of all sequences,
     * at the most; as many as the budget has room for beside the chosen way are planned (default:
     * 0; MNEM_SNAPSHOTS_FILL: one at each snapshot_tokens of every context, and 8 more for turns).
     * With pages_fill there may be fewer states than sequences, at least one. states: just so many
     * live ones, at most one for each sequence, and just as many snapshots as are asked for: what
     * ranks have agreed on (default: chosen). */
    int32_t states, snapshots;
    int32_t snapshot_tokens; /* one is taken at each multiple (default: 512) */
    int32_t logits_rows;     /* rows of logits computed together (default: one for each sequence) */
    mnem_kv_choice kv;       /* types of keys and values */
    bool page_cache;         /* stream through the page cache */
    const mnem_machine_profile *profile;
    /* [adapter_count]. All are loaded, and applied in this order. A sequence may use other scales
     * than these (mnem_sequence_adapters_set). */
    const mnem_adapter *adapters;
    int32_t adapter_count;
    mnem_progress progress; /* "taking memory", then "loading": bytes */
    /* Ranks that run one model together (see below); default: this process alone. layer_begin and
     * layer_end are the layers of this rank, which mnem_engine_plan_ranks sets in the plan; 0, 0:
     * all. */
    mnem_comm *comm;
    int32_t layer_begin, layer_end;
    mnem_cut cut;       /* what mnem_engine_plan_ranks gives each rank a part of */
    mnem_row_part rows; /* of every layer, which it sets in the plan, too; vocab.end 0: all */
    mnem_comm_link
        link; /* of each rank to all others, for the prediction (default: takes no time) */
    /* Called during a step with the experts that each layer uses, if not all experts are resident.
     */
    mnem_on_experts *on_experts;
    void *on_experts_context;
    /* A server's: what its scheduler takes for a context of so many tokens (mnem_scheduler_bytes),
     * never less for more of them. It is the line "scheduler" of the plan, and charged by who
     * creates the scheduler, not by the engine (default: nothing). */
    mnem_bytes_of_context *scheduler_bytes;
    void *scheduler_context;
    /* The plan of another engine of this process has the line "reserve", for what isn't counted
     * byte by byte, and keeps it for both: this plan has none. */
    bool shares_reserve;
    /* The engine's share of the ledger's budget: the most that its own lines of the plan take
     * together. The plan then keeps to the share and to what the ledger has left, whichever is less
     * (default: what the ledger has left). */
    uint64_t budget_bytes;
    /* Appended to the ledger's tags of this engine's weights and KV cache, as in "pages NAME", for
     * processes with several engines (default: nothing). Borrowed until the engine is destroyed. */
    const char *name;
    /* A team that several engines share; their steps take turns on its threads, so only one thread
     * at a time may call engines with the same team. threads is 0 or the team's number. Borrowed
     * until the engine is destroyed. Its creator charges mnem_team_bytes for it: this plan has no
     * line "team stacks" (default: the engine creates a team of its own). */
    mnem_team *team;
    /* Tokens of a draft that one pass verifies (session.h): the plan then has logits for one more
     * row, chunks that hold them, and the line "draft", which the caller's drafter takes
     * (mnem_draft_bytes of the context). draft: exactly this number, or a refusal. draft_wanted,
     * where draft is 0: as many, up to this number, as cost no context and at most 1 % of the
     * predicted speed; none where the model doesn't support drafts (default: none). */
    int32_t draft, draft_wanted;
} mnem_engine_options;

enum { MNEM_PLAN_LINES = 40, MNEM_TOGETHER = 8, MNEM_SNAPSHOTS_FILL = -1 };
typedef struct mnem_engine_plan {
    /* chosen */
    int32_t context, threads, chunk, logits_rows, sequences;
    int32_t draft; /* tokens of a draft that a pass verifies, at most */
    int32_t pages; /* for all sequences: of layers without windows, and at most as many of
                            layers with windows */
    int32_t states, snapshots; /* states of recurrent layers: live ones, and of earlier positions */
    int32_t snapshot_tokens;   /* 0: there are no snapshots */
    int32_t page_tokens;       /* positions of a page */
    uint64_t page_bytes;       /* of a page of each kind that the model has, together */
    mnem_kv_choice kv;         /* of keys and values; never AUTO */
    bool streamed;             /* some weights come from disk for every token */
    bool embedding_resident;
    int32_t layers, layers_resident; /* layers whose matrices are all resident */
    int32_t layer_begin, layer_end;  /* of a part of the model: those that are here; 0, 0: all */
    mnem_row_part rows;              /* so too; vocab.end 0: all */
    int32_t matrices, matrices_resident;
    uint64_t weight_bytes; /* all matrices, packed */
    uint64_t weight_bytes_resident;
    int32_t matrices_sparse;          /* 2:4 matrices that are packed as such */
    int32_t matrices_compact;         /* of these, compact in the file too */
    int32_t matrices_dense;           /* 2:4 matrices packed dense: faster on this processor */
    uint64_t sparse_saved_bytes;      /* bytes saved, compared to packing all dense */
    uint64_t bytes_streamed_per_pass; /* read from disk for one token, or one chunk of a prompt */
    int32_t residency_order; /* which matrices: 0 the output matrix last, 1 first; both after
                                         a spread over the layers that is fixed by the shapes */
    /* For a mixture of experts that aren't all resident: the number of experts that have a slot in
     * memory, the number of all experts, and the assumed hit rate: the fraction of a token's uses
     * that finds its expert in a slot. Both counts 0: all experts are resident. */
    int32_t expert_slots, experts;
    double expert_hit_rate;
    uint64_t expert_bytes_per_token; /* part of bytes_streamed_per_pass, wrong guesses included */
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
    double predicted_together; /* of `together` sequences that generate at once: all, but at most */
    int32_t together;          /* logits_rows; MNEM_TOGETHER if there is only one */
    /* For one rank: whether the layers were split by the time that ranks need, not by their room;
     * the seconds of its part of one token, of one chunk of a prompt and of one step of sequences
     * that run together (0: no profile), and the bytes that it sends for the first two. For all
     * ranks: the seconds of one token, and of each further chunk. */
    bool part_by_work;
    double part_token_seconds, part_chunk_seconds, part_together_seconds;
    uint64_t part_token_sent, part_chunk_sent;
    double ranks_token_seconds, ranks_chunk_seconds;
    /* The predicted time of a prompt of up to 512 tokens and 128 generated tokens, on a reference
     * machine without a profile; the planner minimizes it. A larger budget never increases it. */
    double predicted_seconds;
    /* The context that was requested, or that context_wanted or context_needed determined; 0: any
     * context was acceptable. Also set after a refusal. */
    int32_t context_fixed;
    uint64_t wanted_bytes; /* if context < context_wanted: the smallest budget that holds it */
    /* On MNEM_OVER_BUDGET: the smallest budget that is enough with these options, and the option
     * that would help instead. */
    uint64_t needed_bytes;
    mnem_knob knob;
    int32_t needed_rank; /* with several ranks: the rank whose budget is meant */
} mnem_engine_plan;

/* Makes a plan; of the model file, reads only the header. MNEM_OVER_BUDGET: the text states the
 * bytes and the budget. MNEM_INVALID, MNEM_BAD_FILE and MNEM_UNSUPPORTED of an adapter name its
 * file and tensor. */
mnem_status mnem_engine_plan_make(const mnem_model *model, const mnem_engine_options *options,
                                  mnem_engine_plan *plan);

/* ---- the frontier: the best plan for each budget ---- */

typedef struct mnem_engine_way {
    uint64_t peak_bytes;
    double seconds;                           /* as predicted_seconds of the plan */
    double tokens_per_s, prompt_tokens_per_s; /* on a plain machine without a profile */
    int32_t context, chunk;
    mnem_kv_choice kv;
    int32_t matrices_resident;
    uint64_t bytes_streamed_per_pass;
    int32_t expert_slots;   /* as in the plan; 0: there are none, or all are resident */
    double expert_hit_rate; /* then 1 */
    bool chosen;            /* this is the way of the plan */
    char gave_up[160];      /* compared to the fastest way; "" for the fastest */
} mnem_engine_way;

/* Calls on_way for every Pareto-optimal way to run with the plan's context (no other way is better
 * in both bytes and seconds), from the smallest to the fastest; if it returns false, the calls stop
 * with MNEM_OK. options and the bytes in the ledger must be the same as when the plan was made. */
typedef bool mnem_on_way(void *context, const mnem_engine_way *way);
mnem_status mnem_engine_frontier(const mnem_model *model, const mnem_engine_options *options,
                                 const mnem_engine_plan *plan, mnem_on_way *on_way, void *context);

/* ---- several devices, known as numbers only ---- */

/* A device of a pipeline (devices that work one after another), and what it holds. */
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
    mnem_kv_choice kv;
    uint64_t room_bytes; /* free on the fullest device: no other split leaves more */
    /* on MNEM_OVER_BUDGET: the bytes that each device lacks, at least, and the option that would
     * help */
    uint64_t short_bytes;
    mnem_knob knob;
} mnem_engine_split;

/* Splits the model's layers over the devices, all weights resident, so that the fullest device has
 * the most free room: the embedding before the first layer, the output matrix after the last. Bytes
 * for rounding and for the runtime of the devices aren't counted. Chooses the largest context that
 * fits, then the largest chunk. MNEM_OVER_BUDGET: the text states the bytes. */
mnem_status mnem_engine_split_make(const mnem_model *model, const mnem_engine_options *options,
                                   mnem_engine_device *devices, int32_t count,
                                   mnem_engine_split *split);

/* Creates the program of a plan: the body (ids to hidden rows), or the head (hidden rows to
 * logits), for at most `tokens` tokens (0: the plan's chunk, or its rows of logits). It is
 * compiled, for inspection with graph.h; the caller destroys it. A session runs the body of the
 * plan's chunk for any number of tokens up to the chunk. */
mnem_status mnem_engine_graph_create(const mnem_model *model, const mnem_engine_options *options,
                                     const mnem_engine_plan *plan, bool head, int32_t tokens,
                                     mnem_graph **graph, mnem_graph_sizes *sizes);

/* ---- running ---- */

typedef struct mnem_engine mnem_engine;
typedef struct mnem_sequence mnem_sequence;

/* Allocates the plan's memory, loads the resident weights and starts the reader thread. All bytes
 * are charged to the ledger, which enforces its budget from now on (mnem_ledger_hold); a step
 * allocates nothing more. */
mnem_status mnem_engine_create(const mnem_model *model, const mnem_engine_options *options,
                               const mnem_engine_plan *plan, mnem_engine **engine);
/* Destroys the engine with its sequences. NULL is fine; in a forked child it does nothing. */
void mnem_engine_destroy(mnem_engine *engine);

/* Creates an empty sequence. MNEM_OVER_BUDGET: options.sequences are already open. */
mnem_status mnem_sequence_create(mnem_engine *engine, mnem_sequence **sequence);
/* Creates a sequence that begins with the first n tokens of another: the two share those pages
 * until one of them writes into them (copy on write). MNEM_INVALID when the other has fewer tokens;
 * MNEM_UNSUPPORTED as mnem_sequence_truncate. */
mnem_status mnem_sequence_fork(const mnem_sequence *of, int32_t n, mnem_sequence **sequence);
/* Destroys a sequence and frees its pages. NULL is fine. */
void mnem_sequence_destroy(mnem_sequence *sequence);
int32_t mnem_sequence_length(const mnem_sequence *sequence);
/* Keeps the first n tokens. Layers with sliding windows hold at least a window and a chunk of
 * positions: MNEM_UNSUPPORTED, and nothing has changed, if the positions that token n would attend
 * to are no longer there. n = 0 is always possible. */
mnem_status mnem_sequence_truncate(mnem_sequence *sequence, int32_t n);

/* Positions where steps take snapshots, besides the multiples of snapshot_tokens: where texts that
 * begin alike part later, such as the end of a prompt before the words that ask for an answer. They
 * replace those set before; of more than 8 the last 8 count, in ascending order. Without effect
 * where no snapshots are planned. */
void mnem_sequence_snapshots_at(mnem_sequence *sequence, const int32_t *positions, int32_t count);

/* Tokens that a step appends to a sequence, ids [n]. Logits are computed for those with index >=
 * first_logits; first_logits = n: for none. */
typedef struct mnem_step_part {
    mnem_sequence *sequence;
    const int32_t *ids;
    int32_t n, first_logits;
} mnem_step_part;

/* Called with the logits [vocab] that follow token `index` of part `part`; the logits of a part
 * come in order. Returning false stops the step with MNEM_CANCELLED. */
typedef bool mnem_on_step_logits(void *context, int32_t part, int32_t index, const float *logits);
/* Runs all parts, in passes of at most the plan's chunk of tokens, filled in the order of the
 * parts. MNEM_UNSUPPORTED for an encoder. MNEM_INVALID for ids outside the vocabulary, a sequence
 * named twice, or a sequence of another engine; MNEM_OVER_BUDGET when a context has no room, or too
 * few pages are free (mnem_engine_step_pages): in these cases nothing has changed. MNEM_CANCELLED
 * after mnem_engine_cancel, or when on_logits returned false; after that, or an error while
 * running, every sequence ends before the pass that was stopped. */
mnem_status mnem_engine_step(mnem_engine *engine, const mnem_step_part *parts, int32_t count,
                             mnem_on_step_logits *on_logits, void *context);

/* ---- steps under way ----
 *
 * With several ranks, each rank has a part of the layers, and only one rank computes a given step
 * at a time. To keep all ranks busy, steps of other sequences begin before the logits of earlier
 * steps have arrived:
 *
 *     bool ended;
 *     mnem_engine_step_begin(engine, a, n, on_logits, context, &ended); // of some sequences
 *     mnem_engine_step_begin(engine, b, n, on_logits, context, &ended); // of others
 *     mnem_engine_step_end(engine);                                     // the logits of the first
 */

/* The number of steps that can be under way: 1 for an engine alone, and where ranks have rows of
 * all layers; otherwise one for each rank, up to 8. */
int32_t mnem_engine_steps_most(const mnem_engine *engine);
/* As mnem_engine_step, but its logits are delivered by a later mnem_engine_step_end, in the order
 * of the steps; the return value of on_logits is ignored. The tokens belong to the sequences at
 * once; the sequences may be forked, truncated and destroyed meanwhile. *ended: the step has
 * already ended, and its logits were delivered. This is the case for an engine alone, for a step of
 * several passes, for one without logits, and for one with more rows of logits than logits_rows.
 * MNEM_BUSY (nothing has changed): the maximum number of steps is under way, or their rows leave
 * too little room in logits_rows, or this step ends at once while others are under way. */
mnem_status mnem_engine_step_begin(mnem_engine *engine, const mnem_step_part *parts, int32_t count,
                                   mnem_on_step_logits *on_logits, void *context, bool *ended);
/* Waits for the oldest step under way. MNEM_INVALID: none is under way; MNEM_BAD_FILE: its logits
 * aren't finite. */
mnem_status mnem_engine_step_end(mnem_engine *engine);

/* ---- one model over several ranks ---- */

/* Plans for all ranks of options->comm at once, each with its own ledger. With MNEM_CUT_LAYERS the
 * layers are split so that the slowest rank is as fast as possible; where that would cost a rank
 * context or force it to stream weights from disk, so that the fullest rank has the most room. The
 * plan has a context and a chunk that every rank can hold, and the part of its budget that each
 * rank takes for its layers. With MNEM_CUT_ROWS each rank has a part of every matrix, of equal size
 * unless its budget lacks the room: whole groups of heads, or, where there are fewer groups than
 * ranks, a part of one group with a copy of its keys and values. The ranks then synchronize four
 * times in each layer. Every rank calls this function with its own ledger, profile and threads; all
 * other options are taken from rank 0. Another version of mnem or another model file on a rank is
 * refused by name on every rank (MNEM_INVALID). MNEM_OVER_BUDGET on every rank if one lacks the
 * room; the text names that rank. MNEM_UNSUPPORTED: encoders, models with convolutions, and
 * adapters; with MNEM_CUT_ROWS also attention through a latent. */
mnem_status mnem_engine_plan_ranks(const mnem_model *model, const mnem_engine_options *options,
                                   mnem_engine_plan *plan);
/* Calls tell for the bytes of the model's files that an engine of this plan reads, while it is
 * created and later: whole matrices, or the rows of a part, an embedding, norms and biases. Ranges
 * may touch, overlap and come in any order. A status other than MNEM_OK stops the calls and is
 * returned. */
typedef mnem_status mnem_on_engine_read(void *context, uint32_t file, uint64_t offset,
                                        uint64_t bytes);
mnem_status mnem_engine_reads(const mnem_model *model, const mnem_engine_options *options,
                              const mnem_engine_plan *plan, mnem_on_engine_read *tell,
                              void *context);
/* An engine of a plan for ranks, created with the same comm in its options, is used on rank 0 like
 * any other; saved states in files are MNEM_UNSUPPORTED. Every other rank calls this function after
 * mnem_engine_create: it executes the commands of rank 0, and returns MNEM_OK when rank 0 destroys
 * its engine. MNEM_IO: a rank ended or failed; the text names it. A failure of this rank is
 * reported to all others. */
mnem_status mnem_engine_follow(mnem_engine *engine);

/* ---- adapters by sequence ---- */

/* The adapters of the engine's options. They are constant: any thread may read them. */
typedef struct mnem_engine_adapter {
    const char *path; /* of its file; borrowed until the engine is destroyed */
    float scale;
} mnem_engine_adapter;
int32_t mnem_engine_adapter_count(const mnem_engine *engine);
/* false: there is no adapter with this index. */
bool mnem_engine_adapter_get(const mnem_engine *engine, int32_t index,
                             mnem_engine_adapter *adapter);
/* Sets the adapters' scales of a sequence without tokens: scales [adapters of the engine]; 0: the
 * adapter isn't applied. The results are bit for bit those of an engine with only the applied
 * adapters, for any scales of other sequences in a step. NULL: the scales of the options, which a
 * new sequence has. A fork has the scales of its origin. A saved sequence (saved.h) is only loaded
 * into one with equal scales. MNEM_INVALID: the sequence has tokens, or a scale isn't finite. */
mnem_status mnem_sequence_adapters_set(mnem_sequence *sequence, const float *scales);
/* The scales; borrowed until the sequence is destroyed. */
const float *mnem_sequence_adapters_get(const mnem_sequence *sequence);

/* ---- pages ---- */

/* Pages by the kind of layers whose keys and values they hold: layers that attend to all positions,
 * and layers with sliding windows, which discard old positions. states: those of recurrent layers,
 * one for each sequence that has tokens. Most models have only one kind; the counts of the others
 * are 0. */
typedef struct mnem_page_count {
    int32_t full, window, states;
} mnem_page_count;
typedef struct mnem_engine_pages {
    int32_t tokens;                    /* positions of a page */
    uint64_t full_bytes, window_bytes; /* of a page; 0: no layer is of this kind */
    uint64_t state_bytes;              /* of a sequence's recurrent states; 0: there are none */
    int32_t snapshots, snapshots_used; /* states of earlier positions: planned, and kept now */
    mnem_page_count all, free;
    mnem_page_count most; /* of one sequence whose context is full */
} mnem_engine_pages;
void mnem_engine_pages_get(const mnem_engine *engine, mnem_engine_pages *pages);
/* The pages of one sequence: its own, which mnem_sequence_destroy frees, and those that it shares
 * with other sequences. */
void mnem_sequence_pages_get(const mnem_sequence *sequence, mnem_page_count *own,
                             mnem_page_count *shared);
/* The largest number of free pages that a step of these parts would take, copies of shared pages
 * included: the step is refused exactly if fewer pages are free. Statuses for the parts are those
 * of mnem_engine_step; the step isn't run, and nothing changes. */
mnem_status mnem_engine_step_pages(mnem_engine *engine, const mnem_step_part *parts, int32_t count,
                                   mnem_page_count *pages);

/* ---- embeddings ---- */

typedef struct mnem_embed_text {
    const int32_t *ids; /* [n] */
    int32_t n;          /* 1 or more, up to the context */
} mnem_embed_text;
/* Zero means default. */
typedef struct mnem_embed_options {
    mnem_pooling pooling;        /* default: the file's */
    bool raw;                    /* default: every embedding is scaled to a length of 1 */
    const float *adapter_scales; /* as for mnem_sequence_adapters_set */
} mnem_embed_options;
/* Computes the embeddings of texts, out [count][embd] f32. An encoder sees a text as a whole, so a
 * text is run in one pass (the plan's chunk is its context), with as many texts in a pass as fit;
 * any other model sees a text in chunks, and its last norm is part of the embedding. Texts run
 * together as far as there are unused sequences of the plan and free pages; the results are
 * bit-identical to those of each text alone. No state is kept. Steps under way are allowed and stay
 * under way. options may be NULL. MNEM_INVALID: a text without tokens, ids outside the vocabulary,
 * or no pooling in the options and none in the file; MNEM_OVER_BUDGET: a text is longer than the
 * context, all sequences are open, or too few pages are free; MNEM_BAD_FILE and MNEM_CANCELLED as
 * mnem_engine_step. */
mnem_status mnem_engine_embed(mnem_engine *engine, const mnem_embed_text *texts, int32_t count,
                              const mnem_embed_options *options, float *out);

/* Stops a step. Async-signal-safe; the end of the next step clears the request. On a rank that
 * follows it stops nothing: rank 0 decides. */
void mnem_engine_cancel(mnem_engine *engine);
typedef struct mnem_engine_stats {
    uint64_t tokens, passes;
    uint64_t bytes_streamed;
    uint64_t expert_hits, expert_misses;  /* uses of experts; 0: all are resident */
    uint64_t expert_guesses;              /* prefetched, before a layer used them */
    uint64_t expert_guessed;              /* hits that were prefetched */
    double seconds_eval, seconds_waiting; /* waiting: for the disk */
    uint64_t pages_used, pages;
} mnem_engine_stats;
void mnem_engine_stats_get(const mnem_engine *engine, mnem_engine_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
