/* train_words.c: `mnem train` on random words, for tests. */
#include "tools/train/train_words.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_random.h"

static const char config[] =
    "{\"architecture\": \"llama\", \"layers\": 2, \"embd\": 32, \"heads\": 4, \"kv_heads\": 2, "
    "\"ff\": 64, \"vocab\": 300, \"context\": 32, \"batch\": 4, \"steps\": 8, \"rate\": 0.005, "
    "\"warmup\": 5, \"heldout\": 0.03}";

char *words(void) {
    static char text[TEXT + 16];
    static const char *const some[] = {"and ", "the ",   "lord ", "said ",    "unto ", "him, ",
                                       "let ", "there ", "be ",   "light.\n", "then ", "went "};
    size_t n = 0;
    while (n < TEXT) n += (size_t)sprintf(text + n, "%s", some[random_below(12)]);
    return text;
}

int make_files(void **state) {
    (void)state;
    random_seed(20261122);
    write_file(at("text.txt"), words(), TEXT);
    write_file(at("config.json"), config, strlen(config));
    return 0;
}

void succeed(tool_result r) {
    if (r.code != 0) fail_msg("exit code %d: %s", r.code, r.err);
}

void refused(tool_result r, const char *const *said) {
    if (r.code < 1 || r.code > 3) fail_msg("exit code %d: %s", r.code, r.err);
    for (int i = 0; said[i]; i++)
        if (!strstr(r.err, said[i])) fail_msg("no \"%s\" in: %s", said[i], r.err);
}

char *content(const char *path) {
    static char text[2][1 << 16];
    static int next;
    char *to = text[next++ % 2];
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("no %s", path);
    const size_t n = fread(to, 1, sizeof text[0] - 1, file);
    assert_true(n < sizeof text[0] - 1);
    to[n] = 0;
    fclose(file);
    return to;
}

const char *names(const char *path) {
    static char text[2000];
    text[0] = 0;
    DIR *folder = opendir(path);
    if (!folder) return text;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        strcat(text, entry->d_name);
        strcat(text, " ");
    }
    closedir(folder);
    return text;
}
