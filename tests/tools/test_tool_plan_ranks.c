/* test_tool_plan_ranks.c: `mnem plan --ranks`: what each of several ranks would hold, layers or
 * rows, and which of the two is chosen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_model.h"
#include "tools/tool_run.h"

static json_t *json_of(const tool_result *r) {
    if (r->code != 0) fail_msg("exit code %d: %s", r->code, r->err);
    json_t *value = json_loads(r->out, 0, NULL);
    assert_non_null(value);
    return value;
}

static int64_t number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

/* ---- what each holds ---- */

static void ranks_on_paper_share_the_layers_inside_their_budgets(void **state) {
    (void)state;
    if (!MNEM_RELEASE) return; /* sanitizers take more than such budgets */
    tool_result r = RUN("plan", tool_model, "--ranks", "3", "--memory", "60M,50M", "--cut",
                        "layers", "--link", "1Gbit/s,0.1ms", "--json");
    json_t *plan = json_of(&r), *rank;
    int64_t next = 0;
    size_t i;
    json_array_foreach(json_object_get(plan, "ranks"), i, rank) {
        assert_int_equal(number(rank, "layer_begin"), next);
        next += number(rank, "layers");
        assert_int_equal(number(rank, "layers"), 2);
        assert_int_equal(number(rank, "budget_bytes"), (i ? 50 : 60) << 20);
        assert_true(number(rank, "peak_bytes") < number(rank, "budget_bytes"));
        assert_true(number(rank, "rank_bytes") > 0);
    }
    assert_int_equal(i, 3);
    assert_int_equal(next, 6);
    assert_true(json_is_true(json_object_get(plan, "cut_by_speed")));
    assert_true(json_real_value(json_object_get(plan, "link_bytes_per_s")) == 125e6);
    assert_true(json_real_value(json_object_get(plan, "link_seconds")) == 1e-4);
    json_decref(plan);
    r = RUN("plan", tool_model, "--ranks", "2", "--memory", "60M", "--cut", "layers");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "layers in a row over 2 ranks"));
    assert_non_null(strstr(r.out, "an estimate"));
}

/* 4 groups of 2 heads over 3 ranks, and over 8: one head each, with a copy of its group's keys. */
static void ranks_on_paper_share_the_rows(void **state) {
    (void)state;
    if (!MNEM_RELEASE) return;
    for (int n = 3; n <= 8; n += 5) {
        char count[8];
        snprintf(count, sizeof count, "%d", n);
        const tool_result r = RUN("plan", tool_model, "--ranks", count, "--memory", "60M", "--cut",
                                  "rows", "--ctx", "256", "--json");
        json_t *plan = json_of(&r), *rank;
        int64_t next = 0;
        size_t i;
        assert_string_equal(text_of(plan, "cut"), "rows");
        json_array_foreach(json_object_get(plan, "ranks"), i, rank) {
            const int64_t groups = number(rank, "kv_heads");
            assert_int_equal(number(rank, "head_begin"), next);
            next += number(rank, "heads");
            assert_int_equal(number(rank, "heads"), n == 8 ? 1 : 2 * groups);
            assert_int_equal(number(rank, "layers"), 6);
            /* keys and values of 6 layers, 256 tokens, 32 numbers of 2 bytes a head */
            assert_int_equal(number(rank, "kv_bytes"), 2 * 6 * 256 * 32 * 2 * groups);
            assert_true(number(rank, "token_bytes_sent") > 0);
            assert_true(number(rank, "weight_bytes") < (3 << 20));
        }
        assert_int_equal(i, n);
        assert_int_equal(next, 8);
        json_decref(plan);
    }
    const tool_result r =
        RUN("plan", tool_model, "--ranks", "9", "--memory", "60M", "--cut", "rows");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "can be split among at most 8"));
}

/* Every expert is one rank's. */
static void ranks_on_paper_share_experts(void **state) {
    (void)state;
    if (!MNEM_RELEASE) return;
    make_model(at("moe.gguf"), "--arch qwen2moe --heads 6 --kv-heads 3 --head-dim 32 --embd 96 "
                               "--type Q4_0 --experts 14 --experts-used 3 --ff 96 --ff-expert 64 "
                               "--ff-shared 96 --layers 5");
    const tool_result r = RUN("plan", at("moe.gguf"), "--ranks", "3", "--memory", "60M", "--cut",
                              "rows", "--ctx", "64", "--json");
    json_t *plan = json_of(&r), *rank;
    int64_t next = 0;
    size_t i;
    json_array_foreach(json_object_get(plan, "ranks"), i, rank) {
        assert_int_equal(number(rank, "expert_begin"), next);
        next += number(rank, "experts");
    }
    assert_int_equal(next, 14);
    json_decref(plan);
    const tool_result table = RUN("plan", at("moe.gguf"), "--ranks", "3", "--memory", "60M",
                                  "--cut", "rows", "--ctx", "64");
    assert_non_null(strstr(table.out, "   experts "));
    assert_non_null(strstr(table.out, "to 13 "));
}

/* ---- which cut ---- */

/* cut NULL: the plan's choice, whose text is looked at. */
static double predicted(const char *cut, const char *link) {
    const tool_result r = RUN("plan", tool_model, "--ranks", "2", "--memory", "60M", "--link", link,
                              "--json", cut ? "--cut" : NULL, cut);
    json_t *plan = json_of(&r);
    const double rate = json_number_value(json_object_get(plan, "predicted_tokens_per_s"));
    if (!cut) {
        const char *chosen = text_of(plan, "cut"), *choice = text_of(plan, "choice");
        assert_string_not_equal(chosen, text_of(json_object_get(plan, "other"), "cut"));
        assert_int_equal(strncmp(choice, chosen, strlen(chosen)), 0);
        assert_int_equal(strstr(choice, "say --cut rows") != NULL, *chosen == 'r');
        assert_non_null(strstr(choice, "generation ("));
    }
    json_decref(plan);
    return rate;
}

/* Where both can be, the faster one is chosen: rows on a quick link, layers on a slow one. */
static void without_a_cut_the_faster_one_is_chosen(void **state) {
    (void)state;
    static const char *const links[] = {"100Gbit/s,1us", "10Gbit/s,10ms"};
    if (!MNEM_RELEASE) return;
    RUN("help"); /* the profile's folder is known then */
    mkdir(at("mnem"), 0777);
    FILE *file = fopen(at("mnem/profile.json"), "wb");
    assert_non_null(file);
    fputs("{\"read_bytes_per_s\": 2e8, \"disk_bytes_per_s\": 1e9, \"macs_per_s\": 4e9}", file);
    fclose(file);
    for (int i = 0; i < 2; i++) {
        const double best = predicted(NULL, links[i]);
        const double layers = predicted("layers", links[i]), rows = predicted("rows", links[i]);
        assert_true(layers > 0 && (i ? layers > rows : rows > layers));
        assert_true(best == (i ? layers : rows));
    }
    remove(at("mnem/profile.json"));
}

static void a_cut_that_cannot_be_leaves_the_other(void **state) {
    (void)state;
    if (!MNEM_RELEASE) return;
    const char *latent = MNEM_TEST_DATA "/architectures/deepseek2.gguf";
    tool_result r = RUN("plan", latent, "--ranks", "2", "--memory", "60M", "--json");
    json_t *plan = json_of(&r);
    assert_non_null(strstr(text_of(plan, "choice"),
                           "layers: --cut rows is not possible: deepseek2: splitting by rows "
                           "over ranks is not supported (latent attention (MLA))"));
    json_decref(plan);
    r = RUN("plan", tool_model, "--ranks", "8", "--memory", "60M", "--json"); /* of 6 layers */
    plan = json_of(&r);
    assert_string_equal(text_of(plan, "cut"), "rows");
    assert_non_null(strstr(text_of(json_object_get(plan, "other"), "refused"), "6 layers"));
    json_decref(plan);
    r = RUN("plan", tool_model, "--ranks", "9", "--memory", "60M");
    assert_int_equal(r.code, 1);
}

/* ---- what a model reached ---- */

/* The output matrix (2048 words of 256) is of a prompt's last token only. Returns the bytes that a
 * token reads. */
static double check_arithmetic(const json_t *did, int threads) {
    enum { PROMPT = 32, ALL = 5 << 20, HEAD = 2048 * 256 };
    json_t *kept = json_load_file(at("mnem/profile.json"), 0, NULL), *one, *found = NULL;
    size_t i;
    json_array_foreach(json_object_get(kept, "reached"), i,
                       one) if (json_integer_value(json_object_get(one, "threads")) == threads)
        found = one;
    assert_non_null(found);
    const double prompt = json_number_value(json_object_get(did, "prompt_tokens_per_s"));
    const double macs = json_number_value(json_object_get(found, "macs_per_s"));
    const double rate = json_number_value(json_object_get(did, "tokens_per_s"));
    const double reads = json_number_value(json_object_get(found, "generate_bytes_per_s"));
    const double bytes = json_number_value(json_object_get(found, "token_bytes"));
    assert_float_equal(macs / (prompt * (ALL - HEAD + HEAD / PROMPT)), 1, 1e-4);
    assert_float_equal(reads / (rate * bytes), 1, 1e-4);
    json_decref(kept);
    return bytes;
}

/* What a model reached with some threads is kept with them. */
static double bench_with(int threads) {
    char text[8];
    snprintf(text, sizeof text, "%d", threads);
    const tool_result r =
        RUN("bench", tool_model, "-p", "32", "-n", "8", "-r", "1", "--json", "--threads", text);
    json_t *did = json_of(&r);
    const double bytes = check_arithmetic(did, threads);
    json_decref(did);
    return bytes;
}

static double predicted_with(int threads) {
    char text[8];
    snprintf(text, sizeof text, "%d", threads);
    const tool_result r = RUN("plan", tool_model, "-t", text, "--ctx", "32", "--json");
    json_t *plan = json_of(&r);
    const double rate = json_number_value(json_object_get(plan, "predicted_tokens_per_s"));
    json_decref(plan);
    return rate;
}

/* What one thread reached is what a plan says of one thread, what three did of three; of others it
 * says what memory gives. The speeds are those of a made-up machine. */
static void a_plan_says_what_as_many_threads_reached(void **state) {
    (void)state;
    static const double rates[] = {0, 50, 400, 120}; /* tokens/s of so many threads */
    if (!MNEM_RELEASE) return;
    const double bytes = bench_with(1);
    assert_true(bench_with(3) == bytes);
    FILE *file = fopen(at("mnem/profile.json"), "wb");
    assert_non_null(file);
    fprintf(file,
            "{\"read_bytes_per_s\": %.17g, \"disk_bytes_per_s\": 1e9, \"macs_per_s\": 1e15, "
            "\"reached\": [",
            rates[2] * bytes);
    for (int threads = 1; threads <= 3; threads += 2)
        fprintf(file,
                "%s{\"threads\": %d, \"token_bytes\": %.17g, \"generate_bytes_per_s\": %.17g, "
                "\"macs_per_s\": 1e15}",
                threads > 1 ? ", " : "", threads, bytes, rates[threads] * bytes);
    fputs("]}", file);
    assert_int_equal(fclose(file), 0);
    for (int threads = 1; threads <= 3; threads++) {
        const double said = predicted_with(threads);
        if (!(said > 0.98 * rates[threads] && said < 1.02 * rates[threads]))
            fail_msg("%d threads: %g tokens/s, %g predicted", threads, rates[threads], said);
    }
    remove(at("mnem/profile.json"));
}

/* ---- refusing ---- */

static uint64_t least_of(const char *ranks, const char *cut) {
    char least[64];
    uint64_t bytes = 0;
    const tool_result r = RUN("plan", at("wide.gguf"), "--ranks", ranks, "--memory", "1M", "--ctx",
                              "8192", "--cut", cut);
    const char *said = strstr(r.err, "the smallest budget that works is --memory ");
    assert_non_null(said);
    assert_int_equal(sscanf(said, "the smallest budget that works is --memory %63s", least), 1);
    must(mnem_size_parse(least, &bytes));
    return bytes;
}

/* What one more rank would hold is said, and it does: in budgets where two are too few and three
 * do. */
static void check_refusals(const char *cut) {
    char size[32];
    tool_result r =
        RUN("plan", at("wide.gguf"), "--ranks", "2", "--memory", "200M,10M", "--cut", cut);
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(r.err, "rank 1 of 2"));
    const uint64_t two = least_of("2", cut), three = least_of("3", cut);
    assert_true(three < two);
    snprintf(size, sizeof size, "%llu", (unsigned long long)(three + two) / 2);
    r = RUN("plan", at("wide.gguf"), "--ranks", "2", "--memory", size, "--ctx", "8192", "--cut",
            cut);
    assert_int_equal(r.code, 3);
    assert_non_null(strstr(r.err, "one more rank would do (--ranks 3)"));
    assert_non_null(strstr(r.err, *cut == 'r' ? "(heads " : "(layers "));
    assert_non_null(strstr(r.err, "the smallest budget that works is --memory "));
    r = RUN("plan", at("wide.gguf"), "--ranks", "3", "--memory", size, "--ctx", "8192", "--cut",
            cut);
    assert_int_equal(r.code, 0);
}

static void a_rank_too_small_is_refused_with_its_name_and_ways_out(void **state) {
    (void)state;
    if (!MNEM_RELEASE) return;
    make_model(at("wide.gguf"),
               "--arch llama --embd 512 --heads 8 --kv-heads 8 --layers 8 --type Q8_0");
    check_refusals("layers");
    check_refusals("rows");
}

/* Below what code and MPI take, too; what is named is enough, in a list and for all. */
static void a_budget_below_code_and_mpi_names_one_that_is_enough(void **state) {
    (void)state;
    static const char *const budgets[] = {"1M", "1M", "5M,100M", "100M,1M", "100M,100M,5M"};
    if (!MNEM_RELEASE) return;
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        const char *cut = i % 2 ? "rows" : "layers", *budget = budgets[i];
        char least[64] = "";
        tool_result r = RUN("plan", tool_model, "--ranks", "3", "--memory", budget, "--ctx", "64",
                            "--cut", cut);
        assert_int_equal(r.code, 3);
        const char *said = strstr(r.err, "the smallest budget that works is --memory ");
        assert_non_null(strstr(r.err, " of 3 ("));
        assert_non_null(said);
        assert_int_equal(sscanf(said, "the smallest budget that works is --memory %63s", least), 1);
        assert_int_equal(strchr(least, ',') != NULL, strchr(budget, ',') != NULL);
        if (i > 1) assert_int_equal(strncmp(least, "100M,", 5) == 0, i > 2);
        r = RUN("plan", tool_model, "--ranks", "3", "--memory", least, "--ctx", "64", "--cut", cut);
        if (r.code != 0) fail_msg("%s of %s: %s", least, budget, r.err);
    }
}

/* 4 groups of heads over 3 ranks: rank 1 has two of them, and twice the KV cache of rank 0. */
static void one_budget_is_named_for_the_rank_that_needs_most(void **state) {
    (void)state;
    char least[64];
    if (!MNEM_RELEASE) return;
    make_model(at("groups.gguf"), "--arch llama --embd 512 --heads 8 --kv-heads 4 --layers 3");
    tool_result r = RUN("plan", at("groups.gguf"), "--ranks", "3", "--memory", "1M", "--ctx",
                        "4096", "--cut", "rows");
    assert_int_equal(r.code, 3);
    const char *said = strstr(r.err, "the smallest budget that works is --memory ");
    assert_non_null(said);
    assert_int_equal(sscanf(said, "the smallest budget that works is --memory %63s", least), 1);
    r = RUN("plan", at("groups.gguf"), "--ranks", "3", "--memory", least, "--ctx", "4096", "--cut",
            "rows");
    if (r.code != 0) fail_msg("%s: %s", least, r.err);
}

static void what_ranks_do_not_take_is_said(void **state) {
    (void)state;
    static const char *const words[][4] = {
        {"--memory", "1G,2G"},
        {"--link", "1ms"},
        {"--cut", "rows"},
        {"--ranks", "2"},
        {"--ranks", "2", "--memory", "1G,huge"},
        {"--ranks", "2", "--explain"},
    };
    static const char *const texts[] = {
        "a list of sizes for --memory needs several ranks: add --ranks N",
        "--link needs several ranks",
        "--cut needs several ranks: add --ranks N",
        "--ranks needs the budget of each rank",
        "\"huge\" is not a size",
        "can't be combined with --explain"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const tool_result r = RUN("plan", tool_model, words[i][0], words[i][1], words[i][2],
                                  words[i][3]); /* up to the first that is NULL */
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, texts[i]));
    }
    const tool_result r =
        RUN("plan", tool_model, "--ranks", "2", "--memory", "1G", "--link", "1Gbit");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "such as 1Gbit/s,0.1ms"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_on_paper_share_the_layers_inside_their_budgets),
        cmocka_unit_test(ranks_on_paper_share_the_rows),
        cmocka_unit_test(ranks_on_paper_share_experts),
        cmocka_unit_test(without_a_cut_the_faster_one_is_chosen),
        cmocka_unit_test(a_cut_that_cannot_be_leaves_the_other),
        cmocka_unit_test(a_plan_says_what_as_many_threads_reached),
        cmocka_unit_test(a_rank_too_small_is_refused_with_its_name_and_ways_out),
        cmocka_unit_test(a_budget_below_code_and_mpi_names_one_that_is_enough),
        cmocka_unit_test(one_budget_is_named_for_the_rank_that_needs_most),
        cmocka_unit_test(what_ranks_do_not_take_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
