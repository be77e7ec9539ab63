/* train_sample.c: prints a sample of the model's text, escaped so that a terminal can't take it as
 * commands.
 *
 *     sample: "In the beginning"
 *          -> "God created the heaven and"
 *
 * Invariant: what is printed are whole UTF-8 characters between quotes; quotes, control characters,
 * C1 ones and bytes that are no UTF-8 are escaped as C writes them. Of long text only the end of
 * what is continued and the beginning of what follows are shown. */
#include <string.h>

#include "verbs/train/train_tool.h"

enum { SAMPLE_TOKENS = 24, SAMPLE_PROMPT = 16, SHOWN_PROMPT = 60, SHOWN_TEXT = 66 };

/* ---- text on a terminal ---- */

static size_t escape(FILE *file, unsigned char c) {
    char text[8];
    switch (c) {
    case '\n': snprintf(text, sizeof text, "\\n"); break;
    case '\t': snprintf(text, sizeof text, "\\t"); break;
    case '\r': snprintf(text, sizeof text, "\\r"); break;
    case '"': snprintf(text, sizeof text, "\\\""); break;
    default: snprintf(text, sizeof text, "\\x%02x", c);
    }
    if (file) fputs(text, file);
    return strlen(text);
}

/* The columns it takes; file NULL: only asked. */
static size_t print_text(FILE *file, const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    size_t columns = 0;
    for (size_t i = 0, length; i < n; i += length) {
        const size_t found = tool_utf8_length(s + i, n - i);
        const bool whole = found > 0 && found <= n - i;
        const bool c1 = found == 2 && s[i] == 0xc2 && s[i + 1] < 0xa0;
        length = whole ? found : 1;
        if (whole && !c1 && s[i] >= 32 && s[i] != 127 && s[i] != '"')
            columns += file ? fwrite(s + i, length, 1, file) : 1;
        else
            for (size_t k = 0; k < length; k++) columns += escape(file, s[i + k]);
    }
    return columns;
}

/* Whole characters at the border. */
static bool is_inside(char c) {
    return ((unsigned char)c & 0xc0u) == 0x80;
}

typedef char sample_text[(TRAIN_CHAT_SAMPLE + SAMPLE_TOKENS) * 16];

/* Characters may be spread over tokens, so all of them are one text; its bytes. Of conversations
 * the control tokens are a part of it: they show how the template was applied. */
static size_t join(const train_run *run, const int32_t *ids, int32_t n, sample_text text) {
    size_t used = 0;
    for (int32_t i = 0; i < n; i++) {
        const mnem_text piece = mnem_tokenizer_piece(run->tokenizer, ids[i], train_is_chat(run));
        if (piece.length > sizeof(sample_text) - used) break;
        memcpy(text + used, piece.bytes, piece.length);
        used += piece.length;
    }
    return used;
}

/* At most `most` columns of its end or its beginning. */
static void print_quoted(const train_run *run, const int32_t *ids, int32_t n, size_t most,
                         bool end) {
    sample_text text;
    size_t from = 0, used = join(run, ids, n, text);
    const size_t all = used;
    while (print_text(NULL, text + from, used - from) > most)
        if (end)
            for (from++; from < used && is_inside(text[from]);) from++;
        else
            for (used--; used > 0 && is_inside(text[used]);) used--;
    fputs(from ? "\"..." : "\"", stderr);
    print_text(stderr, text + from, used - from);
    fputs(used < all ? "...\"" : "\"", stderr);
}

/* ---- samples ---- */

/* The first tokens of a sample: of --sample, or of the held-out text (else of all text). */
static mnem_status sample_prompt(train_run *run, int32_t *ids, int32_t *n) {
    const int32_t most = run->config.context < SAMPLE_PROMPT ? 1 : SAMPLE_PROMPT;
    *n = most;
    const uint64_t begin = run->validation.count ? run->validation.begin : 0;
    if (train_is_chat(run)) {
        *n = run->chat_sample_count;
        memcpy(ids, run->chat_sample, (size_t)*n * sizeof *ids);
        return MNEM_OK;
    }
    if (!run->asked->sample) return mnem_corpus_read(run->corpus, begin, (uint64_t)most, ids);
    const int32_t *encoded;
    size_t count;
    const mnem_status status =
        mnem_tokenizer_encode(run->tokenizer, run->asked->sample, strlen(run->asked->sample),
                              MNEM_ENCODE_NO_SPECIAL, &encoded, &count);
    if (status != MNEM_OK) return status;
    *n = count < (size_t)most ? (int32_t)count : most;
    memcpy(ids, encoded, (size_t)*n * sizeof *ids);
    return MNEM_OK;
}

/* Each token of a sample is a pass over all tokens before it: the training graph has no KV cache.
 * A pass also packs all weights, and decodes quantized ones first, which takes as long as so many
 * tokens. Measured: 67 ms of 187 for 64 tokens, 134 M weights in Q4_1, one thread. */
enum { PACKING_TOKENS = 36 };

uint64_t train_sample_tokens(const train_run *run) {
    const int32_t context = run->config.context;
    int32_t n = train_is_chat(run)        ? run->chat_sample_count
                : context < SAMPLE_PROMPT ? 1
                                          : SAMPLE_PROMPT;
    int64_t tokens = 0;
    const int32_t end = n + SAMPLE_TOKENS < context ? n + SAMPLE_TOKENS : context;
    for (; n > 0 && n < end; n++) tokens += n + PACKING_TOKENS;
    return (uint64_t)tokens;
}

/* More wouldn't be shown. */
static bool is_enough(const train_run *run, const int32_t *ids, int32_t n) {
    sample_text text;
    return print_text(NULL, text, join(run, ids, n, text)) > SHOWN_TEXT;
}

bool train_sample_wanted(const train_run *run) {
    return !run->args->quiet && !(run->asked->sample && !*run->asked->sample);
}

/* An answer ends where the model says so. A new seed of the sampler isn't needed: it goes on. */
mnem_status train_sample(train_run *run) {
    int32_t ids[TRAIN_CHAT_SAMPLE + SAMPLE_TOKENS], n;
    const bool chat = train_is_chat(run);
    if (!train_sample_wanted(run)) return MNEM_OK;
    mnem_status status = sample_prompt(run, ids, &n);
    const int32_t prompt = n;
    int32_t end = n + SAMPLE_TOKENS;
    if (end > run->config.context) end = run->config.context;
    train_slow slow;
    train_slow_begin(run, &slow, "sample");
    for (; n > 0 && n < end && status == MNEM_OK; n++) {
        if (is_enough(run, ids + prompt, n - prompt)) break;
        train_slow_step(&slow, (uint64_t)(n - prompt), (uint64_t)(end - prompt),
                        run->finished ? "tokens, Ctrl-C skips it" : "tokens");
        status = mnem_trainer_logits(run->trainer, ids, n, run->logits);
        if (status == MNEM_OK) ids[n] = mnem_sampler_choose(run->sampler, run->logits);
        if (status == MNEM_OK && chat && mnem_tokenizer_is_end(run->tokenizer, ids[n])) break;
    }
    train_slow_end(&slow);
    if (status != MNEM_OK) return status;
    fputs("sample: ", stderr);
    print_quoted(run, ids, prompt, SHOWN_PROMPT, true);
    fputs("\n     -> ", stderr);
    print_quoted(run, ids + prompt, n - prompt, SHOWN_TEXT, false);
    fputc('\n', stderr);
    return MNEM_OK;
}
