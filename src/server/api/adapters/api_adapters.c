/* api_adapters.c: see api_adapters.h; and GET and POST /lora-adapters, as in llama.cpp's server. */
#include "server/api/adapters/api_adapters.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 128, SCALE_MOST = 10000 };
static const char field[] = "lora";

/* ---- the model's adapters ---- */

static const mnem_engine *engine_of(const api_slot *slot) {
    return slot->served->scheduler ? mnem_scheduler_engine(slot->served->scheduler) : NULL;
}

static int32_t count_all(const api_slot *slot) {
    const mnem_engine *engine = engine_of(slot);
    return engine ? mnem_engine_adapter_count(engine) : 0;
}

/* Those that the name has. Their ids are 0 to count_of - 1. */
static int32_t count_of(const api_slot *slot) {
    return slot->served->adapters ? slot->served->adapter_count : count_all(slot);
}

/* The number in the engine. */
static int32_t number_of(const api_slot *slot, int32_t i) {
    return slot->served->adapters ? slot->served->adapters[i].number : i;
}

/* The last part of a path of n bytes. */
static const char *last_part(const char *path, size_t n, size_t *length) {
    while (n > 0 && path[n - 1] == '/') n--;
    size_t begin = n;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    *length = n - begin;
    return path + begin;
}

/* Whether it is a usual file name inside an adapter's folder: then the folder has the name. */
static bool is_of_folder(const char *file) {
    return strcmp(file, "adapter.gguf") == 0 || strcmp(file, "adapter_model.safetensors") == 0;
}

static void name_of(const char *path, char name[NAME_BYTES]) {
    size_t n;
    const char *last = last_part(path, strlen(path), &n);
    if (is_of_folder(last) && last > path) {
        last = last_part(path, (size_t)(last - path), &n);
    } else {
        const char *point = memchr(last, '.', n) ? strrchr(last, '.') : NULL;
        if (point && point > last) n = (size_t)(point - last);
    }
    snprintf(name, NAME_BYTES, "%.*s", (int)n, last);
}

static void get(const api_slot *slot, int32_t i, mnem_engine_adapter *adapter,
                char name[NAME_BYTES]) {
    mnem_engine_adapter_get(engine_of(slot), number_of(slot, i), adapter);
    if (slot->served->adapters) adapter->scale = slot->served->adapters[i].scale;
    name_of(adapter->path, name);
}

/* Writes the adapters' names, "a, b, c", as many as there is room for. */
static void list_names(const api_slot *slot, char *out, size_t room) {
    size_t at = 0;
    *out = 0;
    for (int32_t i = 0; i < count_of(slot); i++) {
        mnem_engine_adapter adapter;
        char name[NAME_BYTES];
        get(slot, i, &adapter, name);
        const int n = snprintf(out + at, room - at, "%s%s", i ? ", " : "", name);
        if (n < 0 || (size_t)n >= room - at) return;
        at += (size_t)n;
    }
}

/* ---- a list of scales ---- */

static bool find_name(const api_slot *slot, const char *wanted, int32_t *index, api_error *error) {
    char names[300];
    int32_t found = 0;
    for (int32_t i = 0; i < count_of(slot); i++) {
        mnem_engine_adapter adapter;
        char name[NAME_BYTES];
        get(slot, i, &adapter, name);
        if (strcmp(name, wanted)) continue;
        *index = i;
        found++;
    }
    if (found == 1) return true;
    if (found > 1)
        return api_refuse(error, 400, field,
                          "%d adapters have the name '%.100s': send 'id' instead", found, wanted);
    list_names(slot, names, sizeof names);
    return api_refuse(error, 400, field,
                      "the adapter '%.100s' does not exist on this server, which has: %s", wanted,
                      names);
}

static bool find(const api_slot *slot, const json_t *entry, int32_t *index, api_error *error) {
    const char *name = NULL;
    int64_t id = -1;
    if (!json_is_object(entry))
        return api_refuse(error, 400, field,
                          "an entry of '%s' must be an object with 'id' or 'name', and 'scale'",
                          field);
    if (!api_get_text(entry, "name", &name, error) ||
        !api_get_whole(entry, "id", 0, count_of(slot) - 1, &id, error))
        return false;
    if (id < 0 && !name)
        return api_refuse(error, 400, field, "an entry of '%s' has neither 'id' nor 'name'", field);
    *index = (int32_t)id;
    return id >= 0 || find_name(slot, name, index, error);
}

/* Writes the entries' scales into `scales`, which holds zeros before. */
static bool read_entries(const api_slot *slot, const json_t *list, float *scales,
                         api_error *error) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        int32_t index = 0;
        float scale = 1;
        if (!find(slot, entry, &index, error) ||
            !api_get_real(entry, "scale", -SCALE_MOST, SCALE_MOST, &scale, error))
            return false;
        scales[index] = scale;
    }
    return true;
}

/* count zeros; NULL: error says that there is no memory. */
static float *make_scales(api *a, int32_t count, api_error *error) {
    float *scales = api_alloc(&a->memory, (size_t)count * sizeof *scales);
    if (scales) return scales;
    error->retry_seconds = 1;
    api_refuse(error, 429, NULL, "the server has no memory left for this request: try again later");
    return NULL;
}

/* *scales: of the adapters that the name has; NULL: it has none. */
static bool read_list(api *a, const api_slot *slot, const json_t *list, float **scales,
                      api_error *error) {
    const int32_t count = count_of(slot);
    *scales = NULL;
    if (!json_is_array(list))
        return api_refuse(error, 400, field,
                          "'%s' must be a list of objects with 'id' or 'name', and 'scale'", field);
    if (count == 0 && json_array_size(list) > 0)
        return api_refuse(error, 400, field,
                          "no adapter is loaded: start with --lora FILE to load one");
    if (count == 0) return true;
    *scales = make_scales(a, count, error);
    if (!*scales) return false;
    if (read_entries(slot, list, *scales, error)) return true;
    api_free(&a->memory, *scales);
    *scales = NULL;
    return false;
}

/* The scale of one of the name's adapters: of the request, of POST /lora-adapters, or of the
 * options. */
static float scale_of(const api_slot *slot, const float *asked, int32_t i) {
    if (asked) return asked[i];
    if (slot->adapter_count == count_of(slot)) return slot->adapter_scales[i];
    return slot->served->adapters[i].scale;
}

/* *scales: of all adapters of the engine; those that the name doesn't have are not applied. */
static bool spread(api *a, const api_slot *slot, const float *asked, float **scales,
                   api_error *error) {
    *scales = make_scales(a, count_all(slot), error);
    for (int32_t i = 0; *scales && i < count_of(slot); i++)
        (*scales)[number_of(slot, i)] = scale_of(slot, asked, i);
    return *scales != NULL;
}

bool api_adapters_read(api *a, const api_slot *slot, const json_t *root, float **scales,
                       api_error *error) {
    const json_t *list = api_get(root, field);
    float *asked = NULL;
    *scales = NULL;
    if (list && !read_list(a, slot, list, &asked, error)) return false;
    const bool set = slot->adapter_count > 0 && slot->adapter_count == count_of(slot);
    const bool differ = asked || set || slot->served->adapters;
    const bool fine = !differ || count_all(slot) == 0 || spread(a, slot, asked, scales, error);
    api_free(&a->memory, asked);
    return fine;
}

/* ---- /lora-adapters ---- */

static void put_list(const api_slot *slot, api_text *text) {
    const bool set = slot->adapter_count == count_of(slot);
    api_say(text, "[");
    for (int32_t i = 0; i < count_of(slot); i++) {
        mnem_engine_adapter adapter;
        char name[NAME_BYTES];
        get(slot, i, &adapter, name);
        api_format(text, "%s{\"id\":%d,\"name\":", i ? "," : "", i);
        api_quote(text, name, strlen(name));
        api_say(text, ",\"path\":");
        api_quote(text, adapter.path, strlen(adapter.path));
        api_say(text, ",\"scale\":");
        api_put_real(text, (double)(set ? slot->adapter_scales[i] : adapter.scale));
        api_say(text, ",\"task_name\":\"\",\"prompt_prefix\":\"\"}");
    }
    api_say(text, "]");
}

static void answer(api *a, http_exchange *exchange, api_text *text, const api_error *error) {
    if (error->status)
        api_answer_error(a, exchange, error, API_OPENAI);
    else
        api_answer_text(a, exchange, 200, "application/json", text);
    api_text_fini(text);
}

void api_on_adapters(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_text text = {.memory = &a->memory};
    api_error error = {0};
    api_slot *slot;
    if (api_check_ready(a, &error) && api_pick_query(a, exchange, request, &slot, &error))
        put_list(slot, &text);
    else if (!error.status)
        return; /* parked */
    answer(a, exchange, &text, &error);
}

/* The body is a JSON list. api_json_open accepts only an object, so it opens an empty one here, and
 * api_json_value reads the list within its memory. */
static bool set_scales(api *a, api_slot *slot, const http_request *request, api_error *error) {
    api_json json = {0};
    float *scales = NULL;
    bool fine = api_json_open(&json, "{}", 2, a->options.json_bytes, error);
    if (fine) {
        const json_t *list = api_json_value(request->body, request->body_bytes);
        fine = api_json_check(&json, error) && read_list(a, slot, list, &scales, error);
    }
    api_json_close(&json);
    if (!fine) return false;
    api_free(&a->memory, slot->adapter_scales);
    slot->adapter_scales = scales;
    slot->adapter_count = scales ? count_of(slot) : 0;
    return true;
}

void api_on_set_adapters(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_text text = {.memory = &a->memory};
    api_error error = {0};
    api_slot *slot;
    if (api_check_ready(a, &error) && api_pick_query(a, exchange, request, &slot, &error) &&
        set_scales(a, slot, request, &error))
        api_say(&text, "{\"success\":true}");
    else if (!error.status)
        return; /* parked */
    answer(a, exchange, &text, &error);
}
