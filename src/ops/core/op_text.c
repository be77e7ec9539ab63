/* op_text.c: operators and their operands as text, for errors. Below the operators; the registry
 * that knows them all is above. */
#include <stdarg.h>
#include <stdio.h>

#include "ops/core/op_impl.h"

static const char *const texts[MNEM_OP_COUNT] = {
#define OP_TEXT(name, text) [MNEM_OP_##name] = text,
    MNEM_OP_LIST(OP_TEXT)
#undef OP_TEXT
};

const char *mnem_op_text(mnem_op_kind kind) {
    return (unsigned)kind < MNEM_OP_COUNT ? texts[kind] : "unknown operator";
}

static const char *layout_text(mnem_layout layout) {
    return layout == MNEM_LAYOUT_PACKED ? " packed" : layout == MNEM_LAYOUT_SPARSE ? " 2:4" : "";
}

/* Appends "name TYPE [2, 3]" to text. */
static size_t append_tensor(char *text, size_t size, size_t at, const char *name,
                            const mnem_tensor *t) {
    const mnem_type_info *info = mnem_type_get(t->type);
    int n = snprintf(text + at, size - at, "%s%s %s%s [", at ? ", " : "", name,
                     info ? info->name : "?", layout_text(t->layout));
    for (int d = 0; n >= 0 && d < t->dims && d < MNEM_TENSOR_DIMS; d++) {
        at = at + (size_t)n < size ? at + (size_t)n : size - 1;
        n = snprintf(text + at, size - at, "%s%lld", d ? ", " : "", (long long)t->shape[d]);
    }
    at = at + (size_t)n < size ? at + (size_t)n : size - 1;
    n = snprintf(text + at, size - at, "]");
    return at + (size_t)n < size ? at + (size_t)n : size - 1;
}

mnem_status mnem__op_fail(mnem_status status, const mnem_op_desc *desc, const char *format, ...) {
    static const char *const names[MNEM_OP_INPUTS] = {"in[0]", "in[1]", "in[2]", "in[3]",
                                                      "in[4]", "in[5]", "in[6]"};
    static const char *const also[MNEM_OP_ALSO] = {"also[0]", "also[1]"};
    char text[400] = "", what[240];
    size_t at = 0;
    for (int i = 0; i < MNEM_OP_INPUTS; i++)
        if (desc->in[i].dims > 0) at = append_tensor(text, sizeof text, at, names[i], &desc->in[i]);
    if (desc->out.dims > 0) at = append_tensor(text, sizeof text, at, "out", &desc->out);
    for (int i = 0; i < MNEM_OP_ALSO; i++)
        if (desc->also[i].dims > 0)
            at = append_tensor(text, sizeof text, at, also[i], &desc->also[i]);
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    return mnem__fail(status, "%s (%s): %s", mnem_op_text(desc->kind), text, what);
}
