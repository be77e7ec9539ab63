/* bench_grammar.c: what a grammar costs while a model generates.
 *
 *     bench_grammar MODEL GRAMMAR [TOKENS [PROMPT]]    a schema where the file's name ends in .json
 *
 * One thread, whose own time is counted, so that other work on the machine doesn't: the steps, the
 * sampler alone on the same logits, the choice by the grammar, and each mask that it made. A text
 * that ends begins again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mnem/mnem.h"

static void check(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "bench_grammar: %s\n", mnem_last_error());
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char *read_whole(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    char *text = malloc(1 << 20);
    if (!file || !text) {
        fprintf(stderr, "bench_grammar: can't read %s\n", path);
        exit(1);
    }
    *n = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

typedef struct bench {
    mnem_opened o;
    mnem_token_set *set;
    mnem_grammar *grammar;
    mnem_match *match;
    mnem_sampler *sampler, *alone;
    int32_t next, texts, refused;
    double choosing, sampling, masking, mask_worst;
} bench;

static void restart(bench *b) {
    mnem_match_reset(b->match);
    b->texts++;
}

static bool on_logits(void *context, int32_t index, const float *logits) {
    bench *b = context;
    mnem_grammar_info before, after;
    (void)index;
    if (mnem_match_is_done(b->match)) restart(b);
    double start = now();
    mnem_sampler_choose(b->alone, logits);
    b->sampling += now() - start;
    mnem_grammar_info_get(b->grammar, &before);
    start = now();
    check(mnem_match_choose(b->match, b->sampler, logits, &b->next));
    const bool end = b->next < 0 || mnem_tokenizer_is_end(b->o.tokenizer, b->next);
    if (!end) check(mnem_match_accept(b->match, b->next));
    const double seconds = now() - start;
    b->choosing += seconds;
    mnem_grammar_info_get(b->grammar, &after);
    b->refused += after.masks > before.masks;
    if (after.masks - after.masks_cached > before.masks - before.masks_cached) {
        b->masking += seconds;
        if (seconds > b->mask_worst) b->mask_worst = seconds;
    }
    if (!end) return true;
    restart(b);
    b->next = 0;
    return true;
}

static void open_all(bench *b, char **argv, int32_t tokens) {
    size_t n;
    mnem_tokenizer_info info;
    const mnem_engine_options options = {.context = tokens + 256, .threads = 1};
    const mnem_sampler_options usual = mnem_sampler_usual();
    char *text = read_whole(argv[2], &n);
    const char *ending = strrchr(argv[2], '.');
    check(mnem_open(argv[1], 0, &options, &b->o));
    mnem_tokenizer_info_get(b->o.tokenizer, &info);
    const double start = now();
    check(mnem_token_set_create(b->o.tokenizer, -1, &b->set));
    const double sorted = now();
    check(ending && strcmp(ending, ".json") == 0
              ? mnem_grammar_create_schema(b->set, text, n, NULL, &b->grammar)
              : mnem_grammar_create(b->set, text, n, NULL, &b->grammar));
    check(mnem_match_create(b->grammar, &b->match));
    printf("%d tokens in order %.1f ms, compiled %.2f ms\n", info.vocab, (sorted - start) * 1e3,
           (now() - sorted) * 1e3);
    check(mnem_sampler_create(&usual, info.vocab, &b->sampler));
    check(mnem_sampler_create(&usual, info.vocab, &b->alone));
    free(text);
}

int main(int argc, char **argv) {
    static bench b;
    const int32_t *ids;
    size_t n;
    mnem_grammar_info info;
    if (argc < 3) {
        fprintf(stderr, "bench_grammar MODEL GRAMMAR [TOKENS [PROMPT]]\n");
        return 2;
    }
    const int32_t tokens = argc > 3 ? atoi(argv[3]) : 200;
    const char *prompt = argc > 4 ? argv[4] : "A person as JSON, with name, age and friends:\n";
    open_all(&b, argv, tokens);
    check(mnem_tokenizer_encode(b.o.tokenizer, prompt, strlen(prompt), 0, &ids, &n));
    check(mnem_session_eval(b.o.session, ids, (int32_t)n, (int32_t)n - 1, on_logits, &b));
    b = (bench){.o = b.o,
                .set = b.set,
                .grammar = b.grammar,
                .match = b.match,
                .sampler = b.sampler,
                .alone = b.alone,
                .next = b.next};
    const double start = now();
    for (int32_t i = 0; i < tokens; i++)
        check(mnem_session_eval(b.o.session, &b.next, 1, 0, on_logits, &b));
    const double all = now() - start, grammar = b.choosing - b.sampling;
    const double plain = all - b.choosing;
    mnem_grammar_info_get(b.grammar, &info);
    printf(
        "%d tokens, %d texts: a step with its sampler %.3f ms, the grammar %.3f ms more: %.2f %%\n"
        "refused %d (%.1f %%), masks %llu of which %llu cached, worst choice with a mask %.2f ms\n",
        tokens, b.texts, plain / tokens * 1e3, grammar / tokens * 1e3, 100 * grammar / plain,
        b.refused, 100.0 * b.refused / tokens, (unsigned long long)info.masks,
        (unsigned long long)info.masks_cached, b.mask_worst * 1e3);
    mnem_match_destroy(b.match);
    mnem_grammar_destroy(b.grammar);
    mnem_token_set_destroy(b.set);
    mnem_sampler_destroy(b.sampler);
    mnem_sampler_destroy(b.alone);
    mnem_close(&b.o);
    return 0;
}
