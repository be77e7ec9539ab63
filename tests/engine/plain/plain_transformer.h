/* plain_transformer.h: a transformer in double precision, as the papers write it; the reference for
 * whole models. Slow: every weight is a double, nothing is cached. */
#ifndef MNEM_TESTS_ENGINE_PLAIN_PLAIN_TRANSFORMER_H
#define MNEM_TESTS_ENGINE_PLAIN_PLAIN_TRANSFORMER_H

#include "mnem/mnem.h"

/* logits [vocab] behind the last of n tokens. Plain or linearly scaled RoPE, with or without
 * frequency factors. false when the model can't be read. */
bool plain_transformer_logits(const mnem_model *model, const int32_t *ids, int n, double *logits);

#endif
