/* example_generate.c: text from a model inside a budget, through the public interface alone.
 *
 *     example_generate model.gguf 64M "In the beginning God created" 32
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mnem/mnem.h"

static void check(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "example_generate: %s\n", mnem_last_error());
    exit(status == MNEM_OVER_BUDGET ? 3 : 1);
}

typedef struct writer {
    mnem_sampler *sampler;
    int32_t next;
} writer;

static bool choose(void *context, int32_t index, const float *logits) {
    writer *w = context;
    (void)index;
    w->next = mnem_sampler_choose(w->sampler, logits);
    return true;
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "example_generate MODEL BUDGET PROMPT TOKENS\n"), 2;
    uint64_t budget;
    check(mnem_size_parse(argv[2], &budget));

    // What doesn't fit is refused before a weight is read; the whole process counts.
    mnem_opened o;
    check(mnem_open(argv[1], budget, &(mnem_engine_options){.context = 256}, &o));

    writer w = {0};
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(o.tokenizer, &info);
    const mnem_sampler_options greedy = {.top_p = 1, .repeat_penalty = 1};
    check(mnem_sampler_create(&greedy, info.vocab, &w.sampler));

    const int32_t *ids;
    size_t count;
    check(mnem_tokenizer_encode(o.tokenizer, argv[3], strlen(argv[3]), 0, &ids, &count));
    check(mnem_session_eval(o.session, ids, (int32_t)count, (int32_t)count - 1, choose, &w));
    for (int i = 0; i < atoi(argv[4]) && !mnem_tokenizer_is_end(o.tokenizer, w.next); i++) {
        const mnem_text piece = mnem_tokenizer_piece(o.tokenizer, w.next, false);
        fwrite(piece.bytes, 1, piece.length, stdout);
        check(mnem_session_eval(o.session, &w.next, 1, 0, choose, &w));
    }
    putchar('\n');

    mnem_ledger_info account;
    mnem_ledger_info_get(o.ledger, &account);
    fprintf(stderr, "peak %llu of %llu bytes\n", (unsigned long long)account.bytes_peak,
            (unsigned long long)budget);
    mnem_sampler_destroy(w.sampler);
    mnem_close(&o);
    return 0;
}
