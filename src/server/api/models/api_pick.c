/* api_pick.c: finds the model that a request names, and parks the request if it isn't loaded. */
#include <stdio.h>
#include <string.h>

#include "server/api/api_private.h"

bool api_has_several(const api *a) {
    return a->options.model_count > 0;
}

/* ---- names ---- */

static bool is_name(const char *listed, const char *name) {
    static const char tag[] = ":latest";
    const size_t n = strlen(listed);
    if (strncmp(name, listed, n) != 0) return false;
    return !name[n] || strcmp(name + n, tag) == 0;
}

api_slot *api_listed(const api *a, const char *name) {
    for (int32_t i = 0; i < a->slots; i++)
        if (is_name(a->slot[i].listing.name, name)) return a->slot + i;
    return NULL;
}

api_slot *api_find_model(const api *a, const char *name) {
    if (a->slots == 1 && (!a->options.strict_model || !name)) return a->slot;
    return name ? api_listed(a, name) : NULL;
}

/* Appends the names of the models to the message, as many as there is room for. */
static void list_names(const api *a, api_error *error) {
    size_t at = strlen(error->message);
    for (int32_t i = 0; i < a->slots; i++) {
        const char *name = a->slot[i].listing.name;
        const size_t room = sizeof error->message - at;
        if (strlen(name) + 8 > room) {
            snprintf(error->message + at, room, ", ...");
            return;
        }
        at += (size_t)snprintf(error->message + at, room, "%s%s", i ? ", " : " ", name);
    }
}

bool api_find_named(const api *a, const char *name, api_slot **slot, api_error *error) {
    *slot = api_find_model(a, name);
    if (*slot || error->status) return *slot != NULL;
    if (!api_has_several(a)) {
        error->code = "model_not_found";
        return api_refuse(error, 404, "model",
                          "the model '%.100s' does not exist on this server: set 'model' to "
                          "'%.100s', or leave it out",
                          name, a->slot->listing.name);
    }
    if (name) {
        error->code = "model_not_found";
        api_refuse(error, 404, "model",
                   "the model '%.100s' does not exist on this server, which has:", name);
    } else
        api_refuse(error, 400, "model", "'model' is missing: set it to one of:");
    list_names(a, error);
    return false;
}

/* ---- one that is loaded ---- */

static bool is_loaded(const api_slot *slot) {
    return slot->use.state == API_MODEL_LOADED;
}

bool api_pick_name(api *a, const char *name, const api_call *call, api_slot **slot,
                   api_error *error) {
    if (!api_find_named(a, name, slot, error)) return false;
    if (is_loaded(*slot)) return true;
    return api_check_ready(a, error) && api_park(a, *slot, call, error);
}

bool api_pick(api *a, const json_t *root, const api_call *call, api_slot **slot, api_error *error) {
    const char *name = NULL;
    return api_get_text(root, "model", &name, error) && api_pick_name(a, name, call, slot, error);
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool api_unescape(const char *text, size_t n, char *out, size_t room) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const bool hex =
            text[i] == '%' && i + 2 < n && digit_of(text[i + 1]) >= 0 && digit_of(text[i + 2]) >= 0;
        if (used + 1 >= room) return false;
        out[used++] = hex ? (char)(digit_of(text[i + 1]) << 4 | digit_of(text[i + 2])) : text[i];
        if (hex) i += 2;
    }
    out[used] = 0;
    return true;
}

bool api_query_get(const char *query, const char *name, char *out, size_t room) {
    const size_t n = strlen(name);
    while (*query) {
        const size_t length = strcspn(query, "&");
        if (length > n && query[n] == '=' && strncmp(query, name, n) == 0)
            return api_unescape(query + n + 1, length - n - 1, out, room);
        query += length + (query[length] == '&');
    }
    return false;
}

int32_t api_model_of_query(const api *a, const char *query) {
    char name[API_MODEL_NAME + 8];
    const bool named = api_query_get(query, "model", name, sizeof name);
    const api_slot *slot = named ? api_find_model(a, name) : NULL;
    return slot ? slot->index : 0;
}

bool api_pick_query(api *a, http_exchange *exchange, const http_request *http, api_slot **slot,
                    api_error *error) {
    char name[API_MODEL_NAME + 8];
    const bool named = api_query_get(http->query, "model", name, sizeof name);
    const api_call call = {exchange, http, false};
    return api_check_loaded(a, error) &&
           api_pick_name(a, named && api_has_several(a) ? name : NULL, &call, slot, error);
}

/* ---- the server ---- */

/* A server with several models loads each when it is needed, so it takes requests as soon as it
 * runs. */
bool api_check_loaded(const api *a, api_error *error) {
    if (api_has_several(a) ? a->server != NULL : a->slot->served->scheduler != NULL) return true;
    error->retry_seconds = 1;
    return api_refuse(error, 503, NULL, "the server is still loading the model: try again later");
}

bool api_check_ready(const api *a, api_error *error) {
    if (!a->draining) return api_check_loaded(a, error);
    error->retry_seconds = 5;
    return api_refuse(error, 503, NULL, "the server is shutting down and accepts no new requests");
}
