/* tensor_rules.h: types that the user chose by name patterns. */
#ifndef MNEM_SRC_MODEL_CONVERT_TENSOR_RULES_H
#define MNEM_SRC_MODEL_CONVERT_TENSOR_RULES_H

#include "mnem/model.h"

typedef struct mnem__tensor_rules mnem__tensor_rules;

/* MNEM_INVALID names the pattern or the type. */
mnem_status mnem__tensor_rules_create(const mnem_tensor_rule *rule, int32_t count,
                                      mnem__tensor_rules **rules);
void mnem__tensor_rules_destroy(mnem__tensor_rules *rules); /* NULL is fine */
/* The type of the first rule that matches the name. MNEM_INVALID: matching takes too long. */
mnem_status mnem__tensor_rules_find(mnem__tensor_rules *rules, const char *name, bool *found,
                                    mnem_type *type);
/* MNEM_INVALID names a pattern that matched no name: it is probably wrong. */
mnem_status mnem__tensor_rules_check(const mnem__tensor_rules *rules);

#endif
