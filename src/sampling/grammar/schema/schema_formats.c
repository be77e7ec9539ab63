/* schema_formats.c: formats of strings, as the patterns that they are.
 *
 * What a format's RFC leaves to other documents is narrowed to what all readers agree on: hosts are
 * names of letters, digits and hyphens (RFC 1123), URIs have no literal addresses. Formats that no
 * draft defines are annotations. */
#include "base/heap.h"
#include "sampling/grammar/schema/schema_private.h"

#define DATE                                                                                       \
    "(?:[1-9]\\d{3}-(?:02-(?:0[1-9]|1\\d|2[0-8])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)"              \
    "|(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01]))"                                                \
    "|(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)-02-29)"
#define CLOCK "(?:[01]\\d|2[0-3]):[0-5]\\d"
#define TIME  CLOCK ":[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[-+]" CLOCK ")"
#define HEX   "[0-9a-fA-F]"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?"
#define HOST  "(?:" LABEL "\\.){0,4}[A-Za-z](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?"
/* Internationalised names: no label has "--" behind two characters, as whether such a one is valid
 * takes decoding it (RFC 5891, 4.2.3.1 and 5.4). */
#define LETTER   "[A-Za-z0-9]"
#define IDN_REST "(?:" LETTER "?|[A-Za-z0-9-]-?" LETTER "(?:[A-Za-z0-9-]{0,26}" LETTER ")?)"
#define IDN_HOST "(?:" LETTER IDN_REST "\\.){0,4}[A-Za-z]" IDN_REST
#define ATOM     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define EMAIL    ATOM "{1,31}(?:\\." ATOM "{1,31})?@" HOST
#define BYTE     "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4     BYTE "(?:\\." BYTE "){3}"
#define GROUP    HEX "{1,4}"
#define IPV6                                                                                       \
    "(?:(?:" GROUP ":){7}" GROUP "|(?:" GROUP ":){1,7}:|(?:" GROUP ":){1,6}:" GROUP "|(?:" GROUP   \
    ":){1,5}(?::" GROUP "){1,2}|(?:" GROUP ":){1,4}(?::" GROUP "){1,3}"                            \
    "|(?:" GROUP ":){1,3}(?::" GROUP "){1,4}|(?:" GROUP ":){1,2}(?::" GROUP "){1,5}"               \
    "|" GROUP ":(?::" GROUP "){1,6}|:(?::" GROUP "){1,7}|::|::(?:[fF]{4}:)?" IPV4 ")"
#define ESCAPE "%" HEX HEX
#define PCHAR  "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" ESCAPE ")"
#define AUTHORITY                                                                                  \
    "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" ESCAPE ")*@)?"                                            \
    "(?:[A-Za-z0-9._~!$&'()*+,;=-]|" ESCAPE ")*(?::\\d*)?"
#define MORE "(?:/" PCHAR "*)*"
#define TAIL                                                                                       \
    "(?:\\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|" ESCAPE ")*)?"                                       \
    "(?:#(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|" ESCAPE ")*)?"
#define ROOTED    "//" AUTHORITY MORE "|/(?:" PCHAR "+" MORE ")?"
#define URI       "[A-Za-z][A-Za-z0-9+.-]*:(?:" ROOTED "|" PCHAR "+" MORE "|)" TAIL
#define NO_COLON  "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" ESCAPE ")"
#define REFERENCE "(?:" URI "|(?:" ROOTED "|" NO_COLON "+" MORE "|)" TAIL ")"
/* RFC 3339 (appendix A) has whole seconds; ISO 8601, which it is from, and who writes time spans
 * (Pydantic, isoduration) have a fraction there. */
#define SECOND   "\\d+(?:\\.\\d+)?S"
#define SECONDS  "(?:\\d+H(?:\\d+M(?:" SECOND ")?)?|\\d+M(?:" SECOND ")?|" SECOND ")"
#define DAYS     "(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)"
#define DURATION "P(?:\\d+W|" DAYS "(?:T" SECONDS ")?|T" SECONDS ")"
#define POINTER  "(?:/(?:[^~/]|~[01])*)*"
#define REGEX                                                                                      \
    "\\^?(?:(?:[A-Za-z0-9 _,:;@/=%&#<>'-]|\\.|\\\\[dDwWsS.+*?()/-]"                                \
    "|\\[\\^?(?:a-z|A-Z|0-9|[A-Za-z0-9_.])+\\])(?:[*+?]|\\{[1-9]\\})?)*\\$?"

static const struct {
    const char *name, *pattern;
    uint32_t most; /* characters of the longest; 0: there is none */
} formats[MNEM__FORMATS] = {
    {"date", "^" DATE "$", 10},
    {"time", "^" TIME "$", 24},
    {"date-time", "^" DATE "T" TIME "$", 35},
    {"uuid", "^" HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}$", 36},
    {"email", "^" EMAIL "$", 218},
    {"idn-email", "^" EMAIL "$", 218},
    {"hostname", "^" HOST "$", 154},
    {"idn-hostname", "^" IDN_HOST "$", 159},
    {"ipv4", "^" IPV4 "$", 15},
    {"ipv6", "^" IPV6 "$", 39},
    {"uri", "^" URI "$", 0},
    {"iri", "^" URI "$", 0},
    {"uri-reference", "^" REFERENCE "$", 0},
    {"iri-reference", "^" REFERENCE "$", 0},
    {"uri-template", "^" REFERENCE "$", 0},
    {"duration", "^" DURATION "$", 0},
    {"json-pointer", "^" POINTER "$", 0},
    {"relative-json-pointer", "^(?:0|[1-9]\\d*)(?:#|" POINTER ")$", 0},
    {"regex", "^" REGEX "$", 0},
};

static int format_of(const char *name) {
    int i = 0;
    while (i < MNEM__FORMATS && formats[i].name && strcmp(formats[i].name, name) != 0) i++;
    return i < MNEM__FORMATS && formats[i].name ? i : -1;
}

bool mnem__schema_has_format(const char *name) {
    return format_of(name) >= 0;
}

uint32_t mnem__schema_format_length(const char *name) {
    return formats[format_of(name)].most;
}

bool mnem__schema_put_format(mnem__schema *s, const char *name) {
    const char *pattern = formats[format_of(name)].pattern;
    return mnem__schema_write_pattern(s, pattern, strlen(pattern));
}

bool mnem__schema_call_format(mnem__schema *s, const char *name) {
    uint32_t *rule = &s->format[format_of(name)];
    if (!*rule) {
        const uint32_t over = mnem__draft_jump(s->d);
        *rule = mnem__draft_rule(s->d);
        mnem__draft_begin(s->d, *rule);
        if (!mnem__schema_put_format(s, name)) return false;
        mnem__draft_end(s->d);
        mnem__draft_land(s->d, over);
    }
    mnem__draft_call(s->d, *rule);
    return mnem__schema_is_fine(s);
}
