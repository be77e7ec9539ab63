/* speed.c: how fast a session takes a prompt, and how fast it generates.
 *
 * The best of the repeats counts, since noise only slows. */
#include "verbs/measure/speed.h"

static int32_t ids[TOOL_SPEED_MOST];

static bool ignore_logits(void *context, int32_t index, const float *logits) {
    (void)context, (void)index, (void)logits;
    return true;
}

/* Tokens that don't repeat in a short while: x -> 1103515245 x + 12345 (C's example of rand). */
static void make_ids(int32_t tokens, int32_t vocab) {
    uint32_t state = 1;
    for (int32_t i = 0; i < tokens; i++) {
        state = state * 1103515245u + 12345u;
        ids[i] = (int32_t)((state >> 8) % (uint32_t)vocab);
    }
}

typedef mnem_status run_once(tool_stage *stage, int32_t tokens);

/* ---- several sequences ---- */

enum { TOGETHER_MOST = 256 };
static mnem_sequence *sequences[TOGETHER_MOST];

static bool ignore_rows(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

/* All of them in as many groups as can be under way; each group's step begins when the one before
 * it has its logits, as though tokens came of those. */
static mnem_status run_groups(mnem_engine *engine, int32_t count, int32_t tokens) {
    static mnem_step_part parts[TOGETHER_MOST];
    const int32_t groups = mnem_engine_steps_most(engine);
    mnem_status status = MNEM_OK;
    bool ended;
    int32_t under_way = 0;
    for (int32_t t = 0; t < tokens; t++)
        for (int32_t g = 0; g < groups && status == MNEM_OK; g++) {
            const int32_t begin = count * g / groups, end = count * (g + 1) / groups;
            for (int32_t i = begin; i < end; i++)
                parts[i] = (mnem_step_part){sequences[i], ids + t, 1, 0};
            if (under_way == groups) {
                status = mnem_engine_step_end(engine);
                under_way--;
            }
            if (begin == end || status != MNEM_OK) continue;
            status = mnem_engine_step_begin(engine, parts + begin, end - begin, ignore_rows, NULL,
                                            &ended);
            under_way += status == MNEM_OK && !ended;
            if (tool_interrupted()) status = MNEM_CANCELLED;
        }
    while (under_way-- > 0 && status == MNEM_OK) status = mnem_engine_step_end(engine);
    return status;
}

/* The session's own sequence is one of them. */
static mnem_status run_together(tool_stage *stage, int32_t tokens) {
    mnem_engine *engine = mnem_session_engine(stage->session);
    const int32_t count =
        stage->plan.sequences < TOGETHER_MOST ? stage->plan.sequences : TOGETHER_MOST;
    mnem_status status = MNEM_OK;
    int32_t made = 1;
    sequences[0] = mnem_session_sequence(stage->session);
    for (; made < count && status == MNEM_OK; made++)
        status = mnem_sequence_create(engine, &sequences[made]);
    if (status == MNEM_OK) status = run_groups(engine, count, tokens);
    for (int32_t i = 1; i < made; i++) mnem_sequence_destroy(sequences[i]);
    return status;
}

static mnem_status run_prompt(tool_stage *stage, int32_t tokens) {
    return tool_stage_eval(stage, ids, tokens, tokens - 1, ignore_logits, NULL, NULL);
}

static mnem_status run_tokens(tool_stage *stage, int32_t tokens) {
    mnem_status status = MNEM_OK;
    for (int32_t i = 0; i < tokens && status == MNEM_OK; i++)
        status = tool_stage_eval(stage, ids + i, 1, 0, ignore_logits, NULL, NULL);
    return status;
}

static mnem_status run_timed(tool_stage *stage, run_once *run, int32_t tokens, double *seconds) {
    mnem_status status = mnem_session_truncate(stage->session, 0);
    const double start = tool_clock();
    if (status == MNEM_OK) status = run(stage, tokens);
    *seconds = tool_clock() - start;
    return status;
}

static mnem_status run_best(tool_stage *stage, const char *what, run_once *run, int32_t tokens,
                            int32_t repeats, double *best) {
    tool_progress progress;
    double seconds;
    make_ids(tokens, stage->transformer.vocab);
    *best = 0;
    tool_progress_begin(&progress, what);
    mnem_status status = run_timed(stage, run, tokens, &seconds); /* warms up */
    for (int32_t i = 0; i < repeats && status == MNEM_OK; i++) {
        tool_progress_step(&progress, (uint64_t)i, (uint64_t)repeats, NULL);
        status = run_timed(stage, run, tokens, &seconds);
        if (status == MNEM_OK && tokens / seconds > *best) *best = tokens / seconds;
    }
    tool_progress_end(&progress);
    return status;
}

mnem_status tool_speed_prompt(tool_stage *stage, int32_t tokens, int32_t repeats, double *rate) {
    return run_best(stage, "prompt", run_prompt, tokens, repeats, rate);
}

mnem_status tool_speed_tokens(tool_stage *stage, int32_t tokens, int32_t repeats, double *rate) {
    return run_best(stage, "tokens", run_tokens, tokens, repeats, rate);
}

mnem_status tool_speed_together(tool_stage *stage, int32_t tokens, int32_t repeats, double *rate) {
    const mnem_status status = run_best(stage, "tokens", run_together, tokens, repeats, rate);
    *rate *= stage->plan.sequences;
    return status;
}
