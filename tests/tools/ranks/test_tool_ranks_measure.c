/* test_tool_ranks_measure.c: what is measured of texts under mpirun is that of one process:
 * embeddings, by `mnem embed` and by a server beside its chats, perplexities and divergences. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "tools/ranks/mpirun.h"

enum { MORE = MNEM_SANITIZED ? 128 : 0 }; /* MiB of a budget: sanitizers take them */

static void embeddings_are_those_of_one_process(void **state) {
    (void)state;
    static char alone[64 << 10];
    for (int ranks = 2; ranks <= (MNEM_SANITIZED ? 3 : 5); ranks++) {
        for (int i = 0; i < 4; i++) { /* chunks of 8 tokens, too */
            char words[400];
            snprintf(words, sizeof words,
                     "embed %s hi \"In the beginning God created the heaven\" \"And God said\" "
                     "--pooling %s%s",
                     tool_model, i % 2 ? "last" : "mean", ranks % 2 ? " --chunk 8" : "");
            snprintf(alone, sizeof alone, "%s", shell("%s %s -q", MNEM_COMMAND, words)->out);
            const said *s = shell(MPIRUN "%s --memory %dM --cut %s", ranks, words, MORE + 60,
                                  i < 2 ? "layers" : "rows");
            if (s->code != 0) fail_msg("%d ranks: %s", ranks, s->err);
            assert_true(strlen(alone) > 1000);
            assert_string_equal(s->out, alone);
        }
    }
}

static void the_perplexity_is_that_of_one_process(void **state) {
    (void)state;
    char words[400], alone[400];
    snprintf(words, sizeof words, "perplexity %s %s/LICENSE --ctx 128", tool_model, MNEM_SOURCE);
    snprintf(alone, sizeof alone, "%.300s", shell("%s %s -q", MNEM_COMMAND, words)->out);
    for (int ranks = 2; ranks <= (MNEM_SANITIZED ? 3 : 5); ranks++) {
        const said *s = shell(MPIRUN "%s --memory %dM --cut %s", ranks, words, MORE + 60,
                              ranks % 2 ? "layers" : "rows");
        if (s->code != 0) fail_msg("%d ranks: %s", ranks, s->err);
        assert_string_equal(s->out, alone);
    }
}

/* Rank 0 has the reference, in the last two cases not all of it in memory. */
static void divergences_are_those_of_one_process(void **state) {
    (void)state;
    static const struct {
        int ranks, first, others;
        const char *cut;
    } way[] = {{2, 100, 100, "layers"}, {3, 60, 50, "layers"}, {2, 60, 60, "rows"},
               {3, 90, 40, "rows"},     {2, 46, 60, "layers"}, {2, 46, 60, "rows"}};
    char words[400], alone[600];
    assert_int_equal(
        shell("head -c %d %s/LICENSE >text", MNEM_SANITIZED ? 1200 : 12000, MNEM_SOURCE)->code, 0);
    snprintf(words, sizeof words,
             "perplexity %s/kjv-5m-q4_0.gguf text --ctx 128 --kl %s/kjv-5m-f16.gguf",
             MNEM_TEST_DATA "/model", MNEM_TEST_DATA "/model");
    snprintf(alone, sizeof alone, "%.599s", shell("%s %s -q", MNEM_COMMAND, words)->out);
    assert_non_null(strstr(alone, "top-1 "));
    /* Long under sanitizers: one there where all fits, one where the reference streams. */
    for (size_t i = 0; i < sizeof way / sizeof way[0]; i += MNEM_SANITIZED ? 4 : 1) {
        const said *s = shell(MPIRUN "%s --memory %dM,%dM --cut %s", way[i].ranks, words,
                              MORE + way[i].first, MORE + way[i].others, way[i].cut);
        if (s->code != 0) fail_msg("case %zu: %s", i, s->err);
        assert_string_equal(s->out, alone);
        check_table(s->err, way[i].ranks);
    }
}

/* Below what code and MPI take, and below both models: rank 0 is named, and what is enough. */
static void a_budget_too_small_for_both_names_one_that_is_enough(void **state) {
    (void)state;
    static const int small[] = {20, 36};
    char words[300], least[32];
    if (!MNEM_RELEASE) skip(); /* sanitizers take more */
    snprintf(words, sizeof words,
             "perplexity %s/kjv-5m-q4_0.gguf text --ctx 128 --kl %s/kjv-5m-f16.gguf",
             MNEM_TEST_DATA "/model", MNEM_TEST_DATA "/model");
    for (size_t i = 0; i < 2 * sizeof small / sizeof small[0]; i++) {
        const char *cut = i % 2 ? "rows" : "layers";
        const said *s = shell(MPIRUN "%s --memory %dM,60M --cut %s", 2, words, small[i / 2], cut);
        const char *named = strstr(s->err, "the least is --memory ");
        if (!named || !strstr(s->err, "mnem: rank 0 of 2 "))
            fail_msg("%dM: %s", small[i / 2], s->err);
        assert_int_not_equal(s->code, 0);
        assert_int_equal(sscanf(named, "the least is --memory %31s", least), 1);
        s = shell(MPIRUN "%s --memory %s --cut %s", 2, words, least, cut);
        if (s->code != 0) fail_msg("%s: %s", least, s->err);
    }
}

/* sh beside.sh FOLDER COMMAND...: what a server says to four chats and eight lists of texts at once
 * is in files there. */
static const char beside[] =
    "to=$1; shift; rm -rf $to; mkdir $to; :>address; \"$@\" >address & P=$!\n"
    "until A=$(cat address) && [ -n \"$A\" ]; do kill -0 $P || exit 1; sleep 0.1; done\n"
    "for i in 1 2 3 4; do curl -s $A/v1/completions -d '{\"prompt\": \"And it came to pass\", "
    "\"max_tokens\": 150, \"seed\": '$i'}' >$to/chat$i & W=\"$W $!\"; done\n"
    "for i in 1 2 3 4 5 6 7 8; do curl -s $A/v1/embeddings -d '{\"input\": [\"In the beginning "
    "'$i'\","
    " \"God\", \"And God said, Let there be light: and there was light\"]}' >$to/list$i & "
    "W=\"$W $!\"; done\n"
    "wait $W; kill -TERM $P; wait $P\n"
    "sed -i 's/.*\"text\"://; s/\"usage\".*//' $to/chat*\n"
    "grep -q '\"logprobs\"' $to/chat4 && grep -q '\"index\":2' $to/list8\n";

/* Numbers are printed so that no two have the same text. */
static void embeddings_beside_chats_are_those_of_one_process(void **state) {
    (void)state;
    static const char *const cuts[] = {"layers", "rows", "layers"};
    char words[400];
    if (system("command -v curl >/dev/null") != 0) skip();
    FILE *script = fopen(at("beside.sh"), "wb");
    assert_non_null(script);
    fputs(beside, script);
    assert_int_equal(fclose(script), 0);
    snprintf(words, sizeof words,
             "serve %s --memory %dM --port 0 --no-history --pooling mean --ctx 256", tool_model,
             MORE + 100);
    const said *s = shell("sh beside.sh alone %s %s", MNEM_COMMAND, words);
    if (s->code != 0) fail_msg("%s", s->err);
    for (int i = 0; i < 3; i++) {
        s = shell("export R=\"" MPIRUN "%s --cut %s\"; sh beside.sh ranks env $R; diff -r alone "
                  "ranks",
                  2 + i / 2, words, cuts[i]);
        if (s->code != 0) fail_msg("%d ranks, %s: %s%s", 2 + i / 2, cuts[i], s->out, s->err);
        check_table(s->err, 2 + i / 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_are_those_of_one_process),
        cmocka_unit_test(embeddings_beside_chats_are_those_of_one_process),
        cmocka_unit_test(the_perplexity_is_that_of_one_process),
        cmocka_unit_test(divergences_are_those_of_one_process),
        cmocka_unit_test(a_budget_too_small_for_both_names_one_that_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
