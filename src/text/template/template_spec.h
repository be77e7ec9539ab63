/* template_spec.h: format specifications of both Python syntaxes: '%5.2f' and '{:5.2f}'. */
#ifndef MNEM_SRC_TEXT_TEMPLATE_TEMPLATE_SPEC_H
#define MNEM_SRC_TEXT_TEMPLATE_TEMPLATE_SPEC_H

#include "text/template/template_call.h"

typedef struct mnem__spec {
    char fill[4];
    size_t fill_bytes;
    char align; /* < > ^ = or 0 */
    char sign;  /* + - or space */
    char type;
    char group; /* the separator of groups of digits: , or _ or 0 */
    bool alternate;
    int width, precision; /* precision -1: none */
} mnem__spec;

static inline mnem__spec mnem__spec_plain(void) {
    return (mnem__spec){.fill = " ", .fill_bytes = 1, .precision = -1};
}
/* The byte at a position; 0: past the end. */
static inline char mnem__spec_at(mnem__any text, size_t at) {
    return at < text.length ? text.text[at] : 0;
}
/* Reads digits at *at, which moves behind them; bounded. */
int mnem__spec_count(mnem_template *t, mnem__any text, size_t *at);
/* Refuses a width or precision that is too large. */
void mnem__spec_check(mnem_template *t, int64_t count);

/* Each writes to the output, padded to the width. */
void mnem__spec_put_text(mnem_template *t, const mnem__spec *s, mnem__any text);
void mnem__spec_put_int(mnem_template *t, const mnem__spec *s, int64_t i);
void mnem__spec_put_float(mnem_template *t, const mnem__spec *s, double f);
/* The character of a code. */
void mnem__spec_put_code(mnem_template *t, const mnem__spec *s, mnem__any code);
/* ascii(value): its repr() with escapes beyond ASCII. */
mnem__any mnem__spec_ascii(mnem_template *t, mnem__any value);

#endif
