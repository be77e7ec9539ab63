/* ask_infill.c: a hole between two texts: POST /infill, and `suffix` of other routes. */
#include <stdio.h>
#include <string.h>

#include "server/api/ask/ask_private.h"

bool ask_set_hole(ask_reader *r, const json_t *prefix, const json_t *suffix, const char *param) {
    ask_request *ask = r->ask;
    if (!r->defaults->fills) {
        r->error->code = "unsupported";
        return api_refuse(r->error, 400, param,
                          "'%s' is not supported: the vocabulary of this model has no "
                          "fill-in-the-middle tokens",
                          param);
    }
    if (!json_is_string(prefix))
        return api_refuse(r->error, 400, "prompt", "'prompt' must be a string beside 'suffix'");
    if (ask->echo)
        return api_refuse(r->error, 400, "echo",
                          "'echo' can't be combined with 'suffix': leave one out");
    ask->prefix = prefix;
    ask->suffix = suffix;
    return true;
}

bool ask_read_suffix(ask_reader *r, const char **suffix) {
    const json_t *value = api_get(r->root, "suffix");
    *suffix = "";
    if (!api_get_text(r->root, "suffix", suffix, r->error)) return false;
    return !**suffix || ask_set_hole(r, api_get(r->root, "prompt"), value, "suffix");
}

/* Other files: {"text", "filename"} */
static bool check_extra(ask_reader *r) {
    const json_t *extra = api_get(r->root, "input_extra"), *chunk;
    char param[96];
    size_t i;
    if (!extra) return true;
    if (!json_is_array(extra))
        return api_refuse(r->error, 400, "input_extra",
                          "'input_extra' must be a list of objects with 'text' and 'filename'");
    json_array_foreach(extra, i, chunk) {
        const char *text = NULL, *name = NULL;
        snprintf(param, sizeof param, "input_extra[%zu]", i);
        if (!json_is_object(chunk) || !api_get_text(chunk, "text", &text, r->error) ||
            !api_get_text(chunk, "filename", &name, r->error) || !text)
            return api_refuse(r->error, 400, param,
                              "'%s' must be an object with a string 'text' and, where it is "
                              "known, a string 'filename'",
                              param);
    }
    r->ask->extra = extra;
    return true;
}

static bool check_texts(ask_reader *r) {
    static const char *const names[] = {"input_prefix", "input_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *text = NULL;
        if (!api_get_text(r->root, names[i], &text, r->error)) return false;
        if (!text)
            return api_refuse(r->error, 400, names[i],
                              "'%s' is missing: set it to the text %s the hole", names[i],
                              i ? "behind" : "in front of");
    }
    return true;
}

bool ask_read_infill(ask_reader *r) {
    r->ask->middle = "";
    return check_texts(r) && check_extra(r) &&
           ask_set_hole(r, api_get(r->root, "input_prefix"), api_get(r->root, "input_suffix"),
                        "input_suffix") &&
           api_get_text(r->root, "prompt", &r->ask->middle, r->error) && ask_read_flat(r);
}
