/* test_tool_train_input.c: input that `mnem train` accepts or refuses: text, bytes that aren't
 * text, models of another shape, standard input. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_random.h"
#include "tools/train/train_words.h"

/* ---- what is text ---- */

/* Whatever stands beside it, and with --any-bytes too: it was meant for --init. */
static void a_model_is_no_text_but_for_init(void **state) {
    (void)state;
    static const char said[] = "q8_0.gguf is a GGUF model, but a run trains on text: ";
    static const char hint[] = "--init /", chat[] = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    const char *data[] = {at("text.txt"), tool_file("a.jsonl", chat),
                          tool_file("b.jsonl", "{\"text\": \"a\"}\n")};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s", data[i]);
        REFUSED(LOOK(tool_model, path), said, hint);
        REFUSED(LOOK(path, tool_model), said, hint);
        REFUSED(LOOK(path, tool_model, "--any-bytes"), said, hint);
        REFUSED(TRAIN("-d", path, tool_model, "--init", tool_model, "-o", at("looked")), said,
                "leave it out");
    }
    REFUSED(LOOK(tool_model, "-q"), said, hint);
    REFUSED(LOOK(tool_model, "-q", "--any-bytes"), said, hint);
}

static void a_binary_file_is_refused_with_its_place(void **state) {
    (void)state;
    char *text = words();
    text[1000] = 0;
    write_file(at("zero"), text, TEXT);
    REFUSED(LOOK(at("zero"), "-q"),
            "/zero is not plain text: at byte 1000 it looks like binary data", "--any-bytes");
    succeed(LOOK(at("zero"), "-q", "--any-bytes"));
    write_file(at("nothing"), "", 0);
    REFUSED(LOOK(at("nothing"), "-q"), "/nothing is empty");
    write_file(at("tensors"), "\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}", 27);
    REFUSED(LOOK(at("tensors"), "-q"), "a safetensors file");
    for (size_t i = 0; i < TEXT; i++) text[i] = (char)(i % 2 ? 0 : 'a');
    write_file(at("wide"), text, TEXT);
    REFUSED(LOOK(at("wide"), "-q"), "at byte 1 it looks like text in UTF-16", "iconv");
    for (size_t i = 0; i < TEXT; i++) text[i] = (char)(1 + random_below(255));
    write_file(at("noise"), text, TEXT);
    REFUSED(LOOK(at("noise"), "-q"), "binary data (it has control characters)");
    for (size_t i = 0; i < TEXT; i++) text[i] = (char)(i % 6 ? 0xc0 + random_below(64) : ' ');
    write_file(at("cyrillic"), text, TEXT);
    REFUSED(LOOK(at("cyrillic"), "-q"), "at byte 1 it looks like", "another encoding", "iconv");
}

/* Of a file that isn't the first, behind the first piece, too. */
static void every_file_is_looked_at(void **state) {
    (void)state;
    char *text = words();
    text[TEXT - 1] = 0;
    write_file(at("late"), text, TEXT);
    REFUSED(LOOK(at("text.txt"), "-q", at("late")), "/late is not plain text: at byte 39999");
}

static void text_in_latin_1_is_learned_with_a_word(void **state) {
    (void)state;
    char *text = words();
    text[777] = (char)0xe9;
    write_file(at("latin"), text, TEXT);
    tool_result r = LOOK(at("latin"), "--json");
    succeed(r);
    assert_non_null(strstr(r.err, "/latin is not valid UTF-8 at byte 777"));
    assert_int_equal(LOOK(at("latin"), "-q").err_bytes, 0);
}

/* Characters of two, three and four bytes over the borders of the pieces that are looked at. */
static void text_in_utf_8_is_text(void **state) {
    (void)state;
    static const char *const some[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x1b[1m\t"};
    for (int shift = 0; shift < 4; shift++) {
        static char text[3 * TEXT];
        size_t n = (size_t)shift;
        memset(text, 'x', n);
        while (n < 2 * TEXT) n += (size_t)sprintf(text + n, "%s", some[random_below(4)]);
        write_file(at("utf8"), text, n);
        tool_result r = LOOK(at("utf8"), "--json");
        succeed(r);
        assert_null(strstr(r.err, "UTF-8"));
    }
}

/* Whole characters of UTF-8, no orders for a terminal. */
static void assert_printable(const char *text) {
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int more = *s < 0x80 ? 0 : *s < 0xc2 ? -1 : *s < 0xe0 ? 1 : *s < 0xf0 ? 2 : 3;
        if (more < 0 || (*s < 32 && *s != '\n') || *s == 127 || (*s == 0xc2 && s[1] < 0xa0))
            fail_msg("byte %02x: %.200s", *s, (const char *)s);
        for (int i = 1; i <= more; i++) assert_int_equal(s[i] & 0xc0, 0x80);
        s += more + 1;
    }
}

static void samples_are_printable_whatever_was_learned(void **state) {
    (void)state;
    char *text = words();
    for (size_t i = 0; i < TEXT; i++) text[i] = (char)random_below(256);
    write_file(at("bytes"), text, TEXT);
    tool_result r = TRAIN("--data", at("bytes"), "--any-bytes", "--config", at("config.json"),
                          "--out", at("sampled"), "--steps", "3");
    succeed(r);
    assert_non_null(strstr(r.err, "sample: "));
    assert_non_null(strstr(r.err, "\\x"));
    assert_printable(r.err);
}

static void an_empty_sample_prints_none(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        const tool_result r =
            TRAIN("--data", at("text.txt"), "--config", at("config.json"), "--out",
                  at(i ? "silent" : "spoken"), "--steps", "3", "--sample", i ? "" : "and", "-v");
        succeed(r);
        assert_int_equal(strstr(r.err, "sample: ") == NULL, i);
    }
}

/* ---- what contradicts ---- */

#define FROM(model, ...)                                                                           \
    TRAIN("-q", "--data", at("text.txt"), "--init", model, "--out", at("from"), "--dry-run",       \
          __VA_ARGS__)

static void a_shape_other_than_the_models_is_refused_with_both(void **state) {
    (void)state;
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--steps", "2",
                  "--vocab", "280", "--out", at("shaped")));
    const char *model = at("shaped/model.gguf");
    REFUSED(FROM(model, "--config", "tiny"), "\"layers\" is 4",
            "shaped/model.gguf of --init has 2");
    REFUSED(FROM(model, "--vocab", "512"), "--vocab is 512", "shaped/model.gguf of --init has 280");
    succeed(FROM(model, "--vocab", "280"));
    REFUSED(FROM(model, "--config", at("config.json")), "\"vocab\" is 300", "has 280");
    succeed(FROM(model, "--config", at("shaped/config.json")));
    write_file(at("ff.json"), "{\"ff\": 65, \"steps\": 3}", 22);
    REFUSED(FROM(model, "--config", at("ff.json")), "\"ff\" is 65", "has 64");
    write_file(at("steps.json"), "{\"steps\": 3, \"batch\": 2}", 24);
    succeed(FROM(model, "--config", at("steps.json")));
    write_file(at("gpt2.json"), "{\"architecture\": \"gpt2\"}", 24);
    REFUSED(FROM(model, "--config", at("gpt2.json")), "\"architecture\" is gpt2", "has llama");
}

/* ---- standard input ---- */

static void text_from_standard_input_is_kept_for_resuming(void **state) {
    (void)state;
    static char text[TEXT + 1];
    memcpy(text, content(at("text.txt")), TEXT);
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out",
                  at("by_name")));
    tool_result r =
        RUN_INPUT(text, "train", "-q", "--memory", MEMORY, "--threads", "1", "--config",
                  at("config.json"), "--out", at("by_pipe"), "--data", "-", "--stop-after", "5");
    succeed(r);
    assert_string_equal(content(at("by_pipe/text")), text);
    r = TRAIN("--resume", "--out", at("by_pipe"));
    succeed(r);
    assert_non_null(strstr(r.err, "continuing after step 5 of 8\n"));
    const char *model = content(at("by_name/model.gguf")),
               *other = content(at("by_pipe/model.gguf"));
    assert_memory_equal(model + 4096, other + 4096, 20000); /* behind the names, as long */
    /* A run without a checkpoint may be replaced, but not by one that is refused, nor by one that
     * is killed before it begins. */
    assert_int_equal(unlink(at("by_pipe/checkpoint")), 0);
    r = RUN_INPUT("a text", "train", "-q", "--config", at("config.json"), "--out", at("by_pipe"),
                  "--data", "-");
    assert_true(r.code > 0);
    assert_string_equal(content(at("by_pipe/text")), text);
    assert_int_equal(mkdir(at("by_pipe/.mnem-tmp"), 0777), 0);
    assert_int_equal(rename(at("by_pipe/text"), at("by_pipe/.mnem-tmp/text")), 0);
    succeed(TRAIN("-q", "--resume", "--out", at("by_pipe")));
    assert_string_equal(content(at("by_pipe/text")), text);
    assert_int_equal(unlink(at("by_pipe/checkpoint")), 0);
    r = RUN_INPUT(text + 1, "train", "-q", "--memory", MEMORY, "--threads", "1", "--config",
                  at("config.json"), "--out", at("by_pipe"), "--data", "-", "--stop-after", "1");
    succeed(r);
    assert_string_equal(content(at("by_pipe/text")), text + 1);
    assert_int_not_equal(access(at("by_pipe/.mnem-tmp"), F_OK), 0);
    /* What stands where the text is kept is neither read and replaced nor moved away. */
    assert_int_equal(unlink(at("by_pipe/checkpoint")), 0);
#define PIPE(out, ...)                                                                             \
    RUN_INPUT("a text", "train", "-q", "--config", at("config.json"), "--out", out, "--data", "-", \
              __VA_ARGS__)
    r = PIPE(at("by_pipe"), at("by_pipe/text"));
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "rename that file"));
    assert_string_equal(content(at("by_pipe/text")), text + 1);
    assert_int_equal(mkdir(at("taken"), 0777), 0);
    assert_int_equal(mkdir(at("taken/text"), 0777), 0);
    r = PIPE(at("taken"), "--steps", "1");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "taken/text does not belong to a training run"));
    assert_string_equal(names(at("taken")), "text ");
    assert_int_equal(rename(at("by_pipe/text"), at("moved")), 0); /* one of a run that is gone */
    assert_int_equal(mkdir(at("by_pipe/text"), 0777), 0);
    r = PIPE(at("by_pipe"), "--steps", "1");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "is not a regular file"));
    REFUSED(LOOK("-", "-q", "-"), "can be read once only");
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    REFUSED(LOOK(at("pipe"), "-q"), "/pipe is a pipe", "--data -");
    REFUSED(LOOK("-", "-q"), "standard input has no text");
}

/* What to do about it is said once. */
static void too_little_text_is_said_once(void **state) {
    (void)state;
    const tool_result r = TRAIN("--data", tool_file("short.txt", "a sea\n"), "--out", at("short"),
                                "--config", at("config.json"));
    assert_int_equal(r.code, 1);
    const char *said = strstr(r.err, "the text is too short: it has ");
    if (!said || !strstr(said, "--heldout 0")) fail_msg("%s", r.err);
    assert_null(strstr(r.err, "more text, or shorter"));
    said = strstr(r.err, "more text");
    assert_non_null(said);
    assert_null(strstr(said + 1, "more text"));
}

/* By the name, or by the names of columns; prose with commas is none. */
static void a_table_is_refused_with_the_way_to_json_lines(void **state) {
    (void)state;
    const char *row = "prompt,completion\nWhat is red?,A colour.\n";
    REFUSED(LOOK(tool_file("chat.csv", row), "-q"), "chat.csv is a table (CSV)",
            "csv.DictReader(sys.stdin)]' < ", " > data.jsonl", "--any-bytes");
    REFUSED(LOOK(tool_file("list.CSV", "a\nb\n"), "-q"), "is a table");
    REFUSED(LOOK(tool_file("chat.tsv", "x\ty\n1\t2\n"), "-q"), "delimiter=\"\\t\"");
    REFUSED(LOOK(tool_file("plain", "\xef\xbb\xbf\"id\";\"Question\"; Answer\r\n1;2;3\r\n"), "-q"),
            "is a table", "delimiter=\";\"");
    succeed(LOOK(at("text.txt"), "-q", "--any-bytes", at("chat.csv")));
    char text[8000] = "text, as prose has it, with commas, is no table of input and output\n";
    for (size_t n = strlen(text); n < sizeof text - 1; n++) text[n] = n % 7 ? 'a' : ' ';
    succeed(LOOK(tool_file("prose.txt", text), "-q"));
    tool_file("pq", "PAR1 and more");
    REFUSED(LOOK(at("pq"), "-q"), "a Parquet file: convert it to JSON lines first");
}

/* A limit on a file's size is as good as a full disk; it is seen before the first step. */
static void a_disk_without_room_for_a_checkpoint_is_refused(void **state) {
    (void)state;
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 4 << 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const tool_result r = TRAIN("--data", at("text.txt"), "--config", "tiny", "--out",
                                at("no_room"), "--steps", "2", "--ctx", "32");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    REFUSED(r, "a checkpoint of this run takes ", "(ulimit -f)");
    assert_null(strstr(r.err, "step 1"));
    assert_int_equal(access(at("no_room"), F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_without_room_for_a_checkpoint_is_refused),
        cmocka_unit_test(too_little_text_is_said_once),
        cmocka_unit_test(a_binary_file_is_refused_with_its_place),
        cmocka_unit_test(a_model_is_no_text_but_for_init),
        cmocka_unit_test(every_file_is_looked_at),
        cmocka_unit_test(text_in_latin_1_is_learned_with_a_word),
        cmocka_unit_test(text_in_utf_8_is_text),
        cmocka_unit_test(samples_are_printable_whatever_was_learned),
        cmocka_unit_test(an_empty_sample_prints_none),
        cmocka_unit_test(a_shape_other_than_the_models_is_refused_with_both),
        cmocka_unit_test(text_from_standard_input_is_kept_for_resuming),
        cmocka_unit_test(a_table_is_refused_with_the_way_to_json_lines),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
