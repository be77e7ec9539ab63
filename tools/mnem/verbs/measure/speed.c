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
