/* template_operators.c: binary operators, as in Python, with integers of 64 bits. */
#include <math.h>

#include "text/template/template_call.h"
#include "text/template/template_node.h"

static const char *sign_text(int sign, char out[2]) {
    out[0] = (char)sign;
    out[1] = 0;
    return sign == MNEM__SIGN_POWER ? "**" : sign == MNEM__SIGN_FLOOR ? "//" : out;
}

static _Noreturn void mismatch(mnem_template *t, int sign, mnem__any a, mnem__any b) {
    char text[2];
    if (mnem__any_big(a) || mnem__any_big(b))
        mnem__template_refuse(t, "the operator %s does not support integers of more than 64 bits",
                              sign_text(sign, text));
    if (mnem__any_is(a, MNEM__ANY_UNDEFINED)) mnem__template_undefined(t, a);
    if (mnem__any_is(b, MNEM__ANY_UNDEFINED)) mnem__template_undefined(t, b);
    mnem__template_refuse(t, "the operator %s can't be used with the types %s and %s",
                          sign_text(sign, text), mnem__any_type(a), mnem__any_type(b));
}

/* ---- numbers ---- */

static bool power(int64_t base, int64_t exponent, int64_t *result) {
    int64_t value = 1;
    for (bool overflow = false; exponent > 0; exponent /= 2) {
        if (overflow) return false;
        if (exponent % 2 && __builtin_mul_overflow(value, base, &value)) return false;
        overflow = __builtin_mul_overflow(base, base, &base);
    }
    *result = value;
    return true;
}

static mnem__any whole(mnem_template *t, int sign, int64_t a, int64_t b) {
    int64_t result = 0;
    bool fits = true;
    switch (sign) {
    case '+': fits = !__builtin_add_overflow(a, b, &result); break;
    case '-': fits = !__builtin_sub_overflow(a, b, &result); break;
    case '*': fits = !__builtin_mul_overflow(a, b, &result); break;
    case '%': /* has the sign of b */
        if (b != -1) result = a % b;
        if (result != 0 && (result < 0) != (b < 0)) result += b;
        break;
    case MNEM__SIGN_FLOOR:
        fits = !(a == INT64_MIN && b == -1);
        if (fits) result = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    default: fits = power(a, b, &result);
    }
    if (!fits) {
        char text[2];
        mnem__template_refuse(t, "the result of the operator %s exceeds an integer of 64 bits",
                              sign_text(sign, text));
    }
    return mnem__any_int(result);
}

static double modulo(double a, double b) {
    const double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest != 0 ? rest : copysign(0, b);
}

/* The quotient is whole but for rounding; a zero has the sign that the quotient would have. */
static double floor_of(double a, double b) {
    const double quotient = round((a - modulo(a, b)) / b);
    return quotient != 0 ? quotient : copysign(0, a / b);
}

static double floats(mnem_template *t, int sign, double a, double b) {
    switch (sign) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    case '/': return a / b;
    case '%': return modulo(a, b);
    case MNEM__SIGN_FLOOR: return floor_of(a, b);
    default:
        if (a < 0 && b != floor(b))
            mnem__template_refuse(t, "%g ** %g: the result is not a real number", a, b);
        if (a == 0 && b < 0) mnem__template_refuse(t, "%g ** %g: the result divides by 0", a, b);
        if (isinf(pow(a, b)) && !isinf(a + b))
            mnem__template_refuse(t, "%g ** %g: the result is too large for a float", a, b);
        return pow(a, b);
    }
}

static _Noreturn void refuse_zero(mnem_template *t, int sign) {
    char text[2];
    mnem__template_refuse(t, "the operator %s divides by 0", sign_text(sign, text));
}

static mnem__any numbers(mnem_template *t, int sign, mnem__any a, mnem__any b) {
    const bool divides = sign == '/' || sign == '%' || sign == MNEM__SIGN_FLOOR;
    const bool both = mnem__any_whole(a) && mnem__any_whole(b);
    const bool makes_float = sign == '/' || (sign == MNEM__SIGN_POWER && b.i < 0);
    if (divides && mnem__any_f64(b) == 0) refuse_zero(t, sign);
    if (both && !makes_float) return whole(t, sign, a.i, b.i);
    return mnem__any_float(floats(t, sign, mnem__any_f64(a), mnem__any_f64(b)));
}

/* ---- texts and lists ---- */

static mnem__any escaped(mnem_template *t, mnem__any text) {
    const size_t mark = t->out_bytes;
    mnem__template_put_escaped(t, text);
    return mnem__template_cut(t, mark);
}

/* Markup stays markup: what is added to it is escaped. */
static mnem__any add_texts(mnem_template *t, mnem__any a, mnem__any b) {
    if (a.flag != MNEM__TEXT_SAFE && b.flag != MNEM__TEXT_SAFE) return mnem__template_join(t, a, b);
    a = escaped(t, a);
    mnem__any sum = mnem__template_join(t, a, escaped(t, b));
    sum.flag = MNEM__TEXT_SAFE;
    return sum;
}

static void add_items(mnem_template *t, mnem__any_list *to, const mnem__any_list *from) {
    for (uint32_t i = 0; i < from->count; i++) mnem__any_list_add(t, to, from->items[i]);
}

static mnem__any add_lists(mnem_template *t, mnem__any a, mnem__any b) {
    const size_t count = (size_t)a.list->count + b.list->count;
    const mnem__any sum = mnem__any_list_make(t, (mnem__any_kind)a.kind, count);
    add_items(t, sum.list, a.list);
    add_items(t, sum.list, b.list);
    return sum;
}

static bool is_list(mnem__any a) {
    return a.kind == MNEM__ANY_LIST || a.kind == MNEM__ANY_TUPLE;
}

/* a, as often as times says. */
static mnem__any repeat(mnem_template *t, mnem__any a, int64_t times) {
    if (mnem__any_is(a, MNEM__ANY_TEXT)) {
        const size_t mark = t->out_bytes;
        for (int64_t i = 0; i < times && a.length > 0; i++) mnem__template_put(t, a.text, a.length);
        mnem__any text = mnem__template_cut(t, mark);
        text.flag = a.flag;
        return text;
    }
    const mnem__any list = mnem__any_list_make(t, (mnem__any_kind)a.kind, 0);
    for (int64_t i = 0; i < times && a.list->count > 0; i++) add_items(t, list.list, a.list);
    return list;
}

mnem__any mnem__template_binary(mnem_template *t, int sign, mnem__any a, mnem__any b) {
    const bool text = mnem__any_is(a, MNEM__ANY_TEXT);
    if (mnem__any_number(a) && mnem__any_number(b)) return numbers(t, sign, a, b);
    if (sign == '+' && text && b.kind == a.kind) return add_texts(t, a, b);
    if (sign == '+' && is_list(a) && b.kind == a.kind) return add_lists(t, a, b);
    if (sign == '%' && text) return mnem__text_percent(t, a, b);
    if (sign == '*' && (text || is_list(a)) && mnem__any_whole(b)) return repeat(t, a, b.i);
    if (sign == '*' && (mnem__any_is(b, MNEM__ANY_TEXT) || is_list(b)) && mnem__any_whole(a))
        return repeat(t, b, a.i);
    mismatch(t, sign, a, b);
}

/* ---- comparing ---- */

static bool is_nan(mnem__any a) {
    return mnem__any_is(a, MNEM__ANY_FLOAT) && isnan(a.f);
}

bool mnem__template_compare(mnem_template *t, int sign, mnem__any a, mnem__any b) {
    if (sign == MNEM__SIGN_EQUAL) return mnem__any_equal(t, a, b);
    if (sign == MNEM__SIGN_UNEQUAL) return !mnem__any_equal(t, a, b);
    if (sign == MNEM__SIGN_IN) return mnem__any_contains(t, b, a);
    if (sign == MNEM__SIGN_NOT_IN) return !mnem__any_contains(t, b, a);
    if (mnem__any_is(a, MNEM__ANY_UNDEFINED)) mnem__template_undefined(t, a);
    if (mnem__any_is(b, MNEM__ANY_UNDEFINED)) mnem__template_undefined(t, b);
    const int order = mnem__any_compare(t, a, b);
    if (is_nan(a) || is_nan(b)) return false;
    switch (sign) {
    case '<': return order < 0;
    case '>': return order > 0;
    case MNEM__SIGN_AT_MOST: return order <= 0;
    default: return order >= 0;
    }
}
