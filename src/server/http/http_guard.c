/* http_guard.c: who may ask: the Host and the Origin that a browser sends, and keys.
 *
 * A server on the loopback is still reached by every page that the user's browser shows. Two ways
 * are closed: a name of the attacker's that turns into 127.0.0.1 (then Host isn't ours), and a
 * request that a page sends without reading the answer (then Origin isn't ours). Programs of the
 * desktop whose windows are pages (editors, notes) have schemes of their own, which no page of the
 * web can have: they may ask. */
#include <string.h>
#include <strings.h>

#include "server/http/http_private.h"

/* Does the host stand there, with a port behind it or not? */
static bool is_host(const char *value, const char *host) {
    const size_t n = strlen(host);
    if (strncasecmp(value, host, n) != 0) return false;
    value += n;
    return *value == 0 || (*value == ':' && strspn(value + 1, "0123456789") == strlen(value + 1));
}

/* "127.", three numbers, perhaps a port: and not "127.0.0.1.example.com". */
static bool is_loopback(const char *value) {
    char host[16];
    const size_t n = strspn(value, "0123456789.");
    if (n >= sizeof host || strncmp(value, "127.", 4) != 0) return false;
    memcpy(host, value, n);
    host[n] = 0;
    return is_host(value, host);
}

int http__guard_host(const http_server *server, const http_head *head, const char **why) {
    const char *host = http__head_value(head, "host");
    *why = "the Host header is missing, which HTTP/1.1 requires";
    if (!host) return head->old ? 0 : 400;
    *why = "the Host header must be localhost or a loopback address, such as 127.0.0.1";
    if (!server->loopback || is_host(host, "localhost") || is_host(host, "[::1]") ||
        is_loopback(host))
        return 0;
    return 403;
}

static bool same_origin(const http_head *head, const char *origin) {
    const char *host = http__head_value(head, "host");
    const size_t n = strncasecmp(origin, "http://", 7) == 0    ? 7
                     : strncasecmp(origin, "https://", 8) == 0 ? 8
                                                               : 0;
    return host && n && strcasecmp(origin + n, host) == 0;
}

static bool is_program(const char *origin) {
    static const char *const schemes[] = {"app://", "tauri://", "vscode-webview://",
                                          "vscode-file://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncasecmp(origin, schemes[i], strlen(schemes[i])) == 0) return true;
    return false;
}

/* Whether the origin is a page of this machine. */
static bool is_here(const char *origin) {
    const char *host = strstr(origin, "://");
    if (!host) return false;
    host += 3;
    return is_host(host, "localhost") || is_host(host, "[::1]") || is_loopback(host);
}

int http__guard_origin(const http_server *server, const http_head *head, char *origin,
                       const char **why) {
    const char *value = http__head_value(head, "origin"), *allowed = server->options.cors;
    *origin = 0;
    if (!value || same_origin(head, value)) return 0;
    *why =
        "requests from pages of this origin are not allowed: start the server with --cors ORIGIN";
    if (strlen(value) >= HTTP_KEY_MAX) return 403;
    const bool listed = allowed && (strcmp(allowed, "*") == 0 || strcasecmp(allowed, value) == 0 ||
                                    (strcmp(allowed, "localhost") == 0 && is_here(value)));
    if (!listed && !is_program(value)) return 403;
    strcpy(origin, value);
    return 0;
}

/* ---- keys ---- */

static const char *key_given(const http_head *head) {
    const char *value = http__head_value(head, "authorization");
    if (!value) return http__head_value(head, "x-api-key");
    if (strncasecmp(value, "bearer ", 7) != 0) return NULL;
    return value + 7 + strspn(value + 7, " ");
}

int32_t http__guard_key(const http_server *server, const http_head *head) {
    const char *given = key_given(head);
    char padded[HTTP_KEY_MAX] = {0};
    int32_t found = -1;
    if (!given || strlen(given) >= sizeof padded) return -1;
    memcpy(padded, given, strlen(given));
    for (int32_t k = 0; k < server->options.key_count; k++) {
        uint32_t differs = 0;
        for (int i = 0; i < HTTP_KEY_MAX; i++)
            differs |= (uint32_t)(padded[i] ^ server->keys[k][i]) & 0xff;
        const int32_t same = (int32_t)((differs - 1) >> 8 & 1); /* 1 for 0, without a branch */
        found = same * k + (1 - same) * found;
    }
    return found;
}
