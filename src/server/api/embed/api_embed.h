/* api_embed.h: a request for embeddings, between its body (api_embed_input.c) and its vectors
 * (api_embed.c). */
#ifndef MNEM_SRC_SERVER_API_EMBED_API_EMBED_H
#define MNEM_SRC_SERVER_API_EMBED_API_EMBED_H

#include "server/api/api_private.h"

typedef enum embed_form {
    EMBED_V1,
    EMBED_OLLAMA,    /* /api/embed */
    EMBED_OLLAMA_ONE /* /api/embeddings: one text, in the field "prompt" */
} embed_form;

struct api_embed {
    api_owner owner;
    embed_form form;
    const char *name; /* of the field with the texts */
    bool truncate;
    double begin_ms;
    api *api;
    api_served *served;
    http_exchange *exchange; /* NULL: the client is gone */
    struct api_embed *next;  /* in the API's list */
    int32_t *ids, *begin;    /* text i is ids [begin[i], begin[i + 1]) */
    int32_t texts, at;       /* at: index of the present text */
    int32_t dimensions;      /* of the vectors in the answer */
    int32_t tries;           /* number that found too few pages while no request ran */
    bool base64, called, over;
    ask_keep keep;
    float *vector; /* [embd] */
    float *adapter_scales;
    api_text out;
    /* Under the lock: the result of the call. */
    bool done;
    mnem_status status;
    char why[200];
};

/* Reads the body of a request to e->served: fields, and the ids of all texts. false: error says
 * why. */
bool api_embed_read(api_embed *e, const json_t *root, api_error *error);
/* Refuses a request because too little memory is free. Returns false. */
bool api_embed_refuse_memory(const api *a, api_error *error);

#endif
