/* test_tool_embed.c: `mnem embed`: vectors of texts, from the command line and from lines; what is
 * refused, with its place and what would do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "tools/kit/tool_memory.h"

static const char bert[] = MNEM_SOURCE "/tests/data/architectures/bert.gguf"; /* 256 tokens */
static const char lfm2[] = MNEM_SOURCE "/tests/data/architectures/lfm2.gguf";
static const char llama[] = MNEM_SOURCE "/tests/data/architectures/llama.gguf";
enum { EMBD = 32 };

static int count(const char *text, char c) {
    int n = 0;
    for (; *text; text++) n += *text == c;
    return n;
}

static void a_text_is_a_line_of_numbers(void **state) {
    (void)state;
    char *end;
    double square = 0;
    const tool_result r = RUN("embed", bert, "abc", "(d e f)", "-q");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, "");
    assert_int_equal(count(r.out, '\n'), 2);
    assert_int_equal(count(r.out, ' '), 2 * (EMBD - 1));
    const char *at = r.out;
    for (int i = 0; i < EMBD; i++, at = end) {
        const double x = strtod(at, &end);
        square += x * x;
    }
    assert_int_equal(*at, '\n');
    assert_true(fabs(square - 1) < 1e-4);
}

static void lines_of_a_file_give_what_texts_do(void **state) {
    (void)state;
    static char want[TOOL_RUN_BYTES];
    strcpy(want, RUN("embed", bert, "abc", "(d e f)", "last", "-q").out);
    const char *file = tool_file("lines.txt", "(d e f)\r\nlast");
    assert_string_equal(RUN("embed", bert, "abc", "-f", file, "-q").out, want);
    assert_string_equal(RUN_INPUT("abc\n(d e f)\nlast\n", "embed", bert, "-f", "-", "-q").out,
                        want);
    assert_string_equal(RUN("embed", bert, "abc", "(d e f)", "last", "-q", "--memory",
                            tool_memory(2 * MIB), "-t", "1")
                            .out,
                        want);
}

static void json_is_an_object_a_line(void **state) {
    (void)state;
    const tool_result r = RUN("embed", bert, "abc", "defgh", "--json");
    assert_int_equal(r.code, 0);
    assert_int_equal(count(r.out, '\n'), 2);
    assert_int_equal(strncmp(r.out, "{\"text\":1,\"tokens\":3,\"embedding\":[", 34), 0);
    assert_non_null(strstr(r.out, "\n{\"text\":2,\"tokens\":5,\"embedding\":["));
}

static void a_decoder_embeds_where_pooling_is_named(void **state) {
    (void)state;
    tool_result r = RUN("embed", llama, "abc", "-q");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "add --pooling last or --pooling mean"));
    r = RUN("embed", llama, "abc", "-q", "--pooling", "last");
    assert_int_equal(r.code, 0);
    assert_int_equal(count(r.out, ' '), EMBD - 1);
}

static void what_cannot_be_embedded_is_named_with_its_place(void **state) {
    (void)state;
    char text[701] = "", *file;
    memset(text, 'a', 700);
    file = strdup(tool_file("long.txt", text));
    tool_result r = RUN("embed", bert, "-f", file);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "long.txt:1 has 700 tokens, but bert takes at most 256: split"));
    r = RUN_INPUT("a\n\nb\n", "embed", bert, "-f", "-");
    assert_int_equal(r.code, 1);
    assert_non_null(
        strstr(r.err, "standard input:2, because it has no tokens: leave this text out"));
    r = RUN("embed", bert, "a", "abcdef", "-c", "3");
    assert_int_equal(r.code, 2);
    assert_non_null(
        strstr(r.err, "text 2 has 6 tokens, more than the context that --ctx sets: use --ctx 6"));
    r = RUN("embed", bert);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "the text is missing: give TEXT, or -f FILE"));
    r = RUN("embed", bert, "-f", tool_file("empty.txt", ""));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "empty.txt has no text to embed"));
    r = RUN("embed", bert, "abc", "--memory", "1M");
    assert_int_equal(r.code, 3);
    free(file);
}

/* The least budget of so many texts of 256 tokens each. */
static long needed(int texts) {
    static char lines[8 * 257 + 1];
    memset(lines, 'a', sizeof lines - 1);
    for (int i = 0; i < 8; i++) lines[i * 257 + 256] = '\n';
    lines[texts * 257] = 0;
    const tool_result r = RUN_INPUT(lines, "embed", bert, "-f", "-", "--memory", "1M", "--json");
    const char *bytes = strstr(r.out, "\"needed_bytes\":");
    assert_int_equal(r.code, 3);
    assert_non_null(bytes);
    return strtol(bytes + 15, NULL, 10);
}

/* Pages of eight such texts are 224 KiB more than those of one. */
static void texts_run_alone_where_a_group_does_not_fit(void **state) {
    (void)state;
    const long one = needed(1), eight = needed(8);
    if (labs(eight - one) > 128 << 10) fail_msg("one needs %ld, eight %ld", one, eight);
}

static void what_wants_a_next_token_refuses_an_encoder_by_name(void **state) {
    (void)state;
    static const char said[] =
        "/bert.gguf: bert: text generation is not supported (an encoder): use mnem embed";
    assert_non_null(strstr(RUN("run", bert, "-p", "abc").err, said));
    assert_non_null(strstr(RUN("bench", bert).err, said));
    assert_non_null(strstr(RUN("perplexity", bert, bert).err, said));
    assert_int_equal(RUN("run", bert, "-p", "abc").code, 1);
    assert_non_null(strstr(RUN("graph", bert, "--phase", "train").err, "bert"));
    assert_int_equal(RUN("plan", bert).code, 0);
    assert_int_equal(RUN("graph", bert).code, 0);
    assert_non_null(strstr(RUN("info", bert).out, "runs           embeddings only: mnem embed"));
    assert_non_null(strstr(RUN("info", bert).out, "pooling        mean"));
    assert_non_null(strstr(RUN("info", lfm2).out, "convolutions   2 of 3 layers, over 3 pos"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_a_line_of_numbers),
        cmocka_unit_test(lines_of_a_file_give_what_texts_do),
        cmocka_unit_test(json_is_an_object_a_line),
        cmocka_unit_test(a_decoder_embeds_where_pooling_is_named),
        cmocka_unit_test(what_cannot_be_embedded_is_named_with_its_place),
        cmocka_unit_test(texts_run_alone_where_a_group_does_not_fit),
        cmocka_unit_test(what_wants_a_next_token_refuses_an_encoder_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
