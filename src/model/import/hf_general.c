/* hf_general.c: keys that say what a file is: its name, its size in words, how it likes to be
 * sampled. */
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/import/hf_keys.h"

/* ---- the name ---- */

/* "v2", "v1.5" and what begins with a digit stay as they are. */
static bool is_version(const char *word, size_t n) {
    if (isdigit((unsigned char)*word)) return true;
    size_t i = 1;
    if (*word != 'v' || n < 2) return false;
    while (i < n && (isdigit((unsigned char)word[i]) ||
                     (word[i] == '.' && i > 1 && i + 1 < n && word[i - 1] != '.')))
        i++;
    return i == n;
}

static bool has_small_letters_only(const char *word, size_t n) {
    bool letters = false;
    for (size_t i = 0; i < n; i++) {
        if (isupper((unsigned char)word[i])) return false;
        letters |= islower((unsigned char)word[i]) != 0;
    }
    return letters;
}

/* A word of small letters gets a large one behind everything that isn't a letter. */
static void to_title(char *word, size_t n) {
    bool inside = false;
    if (!has_small_letters_only(word, n) || is_version(word, n)) return;
    for (size_t i = 0; i < n; i++) {
        const bool letter = isalpha((unsigned char)word[i]) != 0;
        if (letter && !inside) word[i] = (char)(word[i] - 'a' + 'A');
        inside = letter;
    }
}

/* As the kernel has it, which takes nothing from the heap (realpath may). */
static bool whole_path(const char *path, char whole[PATH_MAX]) {
    char link[64];
    const int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, whole, PATH_MAX - 1);
    close(fd);
    whole[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* "tiny-llama-v2" is "Tiny Llama v2". */
static void name_of(const char *path, char name[NAME_MAX + 1]) {
    char whole[PATH_MAX];
    const char *base = whole_path(path, whole) ? strrchr(whole, '/') : NULL;
    size_t used = 0;
    for (const char *at = base ? base + 1 : ""; *at && used < NAME_MAX;) {
        const size_t n = strcspn(at, "- ");
        if (n && used) name[used++] = ' ';
        const size_t fits = n < NAME_MAX - used ? n : NAME_MAX - used;
        memcpy(name + used, at, fits);
        to_title(name + used, fits);
        used += fits;
        at += n + (at[n] != 0);
    }
    name[used] = 0;
}

/* "1.1B": at least two digits. */
static void size_text(double parameters, char text[32]) {
    static const struct {
        double over, unit;
        char letter;
    } rows[] = {{1e12, 1e-12, 'T'}, {1e9, 1e-9, 'B'}, {1e6, 1e-6, 'M'}, {0, 1e-3, 'K'}};
    int i = 0;
    while (i < 3 && !(parameters > rows[i].over)) i++;
    const double scaled = parameters * rows[i].unit;
    const int digits = rint(scaled) >= 10 ? 2 : rint(scaled) >= 1 ? 1 : 0;
    snprintf(text, 32, "%.*f%c", 2 - digits, scaled, rows[i].letter);
}

static double count_parameters(const mnem__folder *f) {
    double all = 0;
    for (uint32_t i = 0; i < f->model.tensors; i++) {
        double n = 1;
        for (int d = 0; d < 4; d++) n *= (double)f->model.tensor[i].shape[d];
        all += n;
    }
    return all;
}

/* ---- sampling ---- */

static mnem_status put_sampling(mnem__folder *f, const mnem__node *config) {
    static const struct {
        const char *key, *name;
        bool whole;
    } rows[] = {{"general.sampling.top_k", "top_k", true},
                {"general.sampling.top_p", "top_p", false},
                {"general.sampling.min_p", "min_p", false},
                {"general.sampling.temp", "temperature", false},
                {"general.sampling.penalty_repeat", "repetition_penalty", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double number = mnem__node_number(mnem__node_get(config, rows[i].name), NAN);
        if (!isfinite(number)) continue;
        if (!rows[i].whole)
            mnem__put_f32(f, rows[i].key, number);
        else if (fabs(number) <= INT32_MAX)
            mnem__put_i32(f, rows[i].key, (int32_t)number);
    }
    return f->status;
}

/* ---- pooling ---- */

/* The folder of the module that pools, as sentence-transformers name it; NULL: none does. */
static const char *pooling_folder(const mnem__node *modules) {
    const bool list = modules && modules->kind == MNEM__JSON_LIST;
    for (const mnem__node *n = list ? modules->first : NULL; n; n = n->next) {
        const char *type = mnem__node_text(mnem__node_get(n, "type"), "");
        const size_t length = strlen(type);
        if (length >= 7 && strcmp(type + length - 7, "Pooling") == 0)
            return mnem__node_text(mnem__node_get(n, "path"), NULL);
    }
    return NULL;
}

static mnem_pooling pooling_of(const mnem__node *config) {
    static const struct {
        const char *flag, *mode;
        mnem_pooling pooling;
    } rows[] = {{"pooling_mode_mean_tokens", "mean", MNEM_POOLING_MEAN},
                {"pooling_mode_cls_token", "cls", MNEM_POOLING_CLS},
                {"pooling_mode_lasttoken", "lasttoken", MNEM_POOLING_LAST}};
    enum { ROWS = sizeof rows / sizeof *rows };
    for (int i = 0; i < ROWS; i++)
        if (mnem__node_true(mnem__node_get(config, rows[i].flag))) return rows[i].pooling;
    for (int i = 0; i < ROWS; i++)
        if (mnem__node_is(mnem__node_get(config, "pooling_mode"), rows[i].mode))
            return rows[i].pooling;
    return MNEM_POOLING_NONE;
}

static mnem_status put_pooling(mnem__folder *f, const char *path, mnem__arena *arena) {
    char file[PATH_MAX], name[300];
    mnem__node *modules, *config;
    MNEM__TRY(mnem__folder_path(path, "modules.json", file));
    MNEM__TRY(mnem__tree_open(arena, file, &modules));
    const char *inside = pooling_folder(modules);
    if (!inside) return MNEM_OK;
    if (strstr(inside, "..") || *inside == '/' || strlen(inside) > 255)
        return mnem__fail(MNEM_BAD_FILE,
                          "%s: the path of the Pooling module is \"%.64s\", which is not a path "
                          "inside the folder of the model",
                          file, mnem__gguf_printable(inside, strlen(inside), name, 72));
    snprintf(name, sizeof name, "%s/config.json", inside);
    MNEM__TRY(mnem__folder_path(path, name, file));
    MNEM__TRY(mnem__tree_open(arena, file, &config));
    const mnem_pooling pooling = pooling_of(config);
    if (pooling == MNEM_POOLING_NONE)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: the pooling mode isn't supported (mean, cls and lasttoken are)",
                          file);
    mnem__put_u32(f, ".pooling_type", (uint32_t)pooling);
    return f->status;
}

mnem_status mnem__hf_put_pooling(mnem__folder *f, const char *path, const mnem__hf_config *c) {
    mnem__arena arena = {0};
    if (!(c->family->keys & MNEM__HF_ENCODER)) return MNEM_OK;
    const mnem_status status = put_pooling(f, path, &arena);
    mnem__arena_free(&arena);
    return status;
}

/* Texts of dense Hunyuan end with eod_token_id; what generation_config.json names first ends a
 * turn. */
static void put_ends(mnem__folder *f, const mnem__hf_config *c, const mnem__node *generation) {
    const double end = mnem__node_number(mnem__hf_find(c, "eod_token_id"), NAN);
    const mnem__node *ends = mnem__node_get(generation, "eos_token_id");
    const bool two = ends && ends->kind == MNEM__JSON_LIST && ends->count >= 2;
    const double turn = two ? mnem__node_number(ends->first, NAN) : NAN;
    if (!(c->family->traits & MNEM__HF_HUNYUAN) || c->family->keys & MNEM__HF_EXPERTS) return;
    if (end >= 0 && end <= INT32_MAX)
        mnem__put_u32(f, "tokenizer.ggml.eos_token_id", (uint32_t)end);
    if (turn >= 0 && turn <= INT32_MAX)
        mnem__put_u32(f, "tokenizer.ggml.eot_token_id", (uint32_t)turn);
}

mnem_status mnem__hf_put_general(mnem__folder *f, const char *path, const mnem__hf_config *c) {
    char name[NAME_MAX + 1], size[32], file[PATH_MAX];
    mnem__arena arena = {0};
    mnem__node *config;
    name_of(path, name);
    size_text(count_parameters(f), size);
    mnem__put_text(f, "general.type", "model", 5);
    mnem__put_text(f, "general.name", name, strlen(name));
    mnem__put_text(f, "general.size_label", size, strlen(size));
    MNEM__TRY(mnem__folder_path(path, "generation_config.json", file));
    mnem_status status = mnem__tree_open(&arena, file, &config);
    if (status == MNEM_OK) status = put_sampling(f, config);
    if (status == MNEM_OK) put_ends(f, c, config);
    mnem__arena_free(&arena);
    return status;
}
