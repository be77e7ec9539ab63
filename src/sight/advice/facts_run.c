/* facts_run.c: facts of a finished run, by its own line, and of the machine. */
#include <string.h>

#include "base/process.h"
#include "base/thread.h"
#include "sight/advice/checks.h"

#define SET(name, value) mnem_facts_set(facts, MNEM_FACT_##name, (double)(value))
/* Zero: not known. */
#define SET_KNOWN(name, value)                                                                     \
    do {                                                                                           \
        if ((double)(value) > 0) SET(name, value);                                                 \
    } while (0)

/* Of tokens made: what came from memory, and what was multiplied. */
static void set_work(const mnem_history_phase *p, mnem_facts *facts) {
    double bytes = 0, macs = 0;
    for (int32_t i = 0; i < p->works; i++) {
        macs += p->work[i].macs;
        const char *level = p->work[i].level; /* a large L3 isn't a core's own: as memory */
        if (!strcmp(level, "memory") || !strcmp(level, "L3")) bytes += p->work[i].bytes;
    }
    SET_KNOWN(TOKENS, p->tokens);
    SET_KNOWN(TOKENS_SECONDS, p->seconds);
    SET_KNOWN(TOKENS_PREDICTED, p->predicted_seconds);
    if (!p->works) return;
    SET(READ_BYTES, bytes);
    SET(MACS, macs);
}

/* The part of a step that grows with its batch. The rest is what an update reads and writes of
 * weights, gradients and moments, at memory's rate, whatever the batch. */
static void set_efficiency(const mnem_history_run *run, mnem_facts *facts) {
    const mnem_history_phase *p = &run->phase[MNEM_PHASE_STEPS];
    const double each = (double)run->batch * run->context;
    if (!p->tokens || p->seconds <= 0 || each <= 0) return;
    const double step = p->seconds * each / (double)p->tokens;
    const uint64_t bytes = run->weight_bytes + run->gradient_bytes + run->optimizer_bytes;
    SET(STEP_SECONDS, step);
    if (!facts->known[MNEM_FACT_READ_RATE]) return;
    const double fixed = 2 * (double)bytes / facts->value[MNEM_FACT_READ_RATE];
    SET(EFFICIENCY, fixed < step ? 1 - fixed / step : 0);
}

static void set_train(const mnem_history_run *run, mnem_facts *facts) {
    set_efficiency(run, facts);
    SET(BATCH, run->batch);
    SET(MICRO_BATCH, run->micro_batch);
    SET(OPTIMIZER, run->optimizer_bytes);
    SET(GRADIENTS, run->gradient_bytes);
    SET(MOMENTS_SMALL, strcmp(run->moments, "8bit") == 0);
    SET(COMPUTE_F32, strcmp(run->precision, "f32") == 0);
    SET(LORA, run->lora);
}

static void set_serve(const mnem_history_run *run, mnem_facts *facts) {
    SET(PREEMPTIONS, run->preemptions);
    SET(RECOMPUTED_TOKENS, run->tokens_recomputed);
    SET(REFUSED_FULL, run->refused_full);
}

void mnem_facts_history(const mnem_history_run *run, mnem_facts *facts) {
    double cpu = 0;
    for (int i = 0; i < MNEM_PHASE_COUNT; i++) cpu += run->phase[i].cpu_seconds;
    const bool training = strcmp(run->verb, "train") == 0;
    memcpy(facts->verb, run->verb, sizeof facts->verb);
    if (!*facts->model) memcpy(facts->model, run->model, sizeof run->model);
    SET(TRAINING, training);
    SET_KNOWN(BUDGET, run->budget_bytes);
    SET(BUDGET_GIVEN, !run->budget_chosen);
    SET_KNOWN(PEAK, run->predicted_bytes);
    SET_KNOWN(COUNTED, run->peak_bytes);
    SET_KNOWN(PREDICTED, run->predicted_bytes);
    SET_KNOWN(LEDGER, run->ledger_bytes);
    SET_KNOWN(WEIGHTS, run->weight_bytes);
    SET_KNOWN(CONTEXT, run->context);
    SET_KNOWN(CONTEXT_USED, run->context_used);
    SET_KNOWN(PROCESSORS, run->processors);
    SET_KNOWN(THREADS, run->threads);
    SET_KNOWN(SECONDS, run->seconds);
    SET_KNOWN(CPU_SECONDS, cpu);
    SET(WAITING, run->seconds_waiting);
    SET(STREAMED, run->streamed);
    SET(PAGE_CACHE, run->page_cache);
    SET_KNOWN(DISK_BYTES, run->streamed_bytes);
    SET(FAULTS, run->faults);
    SET(REFUSALS, run->refusals);
    if (run->expert_hits + run->expert_misses)
        SET(EXPERT_HIT, (double)run->expert_hits / (double)(run->expert_hits + run->expert_misses));
    if (strcmp(run->verb, "bench") != 0) set_work(&run->phase[MNEM_PHASE_TOKENS], facts);
    if (training) set_train(run, facts);
    if (strcmp(run->verb, "serve") == 0) set_serve(run, facts);
}

/* "always [madvise] never": the word in brackets. */
static bool huge_pages(bool *known) {
    char text[128];
    *known = mnem__file_read_small("/sys/kernel/mm/transparent_hugepage/enabled", text,
                                   sizeof text) == MNEM_OK;
    return *known && !strstr(text, "[never]");
}

void mnem_facts_machine(const mnem_machine_profile *profile, mnem_facts *facts) {
    uint64_t available;
    bool known;
    const bool huge = huge_pages(&known);
    SET(PROCESSORS, mnem__processors());
    if (mnem_process_available(&available) == MNEM_OK) SET(AVAILABLE, available);
    if (known) SET(HUGE_PAGES, huge);
    SET(PROFILE, profile && profile->read_bytes_per_s > 0);
    if (!profile) return;
    SET_KNOWN(READ_RATE, profile->read_bytes_per_s);
    SET_KNOWN(DISK_RATE, profile->disk_bytes_per_s);
    SET_KNOWN(MAC_RATE, profile->macs_per_s);
}
