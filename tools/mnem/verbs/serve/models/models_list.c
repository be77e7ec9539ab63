/* models_list.c: see models_list.h. */
#include "verbs/serve/models/models_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- entries ---- */

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static void copy_name(models_entry *e, const char *name) {
    snprintf(e->name, sizeof e->name, "%s", name);
    if (ends_with(e->name, ".gguf")) e->name[strlen(e->name) - 5] = 0;
}

static int out_of_memory(void) {
    return tool_failed("out of memory for the list of models: end other programs");
}

/* "folder/name", or the name itself if it is absolute. NULL: no memory. */
static char *join(const char *folder, const char *name) {
    const size_t n = strlen(folder) + strlen(name) + 2;
    char *path = malloc(n);
    if (!path) return NULL;
    if (*name == '/' || !*folder)
        snprintf(path, n, "%s", name);
    else
        snprintf(path, n, "%s/%s", folder, name);
    return path;
}

static int check_names(const char *path, const models_list *list) {
    for (int i = 0; i < list->count; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(list->entry[i].name, list->entry[j].name) == 0)
                return tool_failed("%s: two models have the name %s, by which clients choose a "
                                   "model: set another \"name\" for one of them",
                                   path, list->entry[i].name);
    return TOOL_OK;
}

static int too_many(const char *path) {
    return tool_failed(
        "%s lists more than %d models, the limit of one server: remove some, or start "
        "another server for them",
        path, API_MODELS);
}

/* ---- a folder ---- */

/* Whether it is a later file of a model in several files: the list has only the first one. */
static bool is_later_part(const char *name) {
    const char *part = strstr(name, "-of-");
    return part && part - name > 6 && part[-6] == '-' && strncmp(part - 5, "00001", 5) != 0;
}

static bool is_model(const char *path, const char *name) {
    struct stat info;
    char config[PATH_MAX];
    if (name[0] == '.' || stat(path, &info) != 0) return false;
    if (S_ISREG(info.st_mode)) return ends_with(name, ".gguf") && !is_later_part(name);
    snprintf(config, sizeof config, "%s/config.json", path);
    return S_ISDIR(info.st_mode) && access(config, R_OK) == 0;
}

static int add_file(const char *folder, const char *name, models_list *list) {
    char *path = join(folder, name);
    if (!path) return out_of_memory();
    if (!is_model(path, name) || list->count == API_MODELS) {
        const bool full = list->count == API_MODELS && is_model(path, name);
        free(path);
        return full ? too_many(folder) : TOOL_OK;
    }
    models_entry *e = &list->entry[list->count++];
    *e = (models_entry){.path = path};
    copy_name(e, name);
    return TOOL_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const models_entry *)a)->name, ((const models_entry *)b)->name);
}

static int read_folder(const char *folder, models_list *list) {
    int code = TOOL_OK;
    DIR *all = opendir(folder);
    if (!all) return tool_failed("can't read the folder %s: %s", folder, strerror(errno));
    for (const struct dirent *at; code == TOOL_OK && (at = readdir(all));)
        code = add_file(folder, at->d_name, list);
    closedir(all);
    qsort(list->entry, (size_t)list->count, sizeof *list->entry, by_name);
    if (code == TOOL_OK && list->count == 0)
        code = tool_failed("the folder %s has no models: put *.gguf files or folders with a "
                           "config.json into it",
                           folder);
    return code;
}

/* ---- a file ---- */

/* The place in the file, for messages. */
typedef struct reading {
    const char *path;
    char folder[PATH_MAX];
    int number; /* of the model, from 1 */
} reading;

static int wrong(const reading *r, const char *key, const char *takes) {
    return tool_failed("%s: model %d: \"%s\" takes %s", r->path, r->number, key, takes);
}

static int read_adapters(const reading *r, const json_t *value, models_entry *e) {
    static const char takes[] = "a list of up to 8 texts \"FILE\" or \"FILE:SCALE\"";
    const json_t *one;
    size_t i;
    if (!json_is_array(value) || json_array_size(value) > TOOL_ADAPTERS_MAX)
        return wrong(r, "adapters", takes);
    json_array_foreach(value, i, one) {
        if (!json_is_string(one)) return wrong(r, "adapters", takes);
        e->adapter[i] = join(r->folder, json_string_value(one));
        if (!e->adapter[i]) return out_of_memory();
        e->adapters++;
    }
    return TOOL_OK;
}

static bool read_count(const json_t *value, int32_t least, int32_t *count) {
    const json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < least || n > INT32_MAX) return false;
    *count = (int32_t)n;
    return true;
}

static int read_key(const reading *r, const char *key, const json_t *value, models_entry *e) {
    if (strcmp(key, "name") == 0) {
        const char *name = json_string_value(value);
        if (!name || !*name || strlen(name) >= sizeof e->name)
            return wrong(r, key, "a text of 1 to 127 bytes");
        snprintf(e->name, sizeof e->name, "%s", name);
    } else if (strcmp(key, "path") == 0) {
        if (!json_is_string(value)) return wrong(r, key, "a text");
        free(e->path);
        e->path = join(r->folder, json_string_value(value));
        if (!e->path) return out_of_memory();
    } else if (strcmp(key, "adapters") == 0) {
        return read_adapters(r, value, e);
    } else if (strcmp(key, "context") == 0) {
        if (!read_count(value, 1, &e->context)) return wrong(r, key, "a number of tokens above 0");
    } else if (strcmp(key, "idle") == 0) {
        if (!read_count(value, 0, &e->idle))
            return wrong(r, key, "a number of seconds, 0 or more (0: no limit)");
    } else if (strcmp(key, "pin") == 0) {
        if (!json_is_boolean(value)) return wrong(r, key, "true or false");
        e->pin = json_is_true(value);
    } else {
        return tool_failed("%s: model %d has the unknown key \"%.60s\"; known keys: name, path, "
                           "adapters, context, pin, idle",
                           r->path, r->number, key);
    }
    return TOOL_OK;
}

static int read_entry(const reading *r, json_t *object, models_entry *e) {
    const char *key;
    json_t *value;
    int code = TOOL_OK;
    if (!json_is_object(object))
        return tool_failed("%s: model %d is not an object, such as {\"path\": \"a.gguf\"}", r->path,
                           r->number);
    json_object_foreach(object, key, value) {
        code = read_key(r, key, value, e);
        if (code != TOOL_OK) return code;
    }
    if (!e->path)
        return tool_failed("%s: model %d has no \"path\": set it to the model's file or folder",
                           r->path, r->number);
    if (!e->name[0]) copy_name(e, tool_file_name(e->path));
    return TOOL_OK;
}

static int read_root(reading *r, json_t *root, models_list *list) {
    json_t *models = json_object_get(root, "models"), *one;
    const char *key;
    json_t *value;
    size_t i;
    int code = TOOL_OK;
    json_object_foreach(root, key, value) if (strcmp(key, "models") != 0) return tool_failed(
        "%s: unknown key \"%.60s\"; known key: models", r->path, key);
    if (!json_is_array(models) || json_array_size(models) == 0)
        return tool_failed("%s: expected {\"models\": [...]} with at least one model", r->path);
    if (json_array_size(models) > API_MODELS) return too_many(r->path);
    json_array_foreach(models, i, one) {
        r->number = (int)i + 1;
        code = read_entry(r, one, &list->entry[list->count++]);
        if (code != TOOL_OK) return code;
    }
    return TOOL_OK;
}

static int read_file(const char *path, models_list *list) {
    reading r = {.path = path};
    json_error_t error;
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(r.folder, sizeof r.folder, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root && error.line <= 0) return tool_failed("can't read %s: %s", path, error.text);
    if (!root)
        return tool_failed("%s is not valid JSON: line %d: %s", path, error.line, error.text);
    const int code = read_root(&r, root, list);
    json_decref(root);
    return code;
}

int models_list_read(const char *path, models_list *list) {
    struct stat info;
    *list = (models_list){0};
    if (stat(path, &info) != 0) return tool_failed("can't open %s: %s", path, strerror(errno));
    const int code = S_ISDIR(info.st_mode) ? read_folder(path, list) : read_file(path, list);
    return code == TOOL_OK ? check_names(path, list) : code;
}

void models_list_fini(models_list *list) {
    for (int i = 0; i < list->count; i++) {
        free(list->entry[i].path);
        for (int k = 0; k < list->entry[i].adapters; k++) free(list->entry[i].adapter[k]);
    }
    list->count = 0;
}
