/* api_memory.h: the bytes that requests and answers may take together, counted, and texts that grow
 * in them.
 *
 * The whole is charged to the ledger before the plan; what doesn't fit in it is refused to the
 * client that asked, never to the process. One thread. */
#ifndef MNEM_SRC_SERVER_API_API_MEMORY_H
#define MNEM_SRC_SERVER_API_API_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct api_memory {
    uint64_t bytes; /* most, with what each block takes beside its bytes */
    uint64_t bytes_live, bytes_peak;
} api_memory;

/* Zeroed; NULL: no room. */
void *api_alloc(api_memory *memory, size_t bytes);
void api_free(api_memory *memory, void *block); /* NULL is fine */

/* Zero but for memory to start. What it has no room for is left out, and failed is set: whoever
 * writes looks there at the end. bytes is NULL while nothing was put. */
typedef struct api_text {
    api_memory *memory;
    char *bytes;
    size_t length, room;
    bool failed;
} api_text;

void api_text_fini(api_text *text);
void api_put(api_text *text, const char *bytes, size_t n);
void api_say(api_text *text, const char *words);
void api_format(api_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A JSON string with its quotes, of whole characters. */
void api_quote(api_text *text, const char *bytes, size_t n);
/* What stands within its quotes. */
void api_escape(api_text *text, const char *bytes, size_t n);
/* A JSON number; null where it isn't finite. */
void api_put_real(api_text *text, double value);
/* The first n bytes go. */
void api_drop(api_text *text, size_t n);

#endif
