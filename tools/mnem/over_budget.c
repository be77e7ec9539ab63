/* over_budget.c: the peak of a run that has ended, beside its budget.
 *
 * The idea: the ledger keeps a run within its budget, but only the kernel sees every byte of the
 * process: memory of a library, of an emulator, or of a part that nobody charged. All verbs end
 * here, so no cause has to be known. Verbs that plan another run have no budget of their own.
 *
 * Cost: one read of /proc/self/status. */
#include <inttypes.h>
#include <string.h>

#include "options.h"
#include "ranks/ranks.h"

/* Sanitizers take memory for every byte of the program's: such a run is not a failure. */
#if defined MNEM_SANITIZED && MNEM_SANITIZED
static const int code_over = TOOL_OK;
#else
static const int code_over = TOOL_OVER_BUDGET;
#endif

/* The value of --memory or $MNEM_MEMORY; 0: nobody gave one, or it is that of a plan. */
static uint64_t budget_of(const tool_args *args) {
    static const char *const plan_only[] = {"plan", "advise", "graph", NULL};
    tool_option o;
    for (int i = 0; plan_only[i]; i++)
        if (strcmp(args->verb->name, plan_only[i]) == 0) return 0;
    for (int i = 0; tool_option_get(args->verb, i, &o); i++) {
        uint64_t bytes;
        if (o.kind != TOOL_VALUE_BUDGET) continue;
        memcpy(&bytes, (const char *)args + o.offset, sizeof bytes);
        return bytes;
    }
    return 0;
}

static const tool_args *ended; /* of the command line; NULL: it never came to run */

static void report(const char *who, int32_t rank, uint64_t peak, uint64_t budget, int code) {
    char text[320], a[TOOL_TEXT], b[TOOL_TEXT], c[TOOL_TEXT];
    const uint64_t over = peak - budget;
    snprintf(text, sizeof text,
             "the peak RSS of %s was %" PRIu64 " bytes (%s), which is over the budget of %" PRIu64
             " (%s) by %" PRIu64 " (%s)%s",
             who, peak, tool_size(peak, a), budget, tool_size(budget, b), over, tool_size(over, c),
             code == TOOL_OK ? "; the result is complete and kept: use a larger --memory next time"
                             : "");
    tool_message("%s", text);
    if (!ended->json) return;
    json_t *object = json_pack("{s:s, s:s, s:b, s:I, s:I, s:I}", "error", text, "status",
                               mnem_status_text(MNEM_OVER_BUDGET), "refused", 0,
                               "over_budget_bytes", (json_int_t)over, "peak_bytes",
                               (json_int_t)peak, "budget_bytes", (json_int_t)budget);
    if (object && rank >= 0) json_object_set_new(object, "rank", json_integer(rank));
    tool_out_json("over_budget", object);
}

/* Another failure keeps its code, and a signal its own. */
static int end_with(int code) {
    const int ends = tool_out_end();
    if (code != TOOL_OK) return code;
    return code_over != TOOL_OK ? code_over : ends;
}

int tool_over_budget_end(const tool_args *args, int code) {
    ended = args;
    const bool refused = code == TOOL_OVER_BUDGET || code == TOOL_USAGE;
    if (refused || tool_ranks()) return code; /* of ranks, all are seen when they end */
    const uint64_t budget = budget_of(args), peak = budget ? tool_peak_bytes() : 0;
    if (peak <= budget) return code;
    report("this process", -1, peak, budget, code);
    return end_with(code);
}

int tool_over_budget_rank(int32_t rank, uint64_t peak, uint64_t budget, int code) {
    char who[32];
    if (!ended || !budget || peak <= budget) return code;
    snprintf(who, sizeof who, "rank %d", rank);
    report(who, rank, peak, budget, code);
    return end_with(code);
}
