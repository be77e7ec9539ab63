/* test_config_members.c: what each member of config.json does, by the table that is made from the
 * configuration classes of transformers (tests/data/config/make_members.py).
 *
 * A folder of each class has tensors of zeros. What a model is, is its mnem_transformer and the
 * factors of RoPE: a value that changes the arithmetic changes them, or is refused by its name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "model/import/import_case.h"

enum { ROWS_MAX = 16384, CLASSES_MAX = 120, LAYERS = 6, TEXT_MAX = 32768 };

typedef struct row {
    char *word[4]; /* "member", ... */
} row;

typedef struct config_class {
    const char *name, *type;
    const row *row;
    size_t rows;
} config_class;

static struct {
    char *text;
    row row[ROWS_MAX];
    config_class class[CLASSES_MAX];
    size_t rows, classes;
} table;

static bool is(const row *r, const char *word) {
    return strcmp(r->word[0], word) == 0;
}

static int read_table(void **state) {
    (void)state;
    size_t n;
    char *line_end, *word_end;
    table.text = read_file(MNEM_TEST_DATA "/config/members.tsv", &n);
    table.text = realloc(table.text, n + 1);
    table.text[n] = 0;
    for (char *line = strtok_r(table.text, "\n", &line_end); line;
         line = strtok_r(NULL, "\n", &line_end)) {
        row *r = &table.row[table.rows++];
        char *word = strtok_r(line, "\t", &word_end);
        for (int i = 0; i < 4 && word; i++, word = strtok_r(NULL, "\t", &word_end))
            r->word[i] = word;
        assert_true(table.rows < ROWS_MAX);
        if (*r->word[0] == '#') table.rows--;
    }
    config_class *c = NULL;
    for (size_t i = 0; i < table.rows; i++) {
        const row *r = &table.row[i];
        if (is(r, "class")) {
            assert_true(table.classes < CLASSES_MAX);
            c = &table.class[table.classes++];
            *c = (config_class){.name = r->word[1], .type = r->word[2], .row = r};
        }
        assert_non_null(c);
        c->rows++;
    }
    return 0;
}

static int free_table(void **state) {
    (void)state;
    free(table.text);
    return 0;
}

/* ---- folders ---- */

typedef struct header {
    char *text;
    size_t used;
    uint64_t data;
} header;

static void put_tensor(header *h, const char *name, const char *shape) {
    uint64_t n = 4;
    for (const char *at = shape; at; at = strchr(at, ','))
        n *= strtoull(at + (*at == ','), NULL, 10), at++;
    h->used += (size_t)sprintf(h->text + h->used,
                               "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":"
                               "[%llu,%llu]}",
                               h->used ? "," : "{", name, shape, (unsigned long long)h->data,
                               (unsigned long long)(h->data + n));
    h->data += n;
}

/* A tensor, or one of each layer. */
static void put_tensors(header *h, const row *r) {
    char name[128];
    const char *mark = strchr(r->word[1], '#');
    if (!mark) {
        put_tensor(h, r->word[1], r->word[2]);
        return;
    }
    for (int i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "%.*s%d%s", (int)(mark - r->word[1]), r->word[1], i, mark + 1);
        put_tensor(h, name, r->word[2]);
    }
}

/* Weights of zeros, and a tokenizer of one token. */
static const char *class_folder(const config_class *c) {
    static char path[512];
    char file[600];
    header h = {.text = malloc(1 << 20)};
    snprintf(path, sizeof path, "%s", kit_path(c->name));
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < c->rows; i++)
        if (is(&c->row[i], "tensor")) put_tensors(&h, &c->row[i]);
    h.text[h.used++] = '}';
    snprintf(file, sizeof file, "%s/model.safetensors", path);
    const uint64_t bytes = h.used;
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&bytes, 1, 8, f), 8);
    assert_int_equal(fwrite(h.text, 1, h.used, f), h.used);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate(file, (off_t)(8 + h.used + h.data)), 0);
    free(h.text);
    put_file(path, "tokenizer.json",
             "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}");
    return path;
}

/* Whether an object (compact JSON) has the member itself, not inside of another. */
static bool object_has(const char *object, const char *name) {
    const size_t n = strlen(name);
    int depth = 0;
    for (const char *at = object; at && *at; at++) {
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        if (depth == 1 && *at == '"' && strncmp(at + 1, name, n) == 0 &&
            strncmp(at + 1 + n, "\":", 2) == 0)
            return true;
    }
    return false;
}

/* config.json: the class's members but for one, and what an object says instead. */
static void put_config(const char *folder, const config_class *c, const char *other,
                       const char *without) {
    static char text[4 * TEXT_MAX];
    int n = sprintf(text, "{\"architectures\":[\"%s\"],\"model_type\":\"%s\"", c->name, c->type);
    for (size_t i = 0; i < c->rows; i++) {
        const row *r = &c->row[i];
        if (!is(r, "member") || object_has(other, r->word[1])) continue;
        if (without && strcmp(without, r->word[1]) == 0) continue;
        n += sprintf(text + n, ",\"%s\":%s", r->word[1], r->word[3]);
    }
    if (other) n += sprintf(text + n, ",%.*s", (int)strlen(other) - 2, other + 1);
    sprintf(text + n, "}");
    put_file(folder, "config.json", text);
}

/* ---- what a model is ---- */

static uint64_t add_bytes(uint64_t sum, const void *bytes, size_t n) {
    for (const uint8_t *at = bytes; n; n--) sum = (sum ^ *at++) * UINT64_C(1099511628211);
    return sum;
}

static uint64_t add_tensor(uint64_t sum, const mnem_model *model, const char *name) {
    uint8_t bytes[256];
    mnem_tensor_info info;
    const int32_t index = mnem_model_tensor_find(model, name);
    if (index < 0) return sum;
    assert_true(mnem_model_tensor_get(model, (uint32_t)index, &info) && info.bytes <= sizeof bytes);
    must(mnem_model_tensor_read(model, (uint32_t)index, 0, info.bytes, bytes));
    return add_bytes(sum, bytes, info.bytes);
}

/* 0: it is refused, and mnem_last_error says why. */
static uint64_t model_of(const char *folder) {
    mnem_model *model;
    mnem_transformer t;
    uint64_t sum = UINT64_C(14695981039346656037);
    memset(&t, 0, sizeof t);
    if (mnem_model_open(folder, &model) != MNEM_OK) return 0;
    const mnem_status status = mnem_model_transformer(model, &t);
    if (status == MNEM_OK) {
        sum = add_bytes(sum, &t, sizeof t);
        sum = add_tensor(sum, model, "rope_freqs.weight");
        sum = add_tensor(sum, model, "rope_factors_long.weight");
        sum = add_tensor(sum, model, "rope_factors_short.weight");
    }
    mnem_model_close(model);
    return status == MNEM_OK ? sum : 0;
}

static int failures;

static void report(const config_class *c, const char *what, const char *why) {
    failures++;
    fprintf(stderr, "%s: %s: %s (%s)\n", c->name, what, why, mnem_last_error());
}

/* That of an object of one member that is no list or object; "" otherwise. */
static void only_value(const char *object, char value[80]) {
    const char *colon = strstr(object, "\":"), *at = colon ? colon + 2 : "";
    const size_t n = strcspn(at, ",{}[]");
    *value = 0;
    if (at[n] != '}' || at[n + 1] || n >= 80) return;
    const bool quoted = *at == '"';
    snprintf(value, 80, "%.*s", (int)n - 2 * quoted, at + quoted);
    char *zero = strstr(value, ".0");
    if (zero && !zero[2]) *zero = 0; /* the error has 8, Python 8.0 */
}

/* A name of the object or of one inside it that the error has. */
static bool error_names(const char *object) {
    char name[80];
    for (const char *at = strchr(object, '"'); at; at = strchr(at, '"')) {
        const size_t n = strcspn(++at, "\"");
        if (at[n] == '"' && at[n + 1] == ':' && n < sizeof name) {
            snprintf(name, sizeof name, "%.*s", (int)n, at);
            if (strstr(mnem_last_error(), name)) return true;
        }
        at += n + 1;
    }
    return false;
}

static void check_case(const config_class *c, const char *folder, uint64_t usual, const row *r) {
    const char *kind = r->word[1], *other = r->word[2];
    char value[80];
    only_value(other, value);
    put_config(folder, c, other, NULL);
    const uint64_t got = model_of(folder);
    if (strcmp(kind, "inert") == 0 && got != usual) report(c, other, "changes the model");
    if (strcmp(kind, "read") == 0 && got == 0) report(c, other, "is refused");
    if (strcmp(kind, "read") == 0 && got == usual) report(c, other, "is ignored");
    if (strcmp(kind, "size") == 0 && got == usual) report(c, other, "is ignored");
    if (strcmp(kind, "fixed") == 0 && got != 0) report(c, other, "is accepted");
    if (strcmp(kind, "fixed") == 0 && got == 0 &&
        (!error_names(other) || !strstr(mnem_last_error(), "config.json")))
        report(c, other, "is refused without its name");
    if (strcmp(kind, "fixed") == 0 && got == 0 && !strstr(mnem_last_error(), value))
        report(c, other, "is refused without its value");
}

static void each_class(void (*check)(const config_class *c, const char *folder, uint64_t usual)) {
    failures = 0;
    assert_true(table.classes >= 25);
    for (size_t i = 0; i < table.classes; i++) {
        const config_class *c = &table.class[i];
        const char *folder = class_folder(c);
        put_config(folder, c, NULL, NULL);
        const uint64_t usual = model_of(folder);
        if (usual == 0) report(c, "itself", "is refused");
        if (usual != 0) check(c, folder, usual);
        kit_remove(folder);
    }
    assert_int_equal(failures, 0);
}

/* ---- the facts ---- */

static void check_cases(const config_class *c, const char *folder, uint64_t usual) {
    for (size_t i = 0; i < c->rows; i++)
        if (is(&c->row[i], "case")) check_case(c, folder, usual, &c->row[i]);
}

static void a_value_is_read_or_refused_by_its_name(void **state) {
    (void)state;
    each_class(check_cases);
}

/* A class's own default, said or not. Some that config.json must have are refused by name. */
static void check_absent(const config_class *c, const char *folder, uint64_t usual) {
    for (size_t i = 0; i < c->rows; i++) {
        const row *r = &c->row[i];
        if (!is(r, "member") || strcmp(r->word[2], "default") != 0) continue;
        put_config(folder, c, NULL, r->word[1]);
        if (model_of(folder) != usual) report(c, r->word[1], "is another where it is missing");
    }
}

static void a_missing_member_is_what_the_class_has(void **state) {
    (void)state;
    each_class(check_absent);
}

static bool has_member(const config_class *c, const char *name) {
    for (size_t i = 0; i < c->rows; i++)
        if ((is(&c->row[i], "member") || is(&c->row[i], "alias")) &&
            strcmp(c->row[i].word[1], name) == 0)
            return true;
    return false;
}

/* Appends another class's members that this one has not, by values that mean something there. */
static void add_strays(const config_class *c, const config_class *other, char all[TEXT_MAX]) {
    size_t n = strlen(all) - 1;
    for (size_t i = 0; i < other->rows; i++) {
        const row *r = &other->row[i], *member = r;
        if (!is(r, "case") || strchr(r->word[2], ',')) continue;
        while (!is(member, "member")) member--;
        if (has_member(c, member->word[1]) || object_has(all, member->word[1])) continue;
        n += (size_t)snprintf(all + n, TEXT_MAX - n, "%s%.*s}", n > 1 ? "," : "",
                              (int)strlen(r->word[2]) - 2, r->word[2] + 1);
        assert_true(n-- < TEXT_MAX);
    }
}

static void check_stray(const config_class *c, const char *folder, uint64_t usual) {
    char all[TEXT_MAX] = "{}";
    for (size_t k = 0; k < table.classes; k++) add_strays(c, &table.class[k], all);
    assert_true(strlen(all) > 2);
    put_config(folder, c, all, NULL);
    if (model_of(folder) != usual) report(c, all, "of other classes count");
}

static void members_of_other_classes_mean_nothing(void **state) {
    (void)state;
    each_class(check_stray);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_read_or_refused_by_its_name),
        cmocka_unit_test(a_missing_member_is_what_the_class_has),
        cmocka_unit_test(members_of_other_classes_mean_nothing),
    };
    return cmocka_run_group_tests(tests, read_table, free_table);
}
