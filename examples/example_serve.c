/* example_serve.c: a model served inside a budget, for clients of OpenAI's API, until SIGINT.
 *
 *     example_serve model.gguf 256M 8080
 */
#define _POSIX_C_SOURCE 200809L // sigaction
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "mnem/mnem.h"
#include "mnem/server.h"

static mnem_server *server;

static void check(mnem_status status) {
    if (status == MNEM_OK) return;
    fprintf(stderr, "example_serve: %s\n", mnem_last_error());
    exit(status == MNEM_OVER_BUDGET ? 3 : 1);
}

static void stop(int number) {
    (void)number;
    mnem_server_stop(server, true); // what is being answered is finished
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "example_serve MODEL BUDGET PORT\n"), 2;
    mnem_ledger_options limit = {.preparing = true, .own_process = true};
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    mnem_transformer shape;
    check(mnem_size_parse(argv[2], &limit.budget_bytes));
    check(mnem_ledger_create_process(&limit, &ledger));
    check(mnem_model_open(argv[1], &model));
    check(mnem_model_transformer(model, &shape));
    check(mnem_tokenizer_create(model, &tokenizer));

    // Before the plan: what connections and requests take, and the scheduler.
    mnem_server_options serving = {.ledger = ledger, .model = model, .tokenizer = tokenizer};
    serving.port = atoi(argv[3]);
    serving.connections = 16;
    serving.request_bytes = 1 << 20;
    check(mnem_server_create(&serving, &server));
    const int32_t end = mnem_server_end_token(server), context = 256, sequences = 4;
    mnem_scheduler_options running = {.tokenizer = tokenizer, .ends = &end, .end_count = end >= 0};
    const uint64_t books = mnem_scheduler_bytes(&running, sequences, context, shape.vocab);
    check(mnem_ledger_charge(ledger, MNEM_KIND_HOST, "scheduler", books));

    mnem_engine_options o = {.ledger = ledger, .context = context, .sequences = sequences};
    mnem_engine_plan plan;
    mnem_scheduler *scheduler;
    check(mnem_engine_plan_make(model, &o, &plan));
    check(mnem_engine_create(model, &o, &plan, &running.engine));
    mnem_ledger_release(ledger, MNEM_KIND_HOST, "scheduler", books);
    check(mnem_scheduler_create(&running, &scheduler));

    sigaction(SIGINT, &(struct sigaction){.sa_handler = stop}, NULL);
    printf("%s\n", mnem_server_address(server));
    fflush(stdout);
    check(mnem_server_run(server, scheduler, plan.context));

    mnem_scheduler_destroy(scheduler);
    mnem_engine_destroy(running.engine);
    mnem_server_destroy(server);
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(model);
    check(mnem_ledger_destroy(ledger));
    return 0;
}
