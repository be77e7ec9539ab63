/* api_adapters.h: the adapters that a request uses, and their scales.
 *
 *     "lora": [{"name": "style", "scale": 0.5}, {"id": 2}]
 *
 * An entry names an adapter by its number (the order of the --lora options, from 0) or by its name:
 * the file's name without its extension or, for the folder of an adapter that mnem train or PEFT
 * wrote, the folder's name. The default scale of an entry is 1. Adapters without an entry aren't
 * applied. A request without the field uses the scales that POST /lora-adapters set last, or else
 * those of the command line. Where several names share an engine, each sees the adapters of its own
 * entry only, numbered from 0; the others aren't applied to its requests. */
#ifndef MNEM_SRC_SERVER_API_API_ADAPTERS_H
#define MNEM_SRC_SERVER_API_API_ADAPTERS_H

#include "server/api/api_private.h"

/* *scales: one scale per adapter of the engine, to be freed by api_free; NULL: those of the command
 * line. false: error says why. */
bool api_adapters_read(api *a, const api_slot *slot, const json_t *root, float **scales,
                       api_error *error);

void api_on_adapters(void *context, http_exchange *exchange, const http_request *request);
void api_on_set_adapters(void *context, http_exchange *exchange, const http_request *request);

#endif
