/* test_serve_adapters.c: requests that choose adapters: the tokens of each alone, whatever shares
 * its steps, is set aside, swapped or cached; pages are shared between equal choices only. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/adapters/adapter_case.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "serve/serve_bench.h"

enum { ADAPTERS = 2, CHOICES = 4 };

static const float choices[CHOICES][ADAPTERS] = {{0, 0}, {1, 0}, {0, 1}, {0.5F, -0.5F}};
static const char *const llama = "--arch llama --heads 4 --kv-heads 2 --type Q8_0 --context 512";

typedef struct adapted {
    serve_bench b;
    mnem_adapter adapters[ADAPTERS];
} adapted;

static void open_files(adapted *a, const char *model) {
    static const char *const names[ADAPTERS] = {"serve-a.gguf", "serve-b.gguf"};
    serve_model = kit_path("serve.gguf");
    make_model(serve_model, model);
    for (int i = 0; i < ADAPTERS; i++) {
        mnem_model *file;
        const char *path = kit_path(names[i]);
        adapter_make(
            serve_model, path,
            &(adapter_recipe){.rank = 8, .type = i ? MNEM_TYPE_F16 : MNEM_TYPE_F32, .seed = 3 + i});
        must(mnem_model_open(path, &file));
        a->adapters[i] = (mnem_adapter){file, 0};
    }
}

static void close_files(adapted *a) {
    for (int i = 0; i < ADAPTERS; i++)
        mnem_model_close((mnem_model *)(uintptr_t)a->adapters[i].model);
}

static void open_scheduler(adapted *a, int32_t sequences, int32_t pages, int32_t adapters,
                           mnem_scheduler_options options) {
    engine_case_open(&a->b.c, serve_model, 0,
                     &(mnem_engine_options){.context = SERVE_CONTEXT,
                                            .kv = MNEM_KV_F16,
                                            .sequences = sequences,
                                            .pages_tokens = pages,
                                            .snapshots = 4,
                                            .snapshot_tokens = 64,
                                            .threads = 1,
                                            .chunk = 64,
                                            .adapters = a->adapters,
                                            .adapter_count = adapters});
    options.engine = a->b.c.engine;
    must(mnem_scheduler_create(&options, &a->b.scheduler));
    memset(a->b.ask, 0, sizeof a->b.ask);
}

static serve_ask *ask(adapted *a, int i, int choice, int32_t text, int32_t n, int32_t tokens) {
    serve_ask *made = serve_request(&a->b, i, text, n, tokens);
    made->request.adapter_scales = choices[choice];
    must(serve_submit(&a->b, made));
    return made;
}

/* What each says alone. */
static void check_all(adapted *a, int count, const char *what) {
    engine_case alone;
    engine_case_open(&alone, serve_model, 0,
                     &(mnem_engine_options){.context = SERVE_CONTEXT,
                                            .kv = MNEM_KV_F16,
                                            .adapters = a->adapters,
                                            .adapter_count = ADAPTERS});
    for (int i = 0; i < count; i++) {
        serve_ask_alone(&a->b.ask[i], alone.engine, alone.vocab);
        serve_ask_check(&a->b.ask[i], what);
    }
    engine_case_close(&alone);
}

/* ---- tests ---- */

static void equal_choices_share_pages_and_others_do_not(void **state) {
    adapted *a = *state;
    open_files(a, llama);
    open_scheduler(a, 6, 0, ADAPTERS, (mnem_scheduler_options){0});
    for (int i = 0; i < 2 * CHOICES; i++) {
        ask(a, i, i % CHOICES, 1, 120, 20);
        serve_run(a->b.scheduler, 1000);
        assert_int_equal(a->b.ask[i].result.cached_tokens, i < CHOICES ? 0 : 119);
    }
    serve_ask *given = serve_request(&a->b, 2 * CHOICES, 1, 120, 20); /* as the options say */
    must(serve_submit(&a->b, given));
    serve_run(a->b.scheduler, 1000);
    assert_int_equal(given->result.cached_tokens, 119);
    serve_close(&a->b);
    check_all(a, 2 * CHOICES + 1, "shared");
    for (int i = 1; i < CHOICES; i++) /* the choices say different things */
        assert_memory_not_equal(a->b.ask[i].got, a->b.ask[0].got, 20 * sizeof a->b.ask[0].got[0]);
    close_files(a);
}

/* Requests that grow until pages run short; half of them have the same prompt. */
static void run_crowd(adapted *a, const char *model, const char *swap) {
    open_files(a, model);
    open_scheduler(
        a, 6, 2 * SERVE_CONTEXT, ADAPTERS,
        (mnem_scheduler_options){.reserve = 1, .swap = swap, .swap_bytes_per_s = swap ? 1e12 : 0});
    for (int i = 0; i < 9; i++) ask(a, i, i % CHOICES, i / 5, 60, 150);
    serve_run(a->b.scheduler, 10000);
    const mnem_scheduler_stats stats = serve_stats(&a->b);
    assert_true(stats.preemptions > 0);
    if (swap) assert_true(stats.swapped_out > 0);
    serve_close(&a->b);
    check_all(a, 9, model);
    close_files(a);
}

static void who_is_set_aside_goes_on_with_its_adapters(void **state) {
    run_crowd(*state, llama, NULL);
    run_crowd(*state, llama, ".");
    run_crowd(*state, "--arch lfm2 --heads 4 --kv-heads 2 --layers 3 --context 512", ".");
    run_crowd(*state, "--arch gemma3 --heads 4 --kv-heads 2 --layers 3 --context 512", ".");
}

static void a_saved_cache_keeps_the_choices(void **state) {
    adapted *a = *state;
    FILE *file = tmpfile();
    open_files(a, llama);
    open_scheduler(a, 6, 0, ADAPTERS, (mnem_scheduler_options){0});
    for (int i = 0; i < 3; i++) ask(a, i, i, 1, 120, 20);
    serve_run(a->b.scheduler, 1000);
    must(mnem_scheduler_cache_save(a->b.scheduler, fileno(file)));
    serve_close(&a->b);
    open_scheduler(a, 6, 0, ADAPTERS, (mnem_scheduler_options){0});
    must(mnem_scheduler_cache_load(a->b.scheduler, fileno(file)));
    for (int i = 0; i < CHOICES; i++) {
        ask(a, i, i, 1, 120, 20);
        serve_run(a->b.scheduler, 1000);
        assert_int_equal(a->b.ask[i].result.cached_tokens, i < 3 ? 119 : 0);
    }
    serve_close(&a->b);
    check_all(a, CHOICES, "from a file");
    open_scheduler(a, 6, 0, 1, (mnem_scheduler_options){0});
    assert_int_equal(mnem_scheduler_cache_load(a->b.scheduler, fileno(file)), MNEM_INVALID);
    assert_string_equal(mnem_last_error(),
                        "serve: the prefix cache was saved with 2 adapters, but this server has 1; "
                        "use the same ones, or delete the file");
    serve_close(&a->b);
    fclose(file);
    close_files(a);
}

/* Conversations are found, and restored, whichever adapters they have. */
static void a_conversation_keeps_its_choice(void **state) {
    adapted *a = *state;
    FILE *file = tmpfile();
    int32_t ids[SERVE_CONTEXT], saved, n;
    open_files(a, llama);
    open_scheduler(a, 6, 0, ADAPTERS, (mnem_scheduler_options){0});
    ask(a, 0, 1, 1, 120, 20);
    serve_run(a->b.scheduler, 1000);
    const int32_t *prompt = a->b.ask[0].request.prompt;
    must(mnem_scheduler_prefix_save(a->b.scheduler, 0, prompt, 120, fileno(file), &saved));
    must(mnem_scheduler_prefix_drop(a->b.scheduler, 0, prompt, 120, &n));
    assert_int_equal(n, saved);
    must(mnem_scheduler_prefix_load(a->b.scheduler, 0, fileno(file), ids, SERVE_CONTEXT, &n));
    assert_int_equal(n, saved);
    for (int i = 0; i < 2; i++) {
        ask(a, i, 1 - i, 1, 120, 20);
        serve_run(a->b.scheduler, 1000);
        assert_int_equal(a->b.ask[i].result.cached_tokens, i ? 0 : 119);
    }
    must(mnem_scheduler_prefix_load(a->b.scheduler, 5, fileno(file), ids, SERVE_CONTEXT, &n));
    must(mnem_scheduler_prefix_drop(a->b.scheduler, 5, ids, n, &n)); /* another key's tree */
    serve_close(&a->b);
    check_all(a, 2, "restored");
    fclose(file);
    close_files(a);
}

static void a_scale_that_is_no_number_is_refused(void **state) {
    adapted *a = *state;
    const float wrong[ADAPTERS] = {0, INFINITY};
    open_files(a, llama);
    open_scheduler(a, 2, 0, ADAPTERS, (mnem_scheduler_options){0});
    serve_ask *made = serve_request(&a->b, 0, 1, 20, 5);
    made->request.adapter_scales = wrong;
    assert_int_equal(serve_submit(&a->b, made), MNEM_INVALID);
    assert_string_equal(mnem_last_error(),
                        "adapters: the scale of adapter 1 is inf, expected a finite number");
    serve_close(&a->b);
    close_files(a);
}

int main(void) {
    static adapted a;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(equal_choices_share_pages_and_others_do_not, &a),
        cmocka_unit_test_prestate(who_is_set_aside_goes_on_with_its_adapters, &a),
        cmocka_unit_test_prestate(a_saved_cache_keeps_the_choices, &a),
        cmocka_unit_test_prestate(a_conversation_keeps_its_choice, &a),
        cmocka_unit_test_prestate(a_scale_that_is_no_number_is_refused, &a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
