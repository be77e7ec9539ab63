/* template_date.c: strftime_now: the clock, in a format of C's strftime, as Python passes it on. */
#include <string.h>
#include <time.h>

#include "text/template/template_call.h"

/* The clock on the wall as though it were UTC's, so that no time zone is looked up twice. */
static struct tm clock_of(const mnem_template *t) {
    struct tm tm = {0};
    const time_t seconds = t->options.clock ? (time_t)t->options.clock : time(NULL);
    if (t->options.clock)
        gmtime_r(&seconds, &tm);
    else
        localtime_r(&seconds, &tm);
    return tm;
}

/* A time without a zone has no %z and no %Z; %f are microseconds, which C doesn't know. */
static void put_field(mnem_template *t, const char *format, const struct tm *tm) {
    char text[256];
    const char letter = format[strlen(format) - 1];
    if (letter == 'f') {
        mnem__template_puts(t, "000000");
    } else if (letter != 'z' && letter != 'Z') {
        mnem__template_put(t, text, strftime(text, sizeof text, format, tm));
    }
}

mnem__any mnem__template_clock(mnem_template *t, mnem__any format) {
    const size_t mark = t->out_bytes;
    const struct tm tm = clock_of(t);
    for (size_t at = 0; at < format.length; at++) {
        char field[8] = "%";
        size_t n = 1;
        if (format.text[at] != '%') {
            mnem__template_put(t, format.text + at, 1);
            continue;
        }
        while (n < sizeof field - 2 && at + n < format.length &&
               strchr("-_0^#", format.text[at + n])) {
            field[n] = format.text[at + n];
            n++;
        }
        if (at + n >= format.length || (unsigned char)format.text[at + n] >= 0x80 ||
            !format.text[at + n])
            mnem__template_refuse(t, "strftime_now(): '%%' is not followed by a letter, as in %%Y; "
                                     "write %%%% for a percent sign");
        field[n] = format.text[at + n];
        put_field(t, field, &tm);
        at += n;
    }
    return mnem__template_cut(t, mark);
}
