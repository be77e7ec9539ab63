/* info_features.c: which features a model supports, of the table that the library asks, too. */
#include "verbs/info/info_features.h"

#include <string.h>

#include "options.h"

enum { NAME = 14 };

/* "supports       text generation, embedding of texts, ...", as wide as the terminal. */
static void print_supported(const mnem_transformer *t) {
    char text[1024], lead[NAME + 2];
    size_t n = 0;
    mnem_feature_info f;
    for (int32_t i = 0; mnem_feature_get(i, &f); i++) {
        if (!mnem_support_get(t, f.feature).supported) continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", f.text);
    }
    if (!n) return;
    snprintf(lead, sizeof lead, "%-*s ", NAME, "supports");
    if (tool_out_flush()) tool_wrap(stdout, lead, text);
}

void info_features_print(const mnem_transformer *t) {
    mnem_feature_info f;
    bool first = true;
    print_supported(t);
    for (int32_t i = 0; mnem_feature_get(i, &f); i++) {
        const mnem_support s = mnem_support_get(t, f.feature);
        if (s.supported) continue;
        if (first) tool_outf("doesn't support\n");
        first = false;
        char text[512];
        snprintf(text, sizeof text, "%s, because of %s: %s", f.text, s.reason, s.instead);
        if (tool_out_flush()) tool_wrap(stdout, "    ", text);
    }
}

json_t *info_features_json(const mnem_transformer *t) {
    json_t *all = json_object();
    mnem_feature_info f;
    for (int32_t i = 0; mnem_feature_get(i, &f); i++) {
        const mnem_support s = mnem_support_get(t, f.feature);
        json_object_set_new(all, f.name,
                            s.supported ? json_pack("{s:b}", "supported", 1)
                                        : json_pack("{s:b, s:s, s:s}", "supported", 0, "reason",
                                                    s.reason, "instead", s.instead));
    }
    return all;
}
