/* live_serve.h: the API over real sockets, with an engine and a scheduler: the model that ships,
 * each of the two threads that a server has. */
#ifndef MNEM_TESTS_TOOLS_SERVE_KIT_LIVE_SERVE_H
#define MNEM_TESTS_TOOLS_SERVE_KIT_LIVE_SERVE_H

#include "kit/kit.h"
#include "server/api/api.h"

enum { LIVE_ANSWER = 1 << 20 };

/* The model's file. */
extern const char live_model[];
/* options: ledger, model and tokenizer are set here. */
void live_open(const api_options *options, int32_t sequences);
typedef struct live_room {
    int32_t sequences, pages_tokens; /* as of mnem_engine_options */
    const char *swap;                /* as of mnem_scheduler_options */
    const mnem_adapter *adapters;    /* as of mnem_engine_options */
    int32_t adapter_count;
} live_room;
void live_open_with(const api_options *options, const live_room *room);
void live_close(void);
/* Before and behind a test: four conversations, and no option. */
int live_setup(void **state);
int live_teardown(void **state);
mnem_scheduler_stats live_stats(void);
/* In the ledger. */
uint64_t live_bytes(void);

/* A request on a connection of its own. */
int live_send(const char *method, const char *path, const char *body);
/* The whole answer, chunks put together: status, and body into out. */
int live_read(int fd, char out[LIVE_ANSWER]);
/* Both. */
int live_ask(const char *method, const char *path, const char *body, char out[LIVE_ANSWER]);

#endif
