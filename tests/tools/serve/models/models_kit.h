/* models_kit.h: three small models of which a budget holds two, and clients that ask for one of
 * them, from any thread. */
#ifndef MNEM_TESTS_TOOLS_SERVE_MODELS_MODELS_KIT_H
#define MNEM_TESTS_TOOLS_SERVE_MODELS_MODELS_KIT_H

#include "tools/serve/tool_server.h"

enum { KIT_MODELS = 3, KIT_TEXT = 1024 };

/* "llama", "qwen3", and "hybrid", which has recurrent layers. */
extern const char *const kit_model[KIT_MODELS];

/* scratch/models with the three in it, as *.gguf. Storage of its own. */
const char *kit_models(void);
/* The value of --memory in which so many of them fit, any of them, and not one more. list: what
 * --models names, with the three in it. */
const char *kit_budget(const char *list, int models);
uint64_t kit_budget_bytes(void); /* the last one */
/* Skips a test in which one model more than that must not fit: sanitizers take memory that changes
 * from start to start. */
void kit_needs_exact_budget(void);

typedef struct kit_answer {
    int status; /* 0: the connection ended */
    char text[KIT_TEXT];
    int prompt_tokens, cached_tokens;
    double first_seconds, seconds; /* until the first token, the end */
    bool loading;                  /* it was told to wait */
} kit_answer;
/* A completion of a prompt as a stream, without chance. May be called by several threads. */
kit_answer kit_ask(const char *model, const char *prompt, int tokens);

/* Bytes that the ledger has now, as the page shows them. */
int64_t kit_live_bytes(void);

#endif
