/* api_limit.c: what an answer is held to: a grammar, a schema, any JSON, or calls of tools.
 *
 * A grammar is one answer's alone. What it may take is lent by a reserve while it is compiled, and
 * what it does take until the answer has ended: so grammars of others can't be in the way of what
 * already runs, and a bomb is refused. */
#include <string.h>

#include "verbs/serve/api/api_private.h"
#include "verbs/serve/api/calls/call_grammar.h"

enum {
    GRAMMAR_BYTES = 4 << 20, /* of one, and of compiling it: twice that at the most */
    STATE_BYTES = 12 << 10,  /* some 200 values inside one another */
    CACHE_BYTES = 32 << 10,
    BESIDE = 256 << 10, /* what state, masks and their cache take */
    LEAST = 384 << 10,  /* to begin with */
    STEPS = 20000000    /* of one call, while others wait for it: 0.2 s */
};

static bool refuse_busy(api_error *error) {
    error->retry_seconds = 1;
    return api_refuse(error, 429, NULL, "others' grammars take the memory that there is for them");
}

/* What a grammar is made of. */
typedef struct rules {
    const char *text;
    size_t n;
    bool schema, calls; /* calls: marks of those may be control tokens */
    const mnem_grammar_part *parts;
    uint32_t part_count;
} rules;

/* lent bytes are there for it. */
static mnem_status compile(api *a, const rules *from, uint64_t lent, mnem_grammar **grammar) {
    const mnem_grammar_options options = {.bytes = (lent - BESIDE) / 2,
                                          .state_bytes = STATE_BYTES,
                                          .cache_bytes = CACHE_BYTES,
                                          .steps = STEPS,
                                          .marks = a->model.mark,
                                          .mark_count = from->calls ? a->model.marks : 0};
    const mnem_token_set *tokens = a->model.tokens;
    return from->schema ? mnem_grammar_create_schema(tokens, from->text, from->n, &options, grammar)
                        : mnem_grammar_create_with(tokens, from->text, from->n, from->parts,
                                                   from->part_count, &options, grammar);
}

/* Bytes of the reserve that a grammar may take while it is made; 0: error says why not. */
static uint64_t borrow(api *a, api_error *error) {
    const uint64_t left = api_reserve_left(&a->grammars), most = 2 * GRAMMAR_BYTES + BESIDE;
    const uint64_t lent = left < most ? left : most;
    if (lent < LEAST && a->jobs && !a->jobs->next)
        api_refuse(error, 400, NULL,
                   "so many answers, each with a grammar, take more than "
                   "there is for grammars: ask for fewer");
    else if (lent < LEAST || !api_reserve_lend(&a->grammars, lent))
        refuse_busy(error);
    return error->status ? 0 : lent;
}

/* Into limit, of what is lent. */
static mnem_status make_of(api *a, const rules *from, uint64_t lent, api_limit *limit) {
    mnem_grammar_info info;
    mnem_status status = compile(a, from, lent, &limit->grammar);
    if (status == MNEM_OK) status = mnem_match_create(limit->grammar, &limit->match);
    if (status == MNEM_OK) {
        mnem_grammar_info_get(limit->grammar, &info);
        limit->bytes = info.bytes + STATE_BYTES;
    } else {
        mnem_grammar_destroy(limit->grammar);
        limit->grammar = NULL;
    }
    return status;
}

/* lent: what there was for it. What is too large is told with that, and with the budget that has
 * the most (verb_serve.c). */
static bool refuse_grammar(const api *a, mnem_status status, uint64_t lent, const char *param,
                           api_error *error) {
    if (status == MNEM_NO_MEMORY) return refuse_busy(error);
    if (status != MNEM_OVER_BUDGET)
        return api_refuse(error, 400, param, "%.400s", mnem_last_error());
    error->code = "over_budget";
    return api_refuse(error, 400, param,
                      "%.300s (for grammars %llu of %llu bytes were free: they have a 64th of "
                      "--memory, up to 8388608 bytes from 512M on)",
                      mnem_last_error(), (unsigned long long)lent,
                      (unsigned long long)a->grammars.bytes);
}

static bool make_with(api *a, const rules *from, const char *param, api_limit *limit,
                      api_error *error) {
    const uint64_t lent = borrow(a, error);
    if (!lent) return false;
    const mnem_status status = make_of(a, from, lent, limit);
    api_reserve_settle(&a->grammars, lent, limit->bytes);
    return status == MNEM_OK || refuse_grammar(a, status, lent, param, error);
}

/* What is asked for of calls, while their grammar is made. */
typedef struct calls_wanted {
    const ask_request *ask;
    bool in_thought;
    uint64_t lent;
    api_text *unsupported;
} calls_wanted;

/* false without an error: *status says why not. */
static bool try_calls(api *a, const calls_wanted *want, call_strictness strictness,
                      api_limit *limit, mnem_status *status, api_error *error) {
    call_keeper keeper = {.memory = &a->memory,
                          .bytes = (want->lent - BESIDE) / 2,
                          .tries = CALL_TRIES,
                          .dropped = want->unsupported};
    call_grammar *g = api_alloc(&a->memory, sizeof *g);
    if (!g) return refuse_busy(error);
    g->memory = &a->memory;
    if (want->unsupported) want->unsupported->length = 0;
    const bool made = call_grammar_make(want->ask, a->model.calls, a->model.thinks,
                                        want->in_thought, strictness, &keeper, g);
    const rules from = {g->text.bytes, g->text.length, false, true, g->part, g->parts};
    if (!made)
        refuse_busy(error);
    else if (strictness == CALL_WHOLE && g->full)
        *status = MNEM_OVER_BUDGET;
    else
        *status = make_of(a, &from, want->lent, limit);
    call_grammar_fini(g);
    api_free(&a->memory, g);
    return made && *status == MNEM_OK;
}

/* Arguments that fit their schemas, as far as these can be held to; where even that is too much,
 * any object. */
static bool make_calls(api *a, const ask_request *ask, bool in_thought, api_text *unsupported,
                       api_limit *limit, api_error *error) {
    const calls_wanted want = {ask, in_thought, borrow(a, error), unsupported};
    mnem_status status = MNEM_OK;
    bool fine = false;
    if (!want.lent) return false;
    for (int strictness = CALL_WHOLE; strictness <= CALL_ANY; strictness++) {
        fine = try_calls(a, &want, (call_strictness)strictness, limit, &status, error);
        if (fine || error->status || status == MNEM_NO_MEMORY) break;
    }
    api_reserve_settle(&a->grammars, want.lent, limit->bytes);
    return fine || refuse_grammar(a, status, want.lent, "tools", error);
}

static bool make_schema(api *a, const ask_request *ask, api_limit *limit, api_error *error) {
    api_text text = {.memory = &a->memory};
    api_json_put(&text, ask->schema);
    const rules from = {text.bytes, text.length, .schema = true};
    const bool fine =
        text.failed ? refuse_busy(error) : make_with(a, &from, "response_format", limit, error);
    api_text_fini(&text);
    return fine;
}

bool api_limit_make(api *a, const ask_request *ask, bool in_thought, api_text *unsupported,
                    api_limit *limit, api_error *error) {
    static const char any_object[] = "{\"type\":\"object\"}";
    const bool calls = ask->tools && ask->tool_choice != ASK_TOOL_NONE;
    if (!calls && ask->limit == ASK_FREE) return true;
    if (calls) return make_calls(a, ask, in_thought, unsupported, limit, error);
    if (ask->limit == ASK_SCHEMA) return make_schema(a, ask, limit, error);
    if (ask->limit == ASK_JSON) {
        const rules from = {any_object, sizeof any_object - 1, .schema = true};
        return make_with(a, &from, "response_format", limit, error);
    }
    const rules from = {.text = ask->grammar, .n = strlen(ask->grammar)};
    return make_with(a, &from, "grammar", limit, error);
}

void api_limit_drop(api *a, api_limit *limit) {
    mnem_match_destroy(limit->match);
    mnem_grammar_destroy(limit->grammar);
    if (limit->bytes) api_reserve_settle(&a->grammars, limit->bytes, 0);
    *limit = (api_limit){0};
}
