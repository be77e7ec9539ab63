/* drafting.c: the loop of generation with drafts.
 *
 * A pass runs the last token and a draft. Its choices are made row by row, each with the state of
 * sampler, grammar and stop texts that it would have had alone: a chosen token that the draft has,
 * too, is taken at once, printed, and accepted, before the next row is looked at. The last choice
 * of a pass is left to the loop (generate.c), as without drafts.
 * Invariant: a draft ends before the limit of tokens and before the context is full, so what
 * happens there happens between two passes. */
#include "verbs/run/draft/drafting.h"

#include <string.h>

#include "verbs/run/prompt_list.h"

bool tool_draft_asked(const run_options *asked) {
    return asked->draft && strcmp(asked->draft, "ngram") == 0;
}

int tool_draft_check(const char *verb, const run_options *asked) {
    const bool drafts = tool_draft_asked(asked);
    if (asked->draft && !drafts && strcmp(asked->draft, "off") != 0)
        return tool_usage(verb, "--draft %s is not supported yet; use ngram or off", asked->draft);
    if (asked->draft_most && !drafts)
        return tool_usage(verb, "--draft-max needs --draft ngram, whose drafts it limits");
    if (drafts && tool_prompts_asked(asked))
        return tool_usage(verb, "--draft ngram works with one prompt, but several are given: leave "
                                "it out, or give one prompt");
    return TOOL_OK;
}

int tool_draft_plan(tool_stage *stage, const run_options *asked) {
    if (!tool_draft_asked(asked)) return TOOL_OK;
    const uint32_t ranks = stage->options.comm ? MNEM_FEATURE_RANKS_LAYERS : 0;
    if (mnem_transformer_supports(&stage->transformer, MNEM_FEATURE_DRAFT | ranks) != MNEM_OK)
        return tool_failed("--draft ngram can't be used: %s", mnem_last_error());
    stage->options.draft = asked->draft_most;
    stage->options.draft_wanted = MNEM_DRAFT_MOST;
    return TOOL_OK;
}

mnem_status tool_draft_open(tool_generator *g) {
    const mnem_engine_plan *plan = &g->stage->plan;
    if (g->draft || !tool_draft_asked(g->asked)) return MNEM_OK;
    if (plan->draft > 0) return mnem_draft_create(plan->context, &g->draft);
    if (!g->asked->args.quiet && !g->draft_missed)
        tool_message(
            "note: there are no drafts (--draft ngram), because the budget has no room for "
            "them that doesn't slow the run down: --draft-max N plans for N tokens "
            "nevertheless");
    g->draft_missed = true;
    return MNEM_OK;
}

static int32_t choose_row(void *context, const float *logits) {
    tool_generator *g = context;
    tool_round *r = &g->round;
    const int32_t row = r->row++;
    g->next = tool_constraint_choose(&g->constraint, g->sampler, logits);
    if (row + 1 >= r->n || g->next != r->ids[row + 1]) return g->next;
    r->ended = !tool_generator_take(g, &r->end);
    if (r->ended) return -1;
    r->taken++;
    tool_generator_accept(g, g->count - 1);
    return g->next;
}

/* Up to what is left of the context and the sequence. */
static int32_t draft_room(const tool_generator *g, int32_t most) {
    const int32_t context = g->stage->plan.context;
    const int32_t room = (context < g->room ? context : g->room) - g->count;
    if (most > g->stage->plan.draft) most = g->stage->plan.draft;
    return most < room ? most : room;
}

mnem_status tool_draft_step(tool_generator *g, int32_t most) {
    int32_t accepted = 0;
    g->round = (tool_round){.n = 1, .ids = {g->ids[g->count - 1]}};
    g->round.n += mnem_draft_propose(g->draft, draft_room(g, most), g->round.ids + 1);
    const double begin = tool_clock();
    mnem_status status =
        tool_stage_verify(g->stage, g->round.ids, g->round.n, choose_row, g, &accepted);
    if (g->round.n > 1 && (status == MNEM_OVER_BUDGET || status == MNEM_BAD_FILE)) {
        g->round.n = 1; /* the draft's fault, or that of the token alone */
        status = tool_stage_verify(g->stage, g->round.ids, 1, choose_row, g, &accepted);
    }
    if (status == MNEM_OK)
        mnem_draft_tell(g->draft, g->round.n - 1, accepted, tool_clock() - begin);
    return status;
}

/* ---- what it did ---- */

const char *tool_draft_text(const tool_generator *g, char *text, size_t n) {
    mnem_draft_stats s = {0};
    *text = 0;
    if (!g->draft) return text;
    mnem_draft_stats_get(g->draft, &s);
    snprintf(text, n, "%llu of %llu drafted token%s right, %llu pass%s",
             (unsigned long long)s.accepted, (unsigned long long)s.drafted, tool_s(s.drafted),
             (unsigned long long)s.passes, s.passes == 1 ? "" : "es");
    return text;
}

json_t *tool_draft_json(const tool_generator *g) {
    mnem_draft_stats s = {0};
    if (!g->draft) return json_null();
    mnem_draft_stats_get(g->draft, &s);
    return json_pack("{s:i, s:I, s:I, s:I}", "most", g->stage->plan.draft, "passes",
                     (json_int_t)s.passes, "drafted", (json_int_t)s.drafted, "accepted",
                     (json_int_t)s.accepted);
}
