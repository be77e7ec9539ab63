/* api_adapters.h: which of its model's adapters a request uses.
 *
 *     "lora": [{"name": "style", "scale": 0.5}, {"id": 2}]
 *
 * An entry names an adapter by its number (--lora in their order, from 0) or by its name: that of
 * its file without the extension, of a trained or PEFT's folder the folder's. scale is 1 where an
 * entry has none; adapters without an entry aren't applied. Without the field what
 * POST /lora-adapters said last holds, else the scales of the command line. */
#ifndef MNEM_SRC_SERVER_API_API_ADAPTERS_H
#define MNEM_SRC_SERVER_API_API_ADAPTERS_H

#include "server/api/api_private.h"

/* *scales: of all adapters, to be freed by api_free; NULL: those of the command line. false: error
 * says why not. */
bool api_adapters_read(api *a, const api_slot *slot, const json_t *root, float **scales,
                       api_error *error);

void api_on_adapters(void *context, http_exchange *exchange, const http_request *request);
void api_on_set_adapters(void *context, http_exchange *exchange, const http_request *request);

#endif
