/* grammar.c: a grammar's life: written, linked, and given what it needs to be walked.
 *
 * What is taken while compiling is given back before the rest is taken. */
#include <string.h>

#include "base/heap.h"
#include "sampling/grammar/draft/grammar_raw.h"
#include "sampling/grammar/grammar_private.h"

enum {
    BYTES_DEFAULT = 16 << 20,
    BYTES_MOST = 1 << 30, /* numbers of nodes have 31 bits */
    STATE_DEFAULT = 32 << 10,
    STATE_LEAST = 1 << 10,
    STATE_MOST = 64 << 20,
    CACHE_DEFAULT = 256 << 10,
    STEPS_DEFAULT = 100000000
};

/* What a grammar is made of. */
typedef struct source {
    mnem_text text;
    bool schema;
    const mnem_grammar_part *parts; /* schemas that a text of GBNF uses */
    uint32_t part_count;
} source;

static mnem_status set_options(mnem_grammar *g, const mnem_grammar_options *options) {
    mnem_grammar_options *o = &g->options;
    if (options) *o = *options;
    if (!o->bytes) o->bytes = BYTES_DEFAULT;
    if (!o->state_bytes) o->state_bytes = STATE_DEFAULT;
    if (!o->cache_bytes) o->cache_bytes = CACHE_DEFAULT;
    if (!o->steps) o->steps = STEPS_DEFAULT;
    if (o->bytes > BYTES_MOST) o->bytes = BYTES_MOST;
    if (o->state_bytes >= STATE_LEAST && o->state_bytes <= STATE_MOST) return MNEM_OK;
    return mnem__fail(MNEM_INVALID, "grammar: state_bytes is %llu, expected %d to %d",
                      (unsigned long long)o->state_bytes, STATE_LEAST, STATE_MOST);
}

static mnem_status write_gbnf(const source *from, mnem__draft *draft, uint32_t *root) {
    static const char *const name = "root";
    mnem__gbnf_given given[MNEM_GRAMMAR_PARTS_MAX + 1] = {{0}};
    if (from->part_count > MNEM_GRAMMAR_PARTS_MAX)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "grammar: the grammar has %u schemas, expected at most %d",
                          from->part_count, MNEM_GRAMMAR_PARTS_MAX);
    for (uint32_t i = 0; i < from->part_count; i++) {
        const mnem_grammar_part *part = &from->parts[i];
        const uint32_t found = draft->way ? draft->way->found : 0;
        given[i].name = part->name;
        mnem_status status =
            mnem__schema_write((mnem_text){part->json, part->length}, true, draft, &given[i].rule);
        if (status == MNEM_OK && part->raw_end)
            status = mnem__raw_write(draft, given[i].rule, part->raw_end, &given[i].rule);
        if (status != MNEM_OK) return mnem__fail_in(status, "%s", part->name);
        if (draft->way && draft->way->found > found) draft->way->part = part->name;
    }
    return mnem__gbnf_write(from->text, draft, given, &name, 1, root);
}

static mnem_status write_source(const source *from, mnem__draft *draft, uint32_t *root) {
    return from->schema ? mnem__schema_write(from->text, false, draft, root)
                        : write_gbnf(from, draft, root);
}

/* Why there is no text: the same is written again to find the schema that no value fits. */
static mnem_status explain(const mnem_grammar *g, const source *from, mnem__draft_way *way) {
    mnem__draft draft = {.bytes_max = g->options.bytes, .way = way};
    uint32_t root;
    way->found = 0;
    way->part = NULL;
    const mnem_status status = write_source(from, &draft, &root);
    mnem__draft_fini(&draft);
    if (status != MNEM_OK) return status;
    if (!way->found)
        return mnem__fail(MNEM_BAD_FILE,
                          "grammar: no finite text fits: the rules refer to each other without "
                          "end; add an alternative that refers to no rule");
    mnem__fail(MNEM_BAD_FILE,
               "schema: %s: no value fits these rules, so no document fits the schema; relax them",
               way->place);
    return way->part ? mnem__fail_in(MNEM_BAD_FILE, "%s", way->part) : MNEM_BAD_FILE;
}

static mnem_status compile(mnem_grammar *g, const source *from) {
    mnem__draft draft = {.bytes_max = g->options.bytes};
    mnem__draft_way way;
    uint32_t root = 0;
    mnem_status status = write_source(from, &draft, &root);
    bool linked = false;
    if (status == MNEM_OK) {
        status = mnem__program_link(&draft, root, &g->program, &way);
        linked = true;
    }
    mnem__draft_fini(&draft);
    g->bytes_needed = draft.bytes_needed;
    if (linked && status == MNEM_OVER_BUDGET)
        mnem__fail(status,
                   "grammar: compiling the grammar needs more memory than the limit of %llu bytes",
                   (unsigned long long)g->options.bytes);
    return linked && status == MNEM_BAD_FILE ? explain(g, from, &way) : status;
}

static mnem_status take_masks(mnem_grammar *g) {
    if (!g->tokens) return MNEM_OK;
    g->mask_words = g->tokens->mask_words;
    g->walk = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *g->walk);
    if (!g->walk) return mnem__heap_status();
    g->mask = mnem__calloc(MNEM__GRAMMAR_TAG, g->mask_words, sizeof *g->mask);
    if (!g->mask) return mnem__heap_status();
    g->slot_bytes = (sizeof(mnem__cached_mask) + 7) / 8 * 8 + g->mask_words * sizeof *g->mask;
    g->slots = g->options.cache_bytes / g->slot_bytes;
    if (g->slots) g->cache = mnem__grammar_zeros(g->slots, g->slot_bytes);
    return g->cache || !g->slots ? MNEM_OK : mnem__heap_status();
}

static mnem_status create(const mnem_token_set *tokens, const source *from,
                          const mnem_grammar_options *options, mnem_grammar **grammar) {
    *grammar = NULL;
    mnem_grammar *g = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *g);
    if (!g) return mnem__heap_status();
    g->tokens = tokens;
    mnem_status status = set_options(g, options);
    if (status == MNEM_OK) status = compile(g, from);
    if (status == MNEM_OK)
        status = mnem__grammar_work_init(&g->work, &g->program, g->options.state_bytes,
                                         g->options.steps);
    if (status == MNEM_OK) status = take_masks(g);
    if (status == MNEM_OK) {
        *grammar = g;
        return MNEM_OK;
    }
    mnem_grammar_destroy(g);
    return status;
}

mnem_status mnem_grammar_create(const mnem_token_set *tokens, const char *text, size_t length,
                                const mnem_grammar_options *options, mnem_grammar **grammar) {
    return mnem_grammar_create_with(tokens, text, length, NULL, 0, options, grammar);
}

mnem_status mnem_grammar_create_with(const mnem_token_set *tokens, const char *text, size_t length,
                                     const mnem_grammar_part *parts, uint32_t count,
                                     const mnem_grammar_options *options, mnem_grammar **grammar) {
    const source from = {{text, length}, false, parts, count};
    return create(tokens, &from, options, grammar);
}

mnem_status mnem_grammar_create_schema(const mnem_token_set *tokens, const char *json,
                                       size_t length, const mnem_grammar_options *options,
                                       mnem_grammar **grammar) {
    const source from = {.text = {json, length}, .schema = true};
    return create(tokens, &from, options, grammar);
}

void mnem_grammar_destroy(mnem_grammar *g) {
    if (!g) return;
    mnem__grammar_work_fini(&g->work);
    mnem__program_fini(&g->program);
    mnem__free(g->walk);
    mnem__free(g->mask);
    mnem__free(g->cache);
    mnem__free(g);
}

void mnem_grammar_info_get(const mnem_grammar *g, mnem_grammar_info *info) {
    *info = (mnem_grammar_info){
        .rules = g->program.rules,
        .states = g->program.nodes,
        .bytes = sizeof *g + mnem__program_bytes_used(&g->program) +
                 mnem__grammar_work_bytes(g->options.state_bytes, g->program.rules) +
                 (g->walk ? sizeof *g->walk : 0) + g->mask_words * sizeof *g->mask +
                 g->slots * g->slot_bytes,
        .bytes_needed = g->bytes_needed,
        .masks = g->masks,
        .masks_cached = g->masks_cached};
}
