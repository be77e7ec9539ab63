/* api_embed.h: a request for embeddings, between its body (api_embed_input.c) and its vectors
 * (api_embed.c). */
#ifndef MNEM_SRC_SERVER_API_EMBED_API_EMBED_H
#define MNEM_SRC_SERVER_API_EMBED_API_EMBED_H

#include "server/api/api_private.h"

typedef enum embed_form {
    EMBED_V1,
    EMBED_OLLAMA,    /* /api/embed */
    EMBED_OLLAMA_ONE /* /api/embeddings: one text, under another name */
} embed_form;

struct api_embed {
    api_owner owner;
    embed_form form;
    const char *name; /* of the field that has the texts */
    bool truncate;
    double begin_ms;
    api *api;
    api_served *served;
    http_exchange *exchange; /* NULL: gone */
    struct api_embed *next;  /* of the API's list */
    int32_t *ids, *begin;    /* text i is ids [begin[i], begin[i + 1]) */
    int32_t texts, at;       /* at: the one at hand */
    int32_t dimensions;      /* that are told */
    int32_t tries;           /* that found too few pages while nobody ran */
    bool base64, called, over;
    ask_keep keep;
    float *vector; /* [embd] */
    float *adapter_scales;
    api_text out;
    /* Under the lock: what came of the call. */
    bool done;
    mnem_status status;
    char why[200];
};

/* Reads the body of a request for e->served: fields, and the ids of all texts. false: error says
 * why not. */
bool api_embed_read(api_embed *e, const json_t *root, api_error *error);
/* Refuses a request for which too little memory is free. Always false. */
bool api_embed_refuse_memory(const api *a, api_error *error);

#endif
