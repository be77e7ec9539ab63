/* api_memory.h: the memory that all requests and answers share, counted in bytes, and texts that
 * grow in it.
 *
 * All of it is charged to the ledger before the plan. A request that doesn't fit is refused; the
 * process never fails for it. One thread. */
#ifndef MNEM_SRC_SERVER_API_API_MEMORY_H
#define MNEM_SRC_SERVER_API_API_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct api_memory {
    uint64_t bytes; /* the limit, including the overhead of each block */
    uint64_t bytes_live, bytes_peak;
} api_memory;

/* Returns zeroed bytes; NULL: no room. */
void *api_alloc(api_memory *memory, size_t bytes);
void api_free(api_memory *memory, void *block); /* accepts NULL */

/* Start with all fields zero except memory. Text that has no room is dropped, and failed is set:
 * the writer checks it at the end. bytes is NULL while the text is empty. */
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
/* Writes a JSON string with its quotes; bytes holds whole characters. */
void api_quote(api_text *text, const char *bytes, size_t n);
/* The same without the quotes. */
void api_escape(api_text *text, const char *bytes, size_t n);
/* Writes a JSON number; null if it isn't finite. */
void api_put_real(api_text *text, double value);
/* Removes the first n bytes. */
void api_drop(api_text *text, size_t n);

#endif
