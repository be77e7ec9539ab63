/* mnem/advice.h: advice on a plan, a run or a trace: a table of checks that are applied to facts.
 *
 * Facts are named numbers, each known or unknown; the owner of a plan, a line of the history or a
 * recorded workload collects them, including results of alternatives (other plans, other policies).
 * A check reads facts only: it applies when all facts that it needs are known and its condition
 * holds, and then states the evidence, the command, the gain and its certainty. Options that are
 * already set are not proposed.
 * Not here: recording (trace.h), pages of reports.
 * Threads: no state; any thread.
 *
 *     mnem_facts facts = {.model = "a.gguf"};
 *     mnem_advice found[MNEM_ADVICE_MOST];
 *     if (mnem_facts_plan(model, &options, &plan, &facts) == MNEM_OK)
 *         for (int i = 0, n = mnem_advice_make(&facts, found, MNEM_ADVICE_MOST); i < n; i++)
 *             printf("%s: %s\n", found[i].condition, found[i].command);
 */
#ifndef MNEM_ADVICE_H
#define MNEM_ADVICE_H

#include "mnem/engine.h"
#include "mnem/history.h"
#include "mnem/replay.h"
#include "mnem/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, key). Bytes, seconds, tokens, parts of 1; a flag is 0 or 1. try_...: what another plan,
 * or another policy in the replay, says. */
#define MNEM_FACT_LIST(X)                                                                          \
    X(TRAINING, "training")                                                                        \
    X(BUDGET, "budget_bytes")                                                                      \
    X(BUDGET_GIVEN, "budget_given")                                                                \
    X(NEEDED, "needed_bytes")   /* the least that fits as it is; known of refusals only */         \
    X(PEAK, "peak_bytes")       /* planned */                                                      \
    X(COUNTED, "counted_bytes") /* the peak that the kernel counted */                             \
    X(PREDICTED, "predicted_bytes")                                                                \
    X(LEDGER, "ledger_bytes")                                                                      \
    X(AVAILABLE, "available_bytes") /* that the machine could give */                              \
    X(WEIGHTS, "weight_bytes")                                                                     \
    X(WEIGHT_BITS, "weight_bits") /* of a weight */                                                \
    X(KV, "kv_bytes")                                                                              \
    X(KV_SMALL, "kv_is_q8_0")                                                                      \
    X(CONTEXT, "context")                                                                          \
    X(CONTEXT_TRAINED, "context_trained")                                                          \
    X(CONTEXT_USED, "context_used")                                                                \
    X(CONTEXT_WANTED, "context_wanted")                                                            \
    X(CHUNK, "chunk")                                                                              \
    X(STREAMED, "streamed")                                                                        \
    X(STREAMED_PASS, "streamed_bytes_per_pass")                                                    \
    X(PAGE_CACHE, "page_cache")                                                                    \
    X(EXPERT_HIT, "expert_hit_rate")                                                               \
    X(PLAN_SECONDS, "plan_seconds")                                                                \
    X(TRY_KNOB, "try_knob")                                                                        \
    X(TRY_KNOB_VALUE, "try_knob_value")                                                            \
    X(TRY_KV_PEAK, "try_kv_peak_bytes")                                                            \
    X(TRY_CONTEXT, "try_context")                                                                  \
    X(TRY_CONTEXT_PEAK, "try_context_peak_bytes")                                                  \
    X(TRY_TRAINED_PEAK, "try_trained_peak_bytes")                                                  \
    X(TRY_WANTED, "try_wanted_bytes")                                                              \
    X(TRY_LARGER, "try_larger_bytes")                                                              \
    X(TRY_LARGER_SECONDS, "try_larger_seconds")                                                    \
    X(TRY_LARGER_HIT, "try_larger_hit_rate")                                                       \
    X(TRY_CHUNK, "try_chunk")                                                                      \
    X(TRY_CHUNK_PEAK, "try_chunk_peak_bytes")                                                      \
    X(TRY_CHUNK_SECONDS, "try_chunk_seconds")                                                      \
    X(PROCESSORS, "processors")                                                                    \
    X(THREADS, "threads")                                                                          \
    X(PROFILE, "profile") /* the machine was measured */                                           \
    X(READ_RATE, "read_bytes_per_s")                                                               \
    X(DISK_RATE, "disk_bytes_per_s")                                                               \
    X(MAC_RATE, "macs_per_s")                                                                      \
    X(HUGE_PAGES, "huge_pages") /* the machine offers them (madvise) */                            \
    X(BF16_GAIN, "bf16_gain")                                                                      \
    X(THREADS_GAIN, "threads_gain") /* arithmetic of all processors over one's */                  \
    X(SECONDS, "seconds")                                                                          \
    X(CPU_SECONDS, "cpu_seconds")                                                                  \
    X(WAITING, "seconds_waiting")                                                                  \
    X(TOKENS, "tokens")                                                                            \
    X(TOKENS_SECONDS, "tokens_seconds")                                                            \
    X(TOKENS_PREDICTED, "tokens_predicted_seconds")                                                \
    X(READ_BYTES, "read_bytes") /* from memory, while tokens were made */                          \
    X(MACS, "macs")                                                                                \
    X(DISK_BYTES, "disk_bytes")                                                                    \
    X(FAULTS, "faults")                                                                            \
    X(REFUSALS, "refusals")                                                                        \
    X(PREEMPTIONS, "preemptions")                                                                  \
    X(SWAP, "swap")                                                                                \
    X(RECOMPUTED_TOKENS, "tokens_recomputed")                                                      \
    X(REFUSED_FULL, "requests_refused")                                                            \
    X(BATCH, "batch")                                                                              \
    X(MICRO_BATCH, "micro_batch")                                                                  \
    X(OPTIMIZER, "optimizer_bytes")                                                                \
    X(GRADIENTS, "gradient_bytes")                                                                 \
    X(MOMENTS_SMALL, "moments_are_8bit")                                                           \
    X(COMPUTE_F32, "compute_is_f32")                                                               \
    X(FROM_MODEL, "from_model")                                                                    \
    X(LORA, "lora")                                                                                \
    X(LAYERS_AGAIN, "layers_recomputed")                                                           \
    X(STEP_SECONDS, "step_seconds")                                                                \
    X(EFFICIENCY, "efficiency")                                                                    \
    X(TRY_MICRO_PEAK, "try_micro_batch_peak_bytes")                                                \
    X(TRY_BATCH, "try_batch")                                                                      \
    X(TRY_BATCH_PEAK, "try_batch_peak_bytes")                                                      \
    X(TRY_MOMENTS_PEAK, "try_moments_peak_bytes")                                                  \
    X(TRY_BF16_PEAK, "try_bf16_peak_bytes")                                                        \
    X(TRY_LORA_PEAK, "try_lora_peak_bytes")                                                        \
    X(TRY_LARGER_COST, "try_larger_cost") /* of a step against this one's */                       \
    X(LIVE_PEAK, "live_peak_bytes")                                                                \
    X(RESERVED_PEAK, "reserved_peak_bytes")                                                        \
    X(CAPACITY, "capacity_bytes") /* that this policy needs at the least */                        \
    X(POLICY_SET, "policy_is_best")                                                                \
    X(GRANTED_PEAK, "granted_peak_bytes")                                                          \
    X(ALIGNMENT, "alignment")                                                                      \
    X(HIT_RATE, "hit_rate")                                                                        \
    X(SEGMENT, "segment_bytes")                                                                    \
    X(UPSTREAM_CALLS, "upstream_calls")                                                            \
    X(ZERO_COPY, "zero_copy_part")                                                                 \
    X(HANDED_OVER, "handed_over_bytes")                                                            \
    X(TRY_POLICY_CAPACITY, "try_policy_capacity_bytes")                                            \
    X(TRY_ALIGNMENT, "try_alignment")                                                              \
    X(TRY_ALIGNMENT_CAPACITY, "try_alignment_capacity_bytes")                                      \
    X(TRY_GRANULES, "try_granules_capacity_bytes")                                                 \
    X(TRY_SEGMENT, "try_segment_bytes")                                                            \
    X(TRY_SEGMENT_CALLS, "try_segment_calls")                                                      \
    X(GROWING_BLOCKS, "growing_blocks") /* by which live blocks grew in each of three parts */     \
    X(GROWING_BYTES, "growing_bytes")                                                              \
    X(END_BLOCKS, "end_blocks")                                                                    \
    X(END_BYTES, "end_bytes")                                                                      \
    X(BRIEF_PART, "brief_part") /* of the blocks, freed by the next operation */                   \
    X(BRIEF_BLOCKS, "brief_blocks")                                                                \
    X(IDLE_BYTES, "idle_bytes") /* at the peak, of blocks that live through most of the trace */   \
    X(TRY_IDLE_PEAK, "try_idle_peak_bytes")                                                        \
    X(UNALIGNED_BLOCKS, "unaligned_blocks")                                                        \
    X(WORKSPACE, "workspace_bytes")                                                                \
    X(WORKSPACE_USED, "workspace_used_bytes")

typedef enum mnem_fact {
#define MNEM_FACT_ENUM(name, key) MNEM_FACT_##name,
    MNEM_FACT_LIST(MNEM_FACT_ENUM)
#undef MNEM_FACT_ENUM
        MNEM_FACT_COUNT
} mnem_fact;
const char *mnem_fact_text(mnem_fact fact);

/* All zero: nothing is known. */
typedef struct mnem_facts {
    double value[MNEM_FACT_COUNT];
    bool known[MNEM_FACT_COUNT];
    char verb[16];                   /* of commands; "": run */
    char model[256];                 /* its name in commands; "": none */
    char policy[16], policy_now[16]; /* the best one in the replay; the one in use */
    char site[128];                  /* of blocks that grow in number, or aren't freed */
} mnem_facts;
void mnem_facts_set(mnem_facts *facts, mnem_fact fact, double value);

/* ---- collecting facts; each function adds to the facts ---- */

/* Collects facts of a plan that was made or refused (peak_bytes 0), and of alternative options, for
 * which it makes a few more plans. Statuses: errors of memory only, not those of plans that don't
 * fit. */
mnem_status mnem_facts_plan(const mnem_model *model, const mnem_engine_options *options,
                            const mnem_engine_plan *plan, mnem_facts *facts);
/* Collects the same facts for training. */
mnem_status mnem_facts_training(const mnem_train_options *options, const mnem_train_plan *plan,
                                mnem_facts *facts);
/* Collects facts of a finished run from its line of the history. */
void mnem_facts_history(const mnem_history_run *run, mnem_facts *facts);
/* Collects facts of a recorded workload, replayed through the policy in use (NULL: the default one)
 * and through others. Statuses of mnem_replay_run. */
mnem_status mnem_facts_workload(const mnem_workload *workload, const char *policy,
                                const mnem_replay_settings *settings, mnem_facts *facts);
/* Collects facts of a trace that a program recorded with the library (trace_read.h): refusals,
 * blocks that were not freed, the used part of operators' workspaces, bytes handed to a device with
 * and without a copy. MNEM_UNSUPPORTED: another kind of file (mnem_facts_workload). */
mnem_status mnem_facts_trace(const char *path, mnem_facts *facts);
/* Collects facts of this machine: processors, available bytes, huge pages; and of its profile. */
void mnem_facts_machine(const mnem_machine_profile *profile, mnem_facts *facts);

/* ---- checks ---- */

typedef enum mnem_sure {
    MNEM_SURE_COMPUTED, /* by the planner or the replay: exact to the byte */
    MNEM_SURE_LIKELY,   /* estimated from measurements */
    MNEM_SURE_PERHAPS,  /* worth trying */
} mnem_sure;
const char *mnem_sure_text(mnem_sure sure);

/* A gain: less is better, except for the units "tokens", "hits" and "room". */
typedef struct mnem_gain {
    double before, after;
    const char *unit; /* "bytes", "seconds", "tokens", "calls", ... NULL: there is no number */
    const char *by;   /* "plan", "replay", "trace", "history", "probe", "types" */
} mnem_gain;

enum { MNEM_ADVICE_MOST = 64, MNEM_ADVICE_FACTS = 8 };
typedef struct mnem_advice {
    const char *check, *condition; /* its name, and when it applies */
    bool severe;                   /* the second threshold, where there are two */
    char evidence[200], command[240];
    mnem_gain gain;
    mnem_sure sure;
} mnem_advice;

/* Applies every check to the facts: severe ones come first, then those of higher certainty. Returns
 * the number of checks that apply, at most `most`. */
int mnem_advice_make(const mnem_facts *facts, mnem_advice *advice, int most);

/* Gets a row of the table of checks; false past the last. */
typedef struct mnem_check {
    const char *name, *condition;
    mnem_fact needs[MNEM_ADVICE_FACTS];
    int need_count;
} mnem_check;
bool mnem_check_get(int index, mnem_check *check);

#ifdef __cplusplus
}
#endif
#endif
