/* bench_tokenize.c: bench_tokenize FILE.gguf TEXT: how fast a text becomes tokens, and that the
 * time of long words grows with their length, not faster: 1 MiB of one unit against 64 KiB of it.
 *
 * Exits 1 where a byte of the longer text takes more than four times as long (n log n is 1.25). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mnem/tokenizer.h"

enum { SHORT = 64 << 10, LONG = 1 << 20, ROUNDS = 5 };

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The best of some. */
static double seconds_of(mnem_tokenizer *t, const char *text, size_t n) {
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        const int32_t *ids;
        size_t count;
        const double start = cpu_seconds();
        if (mnem_tokenizer_encode(t, text, n, 0, &ids, &count) != MNEM_OK) {
            fprintf(stderr, "%s\n", mnem_last_error());
            exit(1);
        }
        const double seconds = cpu_seconds() - start;
        if (seconds < best) best = seconds;
    }
    return best;
}

static bool check_unit(mnem_tokenizer *t, const char *name, const char *unit, char *text) {
    for (size_t i = 0, n = strlen(unit); i < LONG; i++) text[i] = unit[i % n];
    const double some = seconds_of(t, text, SHORT) / SHORT * 1e9;
    const double many = seconds_of(t, text, LONG) / LONG * 1e9;
    printf("%-8s %8.1f ns a byte of 64 KiB, %8.1f of 1 MiB\n", name, some, many);
    return many < 4 * some;
}

static void show_text(mnem_tokenizer *t, const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = malloc(LONG);
    const size_t n = file && text ? fread(text, 1, LONG, file) : 0;
    if (n > 0) printf("text     %8.1f MB/s\n", (double)n / seconds_of(t, text, n) / 1e6);
    free(text);
    if (file) fclose(file);
}

int main(int argc, char **argv) {
    static const char *const units[][2] = {
        {"letter", "a"},
        {"space", " "},
        {"line", "\n"},
        {"digit", "7"},
        {"mark", "!"},
        {"emoji", "\xF0\x9F\x98\x80"},
        {"ideograph", "\xE4\xBD\xA0"},
        {"accent", "\xCC\x81"},
    };
    mnem_model *model;
    mnem_tokenizer *t;
    bool good = true;
    char *text = malloc(LONG);
    if (argc != 3 || !text) {
        fprintf(stderr, "usage: bench_tokenize FILE.gguf TEXT\n");
        return 2;
    }
    if (mnem_model_open(argv[1], &model) != MNEM_OK ||
        mnem_tokenizer_create(model, &t) != MNEM_OK) {
        fprintf(stderr, "%s\n", mnem_last_error());
        return 1;
    }
    show_text(t, argv[2]);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        good &= check_unit(t, units[i][0], units[i][1], text);
    mnem_tokenizer_destroy(t);
    mnem_model_close(model);
    free(text);
    return good ? 0 : 1;
}
