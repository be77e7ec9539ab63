/* api_infill.c: a hole between two texts as tokens: fill-in-the-middle (Bavarian et al., 2022), and
 * with the files of a repository in front (Qwen2.5-Coder, Hui et al., 2024), as llama.cpp has it:
 *
 *     [REP]myproject\n [SEP]FILE\n text ... [SEP]filename\n [PRE]prefix[SUF]suffix[MID]
 *
 * Texts are texts: spellings of these tokens in them are none. What doesn't fit in the context goes
 * where that is allowed: first the files, then the far ends of the prefix (of which 3/4 stay) and
 * the suffix. */
#include <string.h>

#include "server/api/api_model.h"

/* ---- the tokens of a vocabulary ---- */

enum { NAMES = 8 };
static const struct {
    size_t member;
    const char *key[2], *name[NAMES];
} marks[] = {
    {offsetof(api_fim, pre),
     {"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"},
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uff5cfim\u2581begin\uff5c>", "<PRE>",
      "\u2581<PRE>", "<|code_prefix|>", "<|prefix|>"}},
    {offsetof(api_fim, suf),
     {"tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"},
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uff5cfim\u2581hole\uff5c>", "<SUF>",
      "\u2581<SUF>", "<|code_suffix|>", "<|suffix|>"}},
    {offsetof(api_fim, mid),
     {"tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"},
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uff5cfim\u2581end\uff5c>", "<MID>",
      "\u2581<MID>", "<|code_middle|>", "<|middle|>"}},
    {offsetof(api_fim, pad),
     {"tokenizer.ggml.fim_pad_token_id"},
     {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>"}},
    {offsetof(api_fim, rep),
     {"tokenizer.ggml.fim_rep_token_id"},
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {offsetof(api_fim, sep), {"tokenizer.ggml.fim_sep_token_id"}, {"<|file_sep|>"}},
};

static int32_t token_of_key(const api_model *m, const char *key) {
    mnem_value value;
    if (!key || !mnem_model_key_find(m->model, key, &value) || value.type != MNEM_VALUE_U32)
        return -1;
    return value.u < (uint64_t)m->info.vocab ? (int32_t)value.u : -1;
}

static int32_t token_of_name(const api_model *m, const char *name) {
    const int32_t *ids;
    size_t count;
    if (!name || mnem_tokenizer_encode(m->tokenizer, name, strlen(name), MNEM_ENCODE_NO_SPECIAL,
                                       &ids, &count) != MNEM_OK)
        return -1;
    return count == 1 ? *ids : -1;
}

void api_fim_find(api_model *m) {
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        int32_t id = -1;
        for (int k = 0; k < 2 && id < 0; k++) id = token_of_key(m, marks[i].key[k]);
        for (int k = 0; k < NAMES && id < 0; k++) id = token_of_name(m, marks[i].name[k]);
        memcpy((char *)&m->fim + marks[i].member, &id, sizeof id);
    }
}

bool api_fim_is(const api_fim *fim) {
    return fim->pre >= 0 && fim->suf >= 0 && fim->mid >= 0;
}

int api_fim_ends(const api_fim *fim, int32_t ends[3]) {
    const int32_t all[] = {fim->pad, fim->rep, fim->sep};
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (all[i] >= 0) ends[n++] = all[i];
    return n;
}

/* ---- a hole ---- */

/* Tokens that grow; failed: no memory, and error says so. */
typedef struct tokens {
    api_model *m;
    api_memory *memory;
    api_error *error;
    int32_t *id;
    size_t n;
} tokens;

static bool add_ids(tokens *t, const int32_t *ids, size_t n) {
    int32_t *more = api_alloc(t->memory, (t->n + n + 1) * sizeof *more);
    if (!more) return api_refuse_busy(t->error);
    if (t->n) memcpy(more, t->id, t->n * sizeof *more);
    if (n) memcpy(more + t->n, ids, n * sizeof *more);
    api_free(t->memory, t->id);
    t->id = more;
    t->n += n;
    return true;
}

static bool add_text(tokens *t, const char *text, size_t n, unsigned flags) {
    const int32_t *ids;
    size_t count;
    return api_model_encode(t->m, text, n, flags | MNEM_ENCODE_NO_SPECIAL, &ids, &count,
                            t->error) &&
           add_ids(t, ids, count);
}

static bool add_json(tokens *t, const json_t *text) {
    return add_text(t, json_string_value(text), json_string_length(text), MNEM_ENCODE_PLAIN);
}

static bool add_file(tokens *t, const char *name) {
    return add_ids(t, &t->m->fim.sep, 1) && add_text(t, name, strlen(name), MNEM_ENCODE_PLAIN) &&
           add_text(t, "\n", 1, MNEM_ENCODE_PLAIN);
}

static bool add_chunk(tokens *t, const json_t *chunk) {
    static const char snippet[] = "\n\n--- snippet ---\n\n";
    const json_t *name = api_get(chunk, "filename");
    if (t->m->fim.sep < 0) {
        if (!add_text(t, snippet, sizeof snippet - 1, MNEM_ENCODE_PLAIN)) return false;
    } else if (!add_file(t, name ? json_string_value(name) : "tmp"))
        return false;
    return add_json(t, api_get(chunk, "text"));
}

static bool add_files(tokens *t, const ask_request *ask) {
    static const char project[] = "myproject\n";
    const json_t *chunk;
    size_t i;
    if (ask->form != ASK_INFILL) return true;
    if (t->m->fim.rep >= 0 && !(add_ids(t, &t->m->fim.rep, 1) &&
                                add_text(t, project, sizeof project - 1, MNEM_ENCODE_PLAIN)))
        return false;
    json_array_foreach(ask->extra, i, chunk) {
        if (!add_chunk(t, chunk)) return false;
    }
    return t->m->fim.sep < 0 || add_file(t, "filename");
}

/* How many of each stay: the last ones of files and prefix, the first of suffix. */
static bool fit(size_t room, size_t others, size_t *files, size_t *prefix, size_t *suffix) {
    if (others > room) return false;
    size_t left = room - others;
    if (*prefix + *suffix <= left) {
        left -= *prefix + *suffix;
        if (*files > left) *files = left;
        return true;
    }
    const size_t quarter = left / 4, beside = *prefix < left ? left - *prefix : 0;
    const size_t most = beside > quarter ? beside : quarter;
    *files = 0;
    if (*suffix > most) *suffix = most;
    if (*prefix > left - *suffix) *prefix = left - *suffix;
    return true;
}

static bool join(tokens *all, const tokens *files, const tokens *prefix, const tokens *suffix,
                 const tokens *middle, const size_t stay[3]) {
    const api_model *m = all->m;
    return (!m->info.add_bos || m->info.bos < 0 || add_ids(all, &m->info.bos, 1)) &&
           add_ids(all, files->id + (files->n - stay[0]), stay[0]) &&
           add_ids(all, &m->fim.pre, 1) &&
           add_ids(all, prefix->id + (prefix->n - stay[1]), stay[1]) &&
           add_ids(all, middle->id, middle->n) && add_ids(all, &m->fim.suf, 1) &&
           add_ids(all, suffix->id, stay[2]) && add_ids(all, &m->fim.mid, 1);
}

bool api_fim_make(api_model *m, const ask_request *ask, size_t room, api_prompts *p,
                  api_error *error) {
    enum { FILES, PREFIX, SUFFIX, MIDDLE, ALL, PARTS };
    tokens t[PARTS];
    const char *middle = ask->middle ? ask->middle : "";
    for (int i = 0; i < PARTS; i++) t[i] = (tokens){.m = m, .memory = p->memory, .error = error};
    bool fine = add_files(&t[FILES], ask) && add_json(&t[PREFIX], ask->prefix) &&
                add_json(&t[SUFFIX], ask->suffix) &&
                add_text(&t[MIDDLE], middle, strlen(middle), 0);
    size_t stay[] = {t[FILES].n, t[PREFIX].n, t[SUFFIX].n};
    const size_t others = t[MIDDLE].n + 3 + (m->info.add_bos && m->info.bos >= 0);
    const size_t whole = stay[0] + stay[1] + stay[2] + others;
    const bool may_cut = ask->truncate || ask->form == ASK_INFILL;
    if (fine && whole > room && !(may_cut && fit(room, others, &stay[0], &stay[1], &stay[2])))
        fine =
            api_refuse_long(m, whole, ask->form == ASK_INFILL ? "input_prefix" : "prompt", error);
    fine = fine && join(&t[ALL], &t[FILES], &t[PREFIX], &t[SUFFIX], &t[MIDDLE], stay) &&
           api_prompts_add(p, t[ALL].id, t[ALL].n, error);
    for (int i = 0; i < PARTS; i++) api_free(p->memory, t[i].id);
    return fine;
}
