/* example_train.c: trains a small transformer on the bytes of a file, inside a budget, and writes
 * it as GGUF.
 *
 *     example_train text.txt 64M 100 model.gguf
 *
 * Tokens are bytes: such a model needs no tokenizer, so `mnem info` shows it, and nothing chats
 * with it. `mnem train` learns a vocabulary, validates, and keeps checkpoints.
 */
#include <stdio.h>
#include <stdlib.h>

#include "mnem/mnem.h"

enum { SEQUENCE = 64, BATCH = 8 };

static const mnem_transformer shape = {.architecture = "llama",
                                       .layers = 2,
                                       .embd = 64,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .head_dim = 16,
                                       .ff = 192,
                                       .vocab = 256,
                                       .context = SEQUENCE,
                                       .epsilon = 1e-5f,
                                       .rope = {.dims = 16, .base = 10000}};

/* A step's sequences, from anywhere in the text. */
typedef struct text {
    const unsigned char *bytes;
    long count;
    int32_t sequences, ids[BATCH * SEQUENCE], targets[BATCH * SEQUENCE];
} text;

static mnem_status next(void *context, mnem_train_batch *batch) {
    text *t = context;
    for (int s = 0; s < t->sequences; s++) {
        const unsigned char *from = t->bytes + rand() % (t->count - SEQUENCE);
        for (int i = 0; i < SEQUENCE; i++) {
            t->ids[s * SEQUENCE + i] = from[i];
            t->targets[s * SEQUENCE + i] = from[i + 1];
        }
    }
    *batch = (mnem_train_batch){t->ids, t->targets, t->sequences};
    return MNEM_OK;
}

static mnem_status train(mnem_trainer *trainer, const mnem_train_source *source, int steps) {
    mnem_train_report report;
    mnem_trainer_init(trainer, 1);
    for (int i = 0; i < steps; i++) {
        const mnem_status status = mnem_trainer_step(trainer, source, &report);
        if (status != MNEM_OK) return status;
        if (i == 0 || i == steps - 1) printf("step %d: loss %.3f\n", i + 1, report.loss);
    }
    return MNEM_OK;
}

static mnem_status save(mnem_trainer *trainer, const char *path) {
    mnem_gguf_writer *writer;
    mnem_status status = mnem_gguf_create(path, &writer);
    if (status != MNEM_OK) return status;
    status = mnem_trainer_write(trainer, MNEM_TYPE_F16, writer);
    if (status == MNEM_OK) return mnem_gguf_finish(writer); // the file appears when it is whole
    mnem_gguf_abort(writer);
    return status;
}

int main(int argc, char **argv) {
    static unsigned char bytes[1 << 20];
    static text t = {.bytes = bytes};
    uint64_t budget;
    FILE *file = argc == 5 ? fopen(argv[1], "rb") : NULL;
    if (!file || mnem_size_parse(argv[2], &budget) != MNEM_OK)
        return fprintf(stderr, "example_train TEXT BUDGET STEPS MODEL\n"), 2;
    t.count = (long)fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    if (t.count <= SEQUENCE) return fprintf(stderr, "example_train: too little text\n"), 2;

    mnem_ledger *ledger = NULL;
    mnem_trainer *trainer = NULL;
    mnem_train_plan plan;
    const int steps = atoi(argv[3]);
    mnem_status status = mnem_ledger_create_process(
        &(mnem_ledger_options){.budget_bytes = budget, .own_process = true}, &ledger);
    const mnem_train_options options = {.ledger = ledger,
                                        .shape = shape,
                                        .batch = BATCH,
                                        .schedule = {.rate_peak = 3e-3, .total_steps = 1000},
                                        .norm_max = 1};
    if (status == MNEM_OK) status = mnem_train_plan_make(&options, &plan); // refuses here, or never
    if (status == MNEM_OK) {
        t.sequences = plan.micro_batch;
        printf("%d x %d sequences, %llu bytes\n", plan.micro_batch, plan.accumulation,
               (unsigned long long)plan.peak_bytes);
        status = mnem_trainer_create(&options, &plan, &trainer);
    }
    if (status == MNEM_OK) status = train(trainer, &(mnem_train_source){next, &t}, steps);
    if (status == MNEM_OK) status = save(trainer, argv[4]);
    if (status != MNEM_OK) fprintf(stderr, "example_train: %s\n", mnem_last_error());
    mnem_trainer_destroy(trainer);
    mnem_ledger_destroy(ledger);
    return status == MNEM_OK ? 0 : 1;
}
