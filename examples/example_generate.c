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
    (void)index;
    writer *w = context;
    w->next = mnem_sampler_choose(w->sampler, logits);
    return true;
}

/* Evaluates the prompt, then one token after another until the model ends or n are out. */
static void generate(mnem_session *session, mnem_tokenizer *tokenizer, writer *w,
                     const char *prompt, int n) {
    const int32_t *ids;
    size_t count;
    check(mnem_tokenizer_encode(tokenizer, prompt, strlen(prompt), 0, &ids, &count));
    check(mnem_session_eval(session, ids, (int32_t)count, (int32_t)count - 1, choose, w));
    for (int i = 0; i < n && !mnem_tokenizer_is_end(tokenizer, w->next); i++) {
        mnem_text piece = mnem_tokenizer_piece(tokenizer, w->next, false);
        fwrite(piece.bytes, 1, piece.length, stdout);
        check(mnem_session_eval(session, &w->next, 1, 0, choose, w));
    }
    putchar('\n');
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "example_generate MODEL BUDGET PROMPT TOKENS\n"), 2;
    uint64_t budget;
    check(mnem_size_parse(argv[2], &budget));

    // The whole process counts: what is resident before anything is opened is charged first.
    mnem_ledger *ledger;
    check(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger));
    mnem_process_settle();
    mnem_process_usage usage;
    check(mnem_process_usage_get(&usage));
    check(mnem_ledger_charge(ledger, MNEM_KIND_RUNTIME, "process", usage.bytes_resident));
    check(mnem_ledger_watch_heap(ledger));

    mnem_model *model;
    check(mnem_model_open(argv[1], &model));
    mnem_tokenizer *tokenizer;
    check(mnem_tokenizer_create(model, &tokenizer));
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(tokenizer, &info);
    writer w = {0};
    mnem_sampler_options sampling = mnem_sampler_defaults();
    sampling.temperature = 0; // always the likeliest token
    check(mnem_sampler_create(&sampling, info.vocab, &w.sampler));

    // The plan refuses what doesn't fit before a weight is read; create takes what it says.
    mnem_session_options options = {.ledger = ledger, .context = 256};
    mnem_session_plan plan;
    check(mnem_session_plan_make(model, &options, &plan));
    mnem_session *session;
    check(mnem_session_create(model, &options, &plan, &session));
    generate(session, tokenizer, &w, argv[3], atoi(argv[4]));

    mnem_ledger_info account;
    mnem_ledger_info_get(ledger, &account);
    fprintf(stderr, "peak %llu of %llu bytes\n", (unsigned long long)account.bytes_peak,
            (unsigned long long)budget);
    mnem_session_destroy(session);
    mnem_sampler_destroy(w.sampler);
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(model);
    mnem_ledger_release(ledger, MNEM_KIND_RUNTIME, "process", usage.bytes_resident);
    check(mnem_ledger_destroy(ledger)); // says which bytes are left, if any
    return 0;
}
