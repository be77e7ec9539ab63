/* template_percent.c: text % values: '%s, %5.2f' with a tuple, one value, or a dict for %(name)s.
 *
 * A place is read into a spec, and its value written by that. */
#include <math.h>
#include <string.h>

#include "text/template/template_spec.h"

/* The values that places take one after the other. */
typedef struct percent {
    mnem__any text, values;
    uint32_t next, count;
} percent;

static mnem__any next_value(mnem_template *t, percent *p) {
    if (p->next >= p->count)
        mnem__template_refuse(
            t, "%%-formatting: the format text has places for more than the %u values given",
            p->count);
    const uint32_t i = p->next++;
    return mnem__any_is(p->values, MNEM__ANY_TUPLE) ? p->values.list->items[i] : p->values;
}

/* The value of "(name)" at *at, which moves behind it. */
static mnem__any named_value(mnem_template *t, percent *p, size_t *at) {
    const char *close = memchr(p->text.text + *at, ')', p->text.length - *at);
    if (!close) mnem__template_refuse(t, "%%-formatting: '%%(' has no closing ')'");
    if (!mnem__any_is(p->values, MNEM__ANY_DICT))
        mnem__template_refuse(t, "%%-formatting: '%%(name)' needs a dict, found a value of type %s",
                              mnem__any_type(p->values));
    const size_t begin = *at + 1, n = (size_t)(close - p->text.text) - begin;
    const mnem__any *value =
        mnem__any_dict_find(t, p->values.dict, mnem__any_text(p->text.text + begin, n));
    if (!value)
        mnem__template_refuse(t, "%%-formatting: the dict does not have the key '%.*s'",
                              (int)(n < 64 ? n : 64), p->text.text + begin);
    *at = begin + n + 1;
    p->next = p->count; /* no count of places */
    return *value;
}

/* Digits, or the next value where a star stands for them. */
static int read_count(mnem_template *t, percent *p, size_t *at) {
    if (mnem__spec_at(p->text, *at) != '*') return mnem__spec_count(t, p->text, at);
    ++*at;
    const int64_t count = mnem__argument_int(t, next_value(t, p), 0, "%*");
    mnem__spec_check(t, count < 0 ? -(count + 1) : count);
    return (int)count;
}

/* Behind '%' and a name: flags, width, precision and type. */
static mnem__spec read_spec(mnem_template *t, percent *p, size_t *at) {
    mnem__spec s = mnem__spec_plain();
    bool zeros = false;
    for (char c; (c = mnem__spec_at(p->text, *at)) != 0 && strchr("-+ 0#", c); (*at)++) {
        if (c == '-') s.align = '<';
        if (c == '0') zeros = true;
        if (c == '#') s.alternate = true;
        if (c == '+' || (c == ' ' && !s.sign)) s.sign = c;
    }
    s.width = read_count(t, p, at);
    if (s.width < 0) {
        s.align = '<';
        s.width = -s.width;
    }
    if (mnem__spec_at(p->text, *at) == '.') {
        ++*at;
        s.precision = read_count(t, p, at);
        if (s.precision < 0) s.precision = 0;
    }
    if (mnem__spec_at(p->text, *at) && strchr("hlL", mnem__spec_at(p->text, *at))) ++*at;
    s.type = mnem__spec_at(p->text, (*at)++);
    if (zeros && !s.align && s.type && !strchr("srac", s.type)) {
        s.align = '=';
        s.fill[0] = '0';
    }
    if (!s.align) s.align = '>';
    return s;
}

static void put_int(mnem_template *t, mnem__spec s, mnem__any value) {
    const bool decimal = strchr("diu", s.type) != NULL;
    if (!mnem__any_number(value) || (!decimal && mnem__any_is(value, MNEM__ANY_FLOAT)))
        mnem__template_refuse(t, "%%-formatting: '%%%c' needs %s, found a value of type %s", s.type,
                              decimal ? "a number" : "an integer", mnem__any_type(value));
    if (mnem__any_is(value, MNEM__ANY_FLOAT)) {
        if (!(fabs(value.f) < 9e18))
            mnem__template_refuse(t, "%%-formatting: %g does not fit in an integer of 64 bits",
                                  value.f);
        value = mnem__any_int((int64_t)value.f);
    }
    if (decimal) s.type = 'd';
    mnem__spec_put_int(t, &s, value.i);
}

static void put_char(mnem_template *t, mnem__spec s, mnem__any value) {
    s.precision = -1;
    if (!mnem__any_is(value, MNEM__ANY_TEXT))
        mnem__spec_put_code(t, &s, value);
    else if (mnem__any_length(value) == 1)
        mnem__spec_put_text(t, &s, value);
    else
        mnem__template_refuse(t, "%%-formatting: '%%c' needs one character, found %lld characters",
                              (long long)mnem__any_length(value));
}

static void put_value(mnem_template *t, const mnem__spec *s, mnem__any value) {
    const size_t mark = t->out_bytes;
    if (!s->type || !strchr("sracdiuxXoeEfFgG", s->type))
        mnem__template_refuse(t, "%%-formatting: no known letter follows '%%', as in %%s; write "
                                 "%%%% for a percent sign");
    if (s->type == 'a') {
        mnem__spec_put_text(t, s, mnem__spec_ascii(t, value));
    } else if (s->type == 'r') {
        mnem__template_put_repr(t, value);
        mnem__spec_put_text(t, s, mnem__template_cut(t, mark));
    } else if (s->type == 's') {
        mnem__spec_put_text(t, s, mnem__template_str(t, value));
    } else if (s->type == 'c') {
        put_char(t, *s, value);
    } else if (strchr("diuxXo", s->type)) {
        put_int(t, *s, value);
    } else {
        if (!mnem__any_number(value))
            mnem__template_refuse(t,
                                  "%%-formatting: '%%%c' needs a number, found a value of type %s",
                                  s->type, mnem__any_type(value));
        mnem__spec_put_float(t, s, mnem__any_f64(value));
    }
}

/* The place behind the '%' before at; behind it. */
static size_t put_place(mnem_template *t, percent *p, size_t at) {
    mnem__any value = mnem__any_of(MNEM__ANY_MISSING);
    if (mnem__spec_at(p->text, at) == '(') value = named_value(t, p, &at);
    const mnem__spec s = read_spec(t, p, &at);
    if (s.type == '%') {
        mnem__template_put(t, "%", 1);
        return at;
    }
    put_value(t, &s, mnem__is_given(value) ? value : next_value(t, p));
    return at;
}

mnem__any mnem__text_percent(mnem_template *t, mnem__any text, mnem__any values) {
    const size_t mark = t->out_bytes;
    const bool tuple = mnem__any_is(values, MNEM__ANY_TUPLE);
    percent p = {text, values, 0, tuple ? values.list->count : 1};
    for (size_t at = 0; at < text.length;) {
        const char *sign = memchr(text.text + at, '%', text.length - at);
        const size_t n = sign ? (size_t)(sign - text.text) - at : text.length - at;
        mnem__template_put(t, text.text + at, n);
        at += n + 1;
        if (sign) at = put_place(t, &p, at);
    }
    const bool counts =
        tuple ||
        !(mnem__any_is(values, MNEM__ANY_DICT) || mnem__any_is(values, MNEM__ANY_LIST) ||
          mnem__any_is(values, MNEM__ANY_RANGE) || mnem__any_is(values, MNEM__ANY_UNDEFINED));
    if (counts && p.next < p.count)
        mnem__template_refuse(
            t, "%%-formatting: %u values are given, but the format text has places for %u", p.count,
            p.next);
    return mnem__template_cut(t, mark);
}
