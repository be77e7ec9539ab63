/* api_limit.c: what an answer is held to: a grammar, a schema, any JSON, or calls of tools.
 *
 * A grammar is one answer's alone. What it may take is lent by reserves while it is compiled, and
 * what it does take until the answer has ended: so grammars of others can't be in the way of what
 * already runs, and a bomb is refused. Nothing is rendered meanwhile, so the renderings' part is
 * there for the compiling, too:
 *
 *     while it is compiled   [ grammars' part ............ | renderings' part ............ ]
 *     until the answer ends  [ grammar ]
 *
 * One that doesn't fit is compiled once more as with larger parts, in memory that nobody has taken,
 * which says what it needs. A text is tried of one that fits: where many cases of it begin alike it
 * gets larger states, as far as there is room, or it is refused before a prompt is computed. */
#include <stdio.h>
#include <string.h>

#include "server/api/api_private.h"
#include "server/api/calls/call_grammar.h"

enum {
    COMPILE_MOST = 8 << 20, /* of one */
    STATE_BYTES = 12 << 10, /* some 200 values inside one another */
    STATE_MORE = 4,         /* times as many, where a text that is tried needs them */
    STATE_MOST = 192 << 10,
    STATE_TIMES = 13, /* a state, and what matching takes: 12 times as much */
    TRIED = 16,       /* tokens */
    CACHE_BYTES = 32 << 10,
    BESIDE = 256 << 10, /* what state, masks and their cache take */
    LEAST = 384 << 10,  /* to begin with */
    STEPS = 20000000,   /* of one call, while others wait for it: 0.2 s */
    TEXT = 400
};

/* What is lent for one grammar. */
typedef struct loan {
    uint64_t grammars, renderings;
} loan;

static bool refuse_busy(api_error *error) {
    error->retry_seconds = 1;
    return api_refuse(
        error, 429, NULL,
        "other requests use all of the memory that this server has for grammars: try again later");
}

/* What a grammar is made of. */
typedef struct rules {
    const api_model *model;
    const char *text;
    size_t n;
    bool schema, calls; /* calls: marks of those may be control tokens */
    const mnem_grammar_part *parts;
    uint32_t part_count;
} rules;

/* The bound of compiling where so many bytes are lent: the schema's tree comes on top of it. */
static uint64_t compile_bytes(loan lent) {
    const uint64_t bytes = (lent.grammars + lent.renderings - BESIDE) / 4 * 3;
    return bytes < COMPILE_MOST ? bytes : COMPILE_MOST;
}

static mnem_status compile(const rules *from, loan lent, uint64_t state_bytes,
                           mnem_grammar **grammar) {
    const mnem_grammar_options options = {.bytes = compile_bytes(lent),
                                          .state_bytes = state_bytes,
                                          .cache_bytes = CACHE_BYTES,
                                          .steps = STEPS,
                                          .marks = from->model->mark,
                                          .mark_count = from->calls ? from->model->marks : 0};
    const mnem_token_set *tokens = from->model->tokens;
    return from->schema ? mnem_grammar_create_schema(tokens, from->text, from->n, &options, grammar)
                        : mnem_grammar_create_with(tokens, from->text, from->n, from->parts,
                                                   from->part_count, &options, grammar);
}

static uint64_t kept_bytes(const mnem_grammar *grammar, uint64_t state_bytes) {
    mnem_grammar_info info;
    mnem_grammar_info_get(grammar, &info);
    return info.bytes + state_bytes;
}

/* *lent: what a grammar may take while it is made; false: error says why not. */
static bool borrow(api *a, loan *lent, api_error *error) {
    pthread_mutex_lock(&a->lending); /* until give_back */
    const uint64_t left = api_reserve_left(&a->templates), part = a->options.template_bytes;
    *lent = (loan){api_reserve_left(&a->grammars), left < part ? left : part};
    if (lent->grammars >= LEAST) {
        api_reserve_lend(&a->grammars, lent->grammars);
        api_reserve_lend(&a->templates, lent->renderings);
        return true;
    }
    pthread_mutex_unlock(&a->lending);
    if (a->jobs && !a->jobs->next)
        return api_refuse(error, 400, NULL,
                          "the server has too little memory for one grammar per answer: ask for "
                          "fewer answers ('n')");
    return refuse_busy(error);
}

static void give_back(api *a, loan lent, const api_limit *limit) {
    api_reserve_settle(&a->grammars, lent.grammars, limit->bytes);
    api_reserve_settle(&a->templates, lent.renderings, 0);
    pthread_mutex_unlock(&a->lending);
}

/* ---- a text that is tried ---- */

/* The first token that may come, from a word of the mask on; below 0: none may. */
static int32_t token_from(const uint64_t *bits, uint32_t words, uint32_t from) {
    for (uint32_t i = 0; i < words; i++) {
        const uint32_t word = (from + i) % words;
        if (bits[word]) return (int32_t)(word * 64) + __builtin_ctzll(bits[word]);
    }
    return -1;
}

static bool is_blank(const api_model *m, int32_t id) {
    const mnem_text piece = mnem_tokenizer_piece(m->tokenizer, id, false);
    size_t n = 0;
    while (n < piece.length && strchr(" \t\n\r", piece.bytes[n])) n++;
    return n == piece.length;
}

/* Some token that may come, drawn; one of blanks, which lead nowhere, where no other is found. */
static int32_t draw_token(const api_model *m, const uint64_t *bits, uint32_t *draw) {
    enum { DRAWS = 8 };
    const uint32_t words = ((uint32_t)m->info.vocab + 63) / 64;
    int32_t id = -1;
    for (int i = 0; i < DRAWS && (id < 0 || is_blank(m, id)); i++) {
        *draw = *draw * 1664525 + 1013904223;
        id = token_from(bits, words, (*draw >> 8) % words);
    }
    return id;
}

/* Some text, the same each time. A token that ends it changes nothing. */
static mnem_status try_text(const api_model *m, mnem_match *match) {
    mnem_status status = MNEM_OK;
    uint32_t draw = 1;
    for (int i = 0; i < TRIED && status == MNEM_OK && !mnem_match_is_done(match); i++) {
        const uint64_t *bits;
        status = mnem_match_mask(match, &bits);
        const int32_t id = status == MNEM_OK ? draw_token(m, bits, &draw) : -1;
        if (id < 0) break;
        status = mnem_match_accept(match, id);
    }
    mnem_match_reset(match);
    return status;
}

/* What a grammar needs that was refused. */
typedef struct wanted {
    uint64_t part;  /* of a server that takes it; 0: not known, or none does */
    bool now, none; /* this server, once others' grammars are gone; no server */
} wanted;

/* How a grammar was refused. */
typedef struct refused {
    bool crowded;  /* by a text that was tried: that needs larger states */
    uint64_t part; /* of a server that has the largest of them; 0: it isn't enough */
    char why[TEXT];
} refused;

static mnem_status make_once(const rules *from, loan lent, uint64_t state_bytes, api_limit *limit,
                             refused *r) {
    mnem_status status = compile(from, lent, state_bytes, &limit->grammar);
    const uint64_t kept = status == MNEM_OK ? kept_bytes(limit->grammar, state_bytes) : 0;
    *r = (refused){.part = kept + STATE_TIMES * (STATE_MOST - state_bytes)};
    if (kept > lent.grammars) {
        snprintf(r->why, TEXT,
                 "grammar: it needs more memory than its limit while the answer is generated");
        status = MNEM_OVER_BUDGET;
    } else if (status == MNEM_OK) {
        limit->bytes = kept;
        status = mnem_match_create(limit->grammar, &limit->match);
        if (status == MNEM_OK) status = try_text(from->model, limit->match);
        r->crowded = status == MNEM_OVER_BUDGET;
    }
    if (r->crowded)
        snprintf(r->why, TEXT,
                 "grammar: too many of its alternatives begin alike, or it is nested too deeply");
    else if (status != MNEM_OK && !*r->why)
        snprintf(r->why, TEXT, "%s", mnem_last_error());
    return status;
}

/* Into limit, of what is lent. */
static mnem_status make_of(const rules *from, loan lent, api_limit *limit, refused *r) {
    for (uint64_t state_bytes = STATE_BYTES;; state_bytes *= STATE_MORE) {
        const mnem_status status = make_once(from, lent, state_bytes, limit, r);
        if (status == MNEM_OK) return status;
        const uint64_t next = limit->bytes + STATE_TIMES * (STATE_MORE - 1) * state_bytes;
        mnem_match_destroy(limit->match);
        mnem_grammar_destroy(limit->grammar);
        *limit = (api_limit){0};
        if (state_bytes == STATE_MOST) r->part = 0;
        if (!r->crowded || state_bytes == STATE_MOST || next > lent.grammars) return status;
    }
}

/* ---- the budget that would do ---- */

/* The least parts, none of them taken, with which a server takes it; 0: not those of `most`. */
static uint64_t least_part(const rules *from, uint64_t most) {
    mnem_grammar_info info;
    mnem_grammar *grammar;
    if (compile(from, (loan){most, most}, STATE_BYTES, &grammar) != MNEM_OK) return 0;
    mnem_grammar_info_get(grammar, &info);
    const uint64_t kept = kept_bytes(grammar, STATE_BYTES),
                   compiled = (info.bytes_needed + 2) / 3 * 4 + BESIDE;
    mnem_grammar_destroy(grammar);
    const uint64_t part = (compiled + 1) / 2 > kept ? (compiled + 1) / 2 : kept;
    return part <= most ? part : 0;
}

/* The largest parts for which there is memory to try them: half of what nobody has taken, and what
 * is lent already. */
static uint64_t largest_part(const api *a, loan lent) {
    mnem_ledger_info info;
    mnem_ledger_info_get(a->options.ledger, &info);
    const uint64_t budget = info.budget_bytes ? info.budget_bytes : UINT64_MAX;
    const uint64_t live = info.bytes_live, rest = budget > live ? (budget - live) / 2 : 0;
    const uint64_t own = (lent.grammars + lent.renderings) / 2;
    const uint64_t part = rest / 2 > API_PART_MOST ? API_PART_MOST : own + rest / 2;
    return part < API_PART_MOST ? part : API_PART_MOST;
}

static wanted find_part(api *a, const rules *from, loan lent, const refused *r) {
    if (r->crowded)
        return (wanted){.part = r->part <= API_PART_MOST ? r->part : 0,
                        .now = r->part && r->part <= a->grammars.bytes,
                        .none = !r->part || r->part > API_PART_MOST};
    const uint64_t own = a->grammars.bytes, largest = largest_part(a, lent);
    const bool shared = lent.grammars < own || lent.renderings < a->options.template_bytes;
    const uint64_t most = largest > own ? largest : own;
    const bool more = most > own || shared; /* than it was compiled with */
    const uint64_t part = more ? least_part(from, most) : 0;
    if (part > own) return (wanted){.part = part};
    if (part) return (wanted){.now = true};
    return (wanted){.none = most >= API_PART_MOST};
}

static void say_wanted(const api *a, wanted w, const char *why, const char *param,
                       api_error *error) {
    char size[24];
    const unsigned long long have = a->grammars.bytes, most = API_PART_MOST;
    error->code = "over_budget";
    if (w.part) {
        error->needed_bytes = w.part;
        error->budget_bytes = a->grammars.bytes;
        error->least_bytes = w.part * API_PARTS;
        mnem_size_budget(error->least_bytes, size, sizeof size);
        api_refuse(error, 400, param,
                   "%s: the grammar needs %llu bytes, but this server reserves %llu for grammars: "
                   "start with --memory %s",
                   why, (unsigned long long)w.part, have, size);
    } else if (w.none) {
        api_refuse(error, 400, param,
                   "%s: the grammar needs more than %llu bytes, the most that a server reserves "
                   "for grammars, whatever its --memory: simplify the schema or grammar",
                   why, most);
    } else {
        api_refuse(error, 400, param,
                   "%s: the grammar needs more than the %llu bytes reserved for grammars: start "
                   "the server with a larger --memory (1/64 of it is reserved for grammars, up to "
                   "%llu bytes at 512M)",
                   why, have, most);
    }
}

static bool refuse_rules(api *a, mnem_status status, const rules *from, loan lent, const refused *r,
                         const char *param, api_error *error) {
    if (status == MNEM_NO_MEMORY) return refuse_busy(error);
    if (status != MNEM_OVER_BUDGET) return api_refuse(error, 400, param, "%s", r->why);
    const wanted w = find_part(a, from, lent, r);
    if (w.now) return refuse_busy(error);
    say_wanted(a, w, r->why, param, error);
    return false;
}

static bool make_with(api *a, const rules *from, const char *param, api_limit *limit,
                      api_error *error) {
    loan lent;
    if (!borrow(a, &lent, error)) return false;
    refused r;
    const mnem_status status = make_of(from, lent, limit, &r);
    const bool fine = status == MNEM_OK || refuse_rules(a, status, from, lent, &r, param, error);
    give_back(a, lent, limit);
    return fine;
}

/* ---- calls ---- */

/* What is asked for of calls, while their grammar is made. */
typedef struct calls_wanted {
    const api_model *model;
    const ask_request *ask;
    bool in_thought;
    loan lent;
    api_text *unsupported;
    const char *param; /* which field is refused, and why */
    bool named;        /* why says whose schema it is about */
    char why[TEXT];
    char first[TEXT]; /* the first reason that named a tool */
} calls_wanted;

/* Whose schema is refused: a tool's, or what the answer has to be beside calls. */
static void name_refused(calls_wanted *want, const call_grammar *g) {
    char said[TEXT];
    const char *rest;
    const char *label = call_grammar_label(g, want->why, &rest);
    want->param = "tools";
    want->named = label != NULL;
    if (!label) return;
    if (!*label) want->param = want->ask->limit_field;
    snprintf(said, sizeof said, "%s%s%s", label, *label ? ": " : "", rest);
    memcpy(want->why, said, sizeof said);
    if (*label && !*want->first) memcpy(want->first, said, sizeof said);
}

static mnem_status too_many(calls_wanted *want) {
    snprintf(want->why, sizeof want->why, "tools of more than %d schemas", MNEM_GRAMMAR_PARTS_MAX);
    return MNEM_OVER_BUDGET;
}

/* false without an error: *status says why not. */
static bool try_calls(api *a, calls_wanted *want, call_strictness strictness, api_limit *limit,
                      mnem_status *status, api_error *error) {
    call_keeper keeper = {.memory = &a->memory,
                          .bytes = compile_bytes(want->lent),
                          .tries = CALL_TRIES,
                          .dropped = want->unsupported};
    call_grammar *g = api_alloc(&a->memory, sizeof *g);
    if (!g) return refuse_busy(error);
    g->memory = &a->memory;
    if (want->unsupported) want->unsupported->length = 0;
    refused r = {0};
    const bool made = call_grammar_make(want->ask, want->model->calls, want->model->thinks,
                                        want->in_thought, strictness, &keeper, g);
    const rules from = {want->model, g->text.bytes, g->text.length, false, true, g->part, g->parts};
    if (!made)
        refuse_busy(error);
    else if (strictness == CALL_WHOLE && g->full)
        *status = too_many(want);
    else
        *status = make_of(&from, want->lent, limit, &r);
    if (made && *r.why) memcpy(want->why, r.why, sizeof want->why);
    if (made) name_refused(want, g);
    call_grammar_fini(g);
    api_free(&a->memory, g);
    return made && *status == MNEM_OK;
}

/* Arguments that fit their schemas, as far as these can be held to; where even that is too much,
 * any object. */
static bool make_calls(api *a, const api_model *m, const ask_request *ask, bool in_thought,
                       api_text *unsupported, api_limit *limit, api_error *error) {
    calls_wanted want = {.model = m,
                         .ask = ask,
                         .in_thought = in_thought,
                         .unsupported = unsupported,
                         .param = "tools"};
    mnem_status status = MNEM_OK;
    bool fine = false;
    if (!borrow(a, &want.lent, error)) return false;
    for (int strictness = CALL_WHOLE; strictness <= CALL_ANY; strictness++) {
        fine = try_calls(a, &want, (call_strictness)strictness, limit, &status, error);
        if (fine || error->status || status == MNEM_NO_MEMORY) break;
    }
    if (!want.named && *want.first) memcpy(want.why, want.first, sizeof want.why);
    if (fine || error->status) {
        /* nothing is refused here */
    } else if (status == MNEM_NO_MEMORY)
        refuse_busy(error);
    else if (status == MNEM_OVER_BUDGET)
        say_wanted(a, (wanted){0}, want.why, want.param, error);
    else
        api_refuse(error, 400, want.param, "%s", want.why);
    give_back(a, want.lent, limit);
    return fine;
}

static bool make_schema(api *a, const api_model *m, const ask_request *ask, api_limit *limit,
                        api_error *error) {
    api_text text = {.memory = &a->memory};
    api_json_put(&text, ask->schema);
    const rules from = {m, text.bytes, text.length, .schema = true};
    const bool fine =
        text.failed ? refuse_busy(error) : make_with(a, &from, ask->limit_field, limit, error);
    api_text_fini(&text);
    return fine;
}

bool api_limit_make(api *a, const api_model *m, const ask_request *ask, bool in_thought,
                    api_text *unsupported, api_limit *limit, api_error *error) {
    static const char any_object[] = "{\"type\":\"object\"}";
    const bool calls = ask->tools && ask->tool_choice != ASK_TOOL_NONE;
    if (!calls && ask->limit == ASK_FREE) return true;
    if (calls) return make_calls(a, m, ask, in_thought, unsupported, limit, error);
    if (ask->limit == ASK_SCHEMA) return make_schema(a, m, ask, limit, error);
    if (ask->limit == ASK_JSON) {
        const rules from = {m, any_object, sizeof any_object - 1, .schema = true};
        return make_with(a, &from, ask->limit_field, limit, error);
    }
    const rules from = {.model = m, .text = ask->grammar, .n = strlen(ask->grammar)};
    return make_with(a, &from, "grammar", limit, error);
}

void api_limit_drop(api *a, api_limit *limit) {
    if (!limit->bytes) return;
    pthread_mutex_lock(&a->lending);
    mnem_match_destroy(limit->match);
    mnem_grammar_destroy(limit->grammar);
    api_reserve_settle(&a->grammars, limit->bytes, 0);
    pthread_mutex_unlock(&a->lending);
    *limit = (api_limit){0};
}
