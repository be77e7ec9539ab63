/* template_bind.c: binds arguments to parameters, by position and by name, and checks their types.
 */
#include <string.h>

#include "text/template/template_call.h"

/* The number of the parameter of that name, or -1. */
static int find_parameter(const char *parameters, mnem__any name) {
    int number = 0;
    for (const char *word = parameters; *word; number++) {
        const size_t n = strcspn(word, " ");
        if (n == name.length && memcmp(word, name.text, n) == 0) return number;
        word += n;
        word += strspn(word, " ");
    }
    return -1;
}

static int count_words(const char *text) {
    int words = *text != 0;
    for (; *text; text++) words += *text == ' ';
    return words;
}

static void bind_named(mnem_template *t, const mnem__function *f, const mnem__any_dict *named,
                       mnem__any *a) {
    for (uint32_t i = 0; i < named->count; i++) {
        const mnem__any name = named->entries[i].key;
        const int number = find_parameter(f->parameters, name);
        if (number < 0)
            mnem__template_refuse(t, "%s() has no argument named '%.*s'; it has: %s", f->name,
                                  (int)(name.length < 64 ? name.length : 64), name.text,
                                  *f->parameters ? f->parameters : "none");
        if (mnem__is_given(a[number]))
            mnem__template_refuse(t, "%s(): the argument '%.*s' is given twice; remove one",
                                  f->name, (int)name.length, name.text);
        a[number] = named->entries[i].value;
    }
}

static _Noreturn void refuse_missing(mnem_template *t, const mnem__function *f, int number) {
    const char *word = f->parameters;
    for (int i = 0; i < number; i++) word += strcspn(word, " ") + 1;
    mnem__template_refuse(t, "%s() lacks its argument '%.*s'", f->name, (int)strcspn(word, " "),
                          word);
}

mnem__any mnem__template_apply(mnem_template *t, const mnem__function *f, mnem__any in,
                               const mnem__arguments *arguments) {
    mnem__any a[MNEM__PARAMETERS_MAX] = {{0}};
    const uint32_t given = arguments->list ? arguments->list->count : 0;
    if (mnem__any_is(in, MNEM__ANY_TEXT)) mnem__template_step(t, in.length / 64);
    if (!f->parameters)
        mnem__template_fail(t, MNEM_UNSUPPORTED,
                            "the function %s() is not supported; remove it from the template",
                            f->name);
    if (strcmp(f->parameters, "*") == 0) return f->run(t, in, a, arguments);
    const int most = count_words(f->parameters);
    if (given > (uint32_t)most)
        mnem__template_refuse(t, "%s() takes at most %d arguments, but %u are given", f->name, most,
                              given);
    for (uint32_t i = 0; i < given; i++) a[i] = arguments->list->items[i];
    if (arguments->named) bind_named(t, f, arguments->named, a);
    for (int i = 0; i < f->least; i++)
        if (!mnem__is_given(a[i])) refuse_missing(t, f, i);
    return f->run(t, in, a, arguments);
}

int64_t mnem__argument_int(mnem_template *t, mnem__any a, int64_t otherwise, const char *what) {
    if (!mnem__is_given(a)) return otherwise;
    if (!mnem__any_whole(a))
        mnem__template_refuse(t, "%s: expected an integer, found a value of type %s", what,
                              mnem__any_type(a));
    return a.i;
}

mnem__any mnem__argument_text(mnem_template *t, mnem__any a, const char *otherwise,
                              const char *what) {
    if (!mnem__is_given(a)) return mnem__any_word(otherwise);
    if (!mnem__any_is(a, MNEM__ANY_TEXT))
        mnem__template_refuse(t, "%s: expected text, found a value of type %s", what,
                              mnem__any_type(a));
    return a;
}

void mnem__template_undefined(mnem_template *t, mnem__any a) {
    static const char *const ends[] = {"is undefined", "is not an attribute of the value",
                                       "is an attribute that templates may not use", ""};
    const int n = a.length < 120 ? (int)a.length : 120;
    if (a.flag == MNEM__UNDEFINED_OTHER) mnem__template_refuse(t, "%.*s", n, a.text);
    mnem__template_refuse(t, "'%.*s' %s", n, a.text, ends[a.flag]);
}
