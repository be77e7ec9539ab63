/* api_json.c: see api_json.h. Blocks of the open document lie one behind another and are never
 * reused: a document lives shortly, and a bound on all that was ever taken is a bound on what is
 * there. */
#include "server/api/api_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "server/api/api_big.h"

static _Thread_local api_json *open_json;

/* ---- jansson's allocations ---- */

static void *json_take(size_t bytes) {
    api_json *json = open_json;
    if (!json) return malloc(bytes);
    if (bytes > json->bytes || (bytes + 15) / 16 * 16 > json->bytes - json->used) {
        json->full = true;
        if (json->parsing) longjmp(json->leave, 1);
        return NULL;
    }
    char *block = json->block + json->used;
    json->used += (bytes + 15) / 16 * 16;
    return block;
}

static void give(void *block) {
    const api_json *json = open_json;
    const uintptr_t at = (uintptr_t)block;
    const bool inside =
        json && at >= (uintptr_t)json->block && at < (uintptr_t)json->block + json->bytes;
    if (!inside) free(block);
}

void api_json_install(void) {
    json_set_alloc_funcs(json_take, give);
}

/* ---- documents ---- */

/* How deep brackets stand in one another, outside of strings. */
static int depth_of(const char *text, size_t n) {
    int depth = 0, most = 0;
    bool string = false;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (string && c == '\\') {
            i++;
            continue;
        }
        if (c == '"') string = !string;
        if (string) continue;
        if ((c == '{' || c == '[') && ++depth > most) most = depth;
        if (c == '}' || c == ']') depth--;
    }
    return most;
}

/* jansson's lexer ignores that its buffer couldn't grow, and reads behind it: so what doesn't fit
 * leaves a parse at once. What it had lies in the block, and goes with that. */
static json_t *load(api_json *json, const char *text, size_t n, size_t flags, json_error_t *why) {
    if (setjmp(json->leave)) {
        json->parsing = false;
        return NULL;
    }
    json->parsing = true;
    json_t *root = json_loadb(text, n, flags | JSON_ALLOW_NUL, why);
    json->parsing = false;
    return root;
}

/* Numbers of more than 64 bits first become strings (api_big.h). */
static json_t *parse(api_json *json, const char *text, size_t n, size_t flags, json_error_t *why) {
    const size_t bytes = api_big_bytes(text, n);
    if (bytes == n) return load(json, text, n, flags, why);
    char *changed = json_take(bytes);
    if (!changed) return NULL;
    json->big = true;
    api_big_write(text, n, changed);
    return load(json, changed, bytes, flags, why);
}

/* A mapping of its own: what was never written is no memory, and all goes back at the end. */
static bool take_block(api_json *json, size_t bytes) {
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return false;
    *json = (api_json){.block = block, .bytes = bytes};
    open_json = json;
    return true;
}

static bool refuse_full(size_t bytes, api_error *error) {
    return api_refuse(error, 413, NULL,
                      "the JSON body needs more than %zu bytes of memory when parsed, the limit of "
                      "this server: send a smaller one",
                      bytes);
}

bool api_json_open(api_json *json, const char *body, size_t n, size_t block_bytes,
                   api_error *error) {
    json_error_t why;
    *json = (api_json){0};
    if (depth_of(body, n) > API_JSON_DEPTH)
        return api_refuse(error, 400, NULL,
                          "the JSON body is nested more than %d levels deep, the limit of this "
                          "server: send a flatter one",
                          API_JSON_DEPTH);
    if (!take_block(json, block_bytes)) {
        error->retry_seconds = 1;
        return api_refuse(error, 503, NULL,
                          "the server has no memory left to parse the JSON body: try again later");
    }
    json->root = parse(json, body, n, 0, &why);
    if (json_is_object(json->root)) return api_big_check(json->root, error);
    if (json->full) return refuse_full(block_bytes, error);
    if (json->root)
        return api_refuse(error, 400, NULL, "the body of the request must be a JSON object");
    return api_refuse(error, 400, NULL,
                      "the body of the request is not valid JSON: line %d, column %d: %s", why.line,
                      why.column, why.text);
}

void api_json_close(api_json *json) {
    if (open_json == json) open_json = NULL;
    if (json->block) munmap(json->block, json->bytes);
    *json = (api_json){0};
}

bool api_json_check(const api_json *json, api_error *error) {
    return !json->full || refuse_full(json->bytes, error);
}

json_t *api_json_value(const char *text, size_t n) {
    if (!open_json || depth_of(text, n) > API_JSON_DEPTH) return NULL;
    json_t *value = parse(open_json, text, n, JSON_DECODE_ANY, NULL);
    return value && api_big_is_clean(value) ? value : NULL;
}

static int put_part(const char *bytes, size_t n, void *text) {
    api_put(text, bytes, n);
    return ((const api_text *)text)->failed ? -1 : 0;
}

bool api_json_is_text(const json_t *value) {
    return json_is_string(value) && !api_big_is(value);
}

void api_json_put(api_text *text, const json_t *value) {
    const size_t from = text->length;
    if (json_dump_callback(value, put_part, text, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
        text->failed = true;
    if (open_json && open_json->big) api_big_restore(text, from);
}

/* ---- members ---- */

json_t *api_get(const json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

bool api_get_text(const json_t *object, const char *name, const char **value, api_error *error) {
    const json_t *member = api_get(object, name);
    if (!member) return true;
    if (!json_is_string(member)) return api_refuse(error, 400, name, "'%s' must be a string", name);
    *value = json_string_value(member);
    return true;
}

bool api_get_bool(const json_t *object, const char *name, bool *value, api_error *error) {
    const json_t *member = api_get(object, name);
    if (!member) return true;
    if (!json_is_boolean(member))
        return api_refuse(error, 400, name, "'%s' must be true or false", name);
    *value = json_is_true(member);
    return true;
}

/* Whole numbers up to 2^53 may come with a point. */
static bool is_whole(const json_t *member, int64_t *value) {
    const double real = json_is_real(member) ? json_real_value(member) : 0.5;
    if (json_is_integer(member)) {
        *value = json_integer_value(member);
        return true;
    }
    if (real != floor(real) || fabs(real) > 9007199254740992.0) return false;
    *value = (int64_t)real;
    return true;
}

bool api_get_whole(const json_t *object, const char *name, int64_t least, int64_t most,
                   int64_t *value, api_error *error) {
    const json_t *member = api_get(object, name);
    int64_t whole;
    if (!member) return true;
    if (!is_whole(member, &whole))
        return api_refuse(error, 400, name, "'%s' must be an integer", name);
    if (whole < least || whole > most)
        return api_refuse(error, 400, name, "'%s' is %lld; it must be from %lld to %lld", name,
                          (long long)whole, (long long)least, (long long)most);
    *value = whole;
    return true;
}

bool api_get_real(const json_t *object, const char *name, double least, double most, float *value,
                  api_error *error) {
    const json_t *member = api_get(object, name);
    if (!member) return true;
    if (!json_is_number(member)) return api_refuse(error, 400, name, "'%s' must be a number", name);
    const double real = json_number_value(member);
    if (!(real >= least && real <= most))
        return api_refuse(error, 400, name, "'%s' is %g; it must be from %g to %g", name, real,
                          least, most);
    *value = (float)real;
    return true;
}
