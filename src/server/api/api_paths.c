/* api_paths.c: what a path means that isn't one of ours: another server's, or half of one. */
#include <stdio.h>
#include <string.h>

#include "server/api/api_private.h"

/* llama.cpp's, and other routes of OpenAI's API. */
static const struct {
    const char *theirs, *text;
} others[] = {
    {"/api/", "of Ollama's API this server has POST /api/chat, /api/generate, /api/embed and "
              "/api/show, GET /api/tags, /api/ps and /api/version"},
    {"/embedding", "use POST /v1/embeddings"},
    {"/rerank", "reranking is not supported; POST /v1/embeddings gives vectors to compare"},
    {"/reranking", "reranking is not supported; POST /v1/embeddings gives vectors to compare"},
    {"/v1/rerank", "reranking is not supported; POST /v1/embeddings gives vectors to compare"},
    {"/v1/reranking", "reranking is not supported; POST /v1/embeddings gives vectors to compare"},
    {"/v1/audio/", "sound is not supported; use POST /v1/chat/completions with text"},
    {"/v1/images/", "images are not supported; use POST /v1/chat/completions with text"},
};

#define PAGE "; GET / is a chat page"

static bool begins(const char *path, const char *with) {
    const size_t n = strlen(with);
    return strncmp(path, with, n) == 0 && (with[n - 1] == '/' || !path[n]);
}

/* The route that the path is the end of: "/chat/completions"; NULL: there is none. */
static const http_route *longer_route(const char *path) {
    static const char version[] = "/v1";
    const http_route *routes;
    const size_t count = api_routes(&routes);
    for (size_t i = 0; i < count; i++)
        if (strncmp(routes[i].path, version, strlen(version)) == 0 &&
            strcmp(routes[i].path + strlen(version), path) == 0)
            return routes + i;
    return NULL;
}

const char *api_unknown_path(const char *path) {
    static char text[240];
    if (strcmp(path, "/v1") == 0 || strcmp(path, "/v1/") == 0)
        return "unknown path: this is the base URL of OpenAI's API, which has POST "
               "/v1/chat/completions and GET /v1/models" PAGE;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!begins(path, others[i].theirs)) continue;
        snprintf(text, sizeof text, "unknown path: %s" PAGE, others[i].text);
        return text;
    }
    const http_route *route = longer_route(path);
    if (!route)
        return "unknown path: this server has OpenAI's API (POST /v1/chat/completions, GET "
               "/v1/models)" PAGE;
    snprintf(text, sizeof text, "unknown path: use %s %s" PAGE, route->method, route->path);
    return text;
}
