/* test_tool_beside.c: files beside what a verb writes. Whatever a verb writes, a file of another
 * name stays as it is, also where the name looks like that of a temporary file; what a killed run
 * of ours left is replaced, and nothing is left. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/train/train_words.h"

static const char FOLDER[] = MNEM_TEST_DATA "/folders/llama_3";
static const char MODEL[] = MNEM_TEST_DATA "/architectures/llama.gguf";

enum { WORDS = 24 };

/* The verbs that write a file, as a user calls them; OUT is the file. */
static const char *const verb[][WORDS] = {
    {"quantize", MODEL, "OUT", "Q8_0"},
    {"quantize", "model", "OUT", "Q4_0", "-c", "64", "--test", "few.txt", "--max-loss", "90",
     "--no-table"},
    {"quantize", "model", "OUT.gguf", "Q4_0", "-c", "64", "--calibrate", "few.txt", "--spill",
     "spilled", "--no-table", "--imatrix-out", "OUT"},
    {"quantize", "model", "OUT.gguf", "Q4_0", "-c", "64", "--test", "few.txt", "--table",
     "OUT.svg"},
    {"convert", FOLDER, "-o", "OUT"},
    {"merge", MODEL, "adapter", "-o", "OUT"},
    {"prune", MODEL, "-o", "OUT", "--pattern", "2:4"},
    {"prune", "model", "-o", "OUT", "--pattern", "2:4", "-c", "64", "--test", "few.txt",
     "--max-loss", "90", "--no-table"},
    {"train", "--resume", "--out", "run", "--export", "OUT"},
    {"run", "model", "-p", "In the", "-n", "4", "--ctx", "64", "--raw", "--prompt-cache", "OUT"},
    {"run", "model", "-p", "In the", "-n", "4", "--ctx", "64", "--trace", "OUT.pftrace"},
    {"run", "model", "-p", "In the", "-n", "4", "--ctx", "64", "--trace", "OUT.json"},
    {"perplexity", "model", "few.txt", "--ctx", "64", "--trace", "OUT.json"},
    {"graph", "model", "--svg", "OUT.svg"},
    {"plan", "model", "--svg", "OUT.svg"},
    {"place", "table.csv", "--out", "OUT", "--svg", "OUT.svg"},
    {"replay", "small.trace", "--svg", "OUT.svg"},
    {"report", "in.pftrace", "--html", "OUT.html"},
};
enum { VERBS = sizeof verb / sizeof *verb };

/* Names that programs give to what isn't whole, behind and before a file's own. */
static const char *const neighbours[] = {
    "%s.tmp",        "%s.temp",   "%s.new", "%s.part",   "%s.partial", "%s.plain",
    "%s.untested",   "%s.half",   "%s.bak", "%s.old",    "%s.lock",    "%s.0",
    "%s.events.tmp", "%s.events", "%s~",    "%s.states", "%s.swap",    "%s.plain.tmp"};
enum { NEIGHBOURS = sizeof neighbours / sizeof *neighbours };

static char work[256]; /* where a run writes */

static int set_up(void **state) {
    char text[400];
    if (make_files(state) != 0) return -1;
    tool_file("few.txt", content(at("text.txt")));
    assert_int_equal(truncate(at("few.txt"), 1500), 0);
    tool_file("table.csv", "id,size,begin,end\n1,100,0,3\n2,50,2,5\n");
    tool_file("small.trace", "a 1 100 0\nf 1\n");
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out", at("run"),
                  "--steps", "2"));
    snprintf(text, sizeof text, "%s", at("in.pftrace"));
    succeed(RUN("run", tool_model, "-p", "In the", "-n", "4", "--ctx", "64", "--trace", text));
    snprintf(text, sizeof text, "%s", at("adapter"));
    return RUN("train", "-q", "--memory", "2G", "-t", "1", "--init", MODEL, "--lora", "2", "--data",
               at("text.txt"), "--any-bytes", "--ctx", "16", "--batch", "1", "--steps", "1",
               "--heldout", "0", "--out", text)
        .code;
}

static void begin(void) {
    snprintf(work, sizeof work, "%s", folder("work"));
    assert_int_equal(mkdir(work, 0700), 0);
}

/* A word of a command line: OUT and what follows it is in the folder, others are files of setup. */
static const char *word_of(const char *word, char path[512]) {
    static const char *const files[] = {"few.txt",    "table.csv", "small.trace",
                                        "in.pftrace", "adapter",   "run"};
    if (strcmp(word, "model") == 0) return tool_model;
    if (strncmp(word, "OUT", 3) == 0)
        snprintf(path, 512, "%s/out%s", work, word + 3);
    else if (strcmp(word, "spilled") == 0)
        snprintf(path, 512, "%s/spilled", work);
    else
        snprintf(path, 512, "%s", word);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(word, files[i]) == 0) snprintf(path, 512, "%s", at(word));
    return path;
}

static tool_result run_verb(int which) {
    static char paths[WORDS][512];
    const char *args[WORDS + 3] = {0};
    int n = 0;
    for (; verb[which][n]; n++) args[n] = word_of(verb[which][n], paths[n]);
    args[0] = verb[which][0]; /* "run" is a folder's name too */
    return tool_run(NULL, args);
}

/* The files that a verb writes, by their words. */
static int outs_of(int which, char out[WORDS][512]) {
    int count = 0;
    for (int i = 1; verb[which][i]; i++)
        if (strncmp(verb[which][i], "OUT", 3) == 0) word_of(verb[which][i], out[count++]);
    return count;
}

static void put(const char *path) {
    write_file(path, path, strlen(path));
}

static void assert_put(int which, const char *path) {
    size_t n;
    if (access(path, F_OK) != 0) fail_msg("%s %d: %s is lost", verb[which][0], which, path);
    char *bytes = read_file(path, &n);
    if (n != strlen(path) || memcmp(bytes, path, n) != 0)
        fail_msg("%s %d: %s is another file", verb[which][0], which, path);
    free(bytes);
}

static int files_there(void) {
    int count = 0;
    DIR *dir = opendir(work);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static void a_file_of_another_name_is_never_lost(void **state) {
    (void)state;
    char out[WORDS][512], path[600];
    for (int which = 0; which < VERBS; which++) {
        begin();
        const int outs = outs_of(which, out);
        for (int i = 0; i < outs; i++)
            for (int k = 0; k < NEIGHBOURS; k++) {
                snprintf(path, sizeof path, neighbours[k], out[i]);
                put(path);
            }
        const int before = files_there();
        succeed(run_verb(which));
        for (int i = 0; i < outs; i++) {
            if (access(out[i], F_OK) != 0) fail_msg("%s %d: no %s", verb[which][0], which, out[i]);
            for (int k = 0; k < NEIGHBOURS; k++) {
                snprintf(path, sizeof path, neighbours[k], out[i]);
                assert_put(which, path);
            }
        }
        assert_int_equal(files_there(), before + outs);
    }
}

static void what_a_killed_run_left_is_replaced(void **state) {
    (void)state;
    char out[WORDS][512], path[600];
    for (int which = 0; which < VERBS; which++) {
        begin();
        const int outs = outs_of(which, out);
        for (int i = 0; i < outs; i++) {
            snprintf(path, sizeof path, "%.500s.mnem-tmp", out[i]);
            put(path);
        }
        succeed(run_verb(which));
        if (files_there() != outs) fail_msg("%s %d: %s", verb[which][0], which, names(work));
    }
}

/* In the folder of a run too, whose names are known. */
static void a_run_replaces_no_file_that_is_not_of_a_run(void **state) {
    (void)state;
    static const char *const made[] = {"config.json", "vocabulary.gguf", "tokens",    "text",
                                       "log.jsonl",   "loss.svg",        "model.gguf"};
    static const char *const others[] = {"config.json.tmp", "model.gguf.tmp", "checkpoint.tmp",
                                         "tokens.tmp", "notes.txt"};
    char path[600];
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        begin();
        snprintf(path, sizeof path, "%s/%s", work, made[i]);
        put(path);
        REFUSED(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out", work),
                path, "does not belong to a training run", "choose another --out");
        assert_put(0, path);
        assert_int_equal(files_there(), 1);
    }
    begin();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(path, sizeof path, "%s/%s", work, others[i]);
        put(path);
    }
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out", work));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(path, sizeof path, "%s/%s", work, others[i]);
        assert_put(0, path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_another_name_is_never_lost),
        cmocka_unit_test(what_a_killed_run_left_is_replaced),
        cmocka_unit_test(a_run_replaces_no_file_that_is_not_of_a_run),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
