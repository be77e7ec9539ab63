/* info_features.c: which features a model supports, of the table that the library asks, too. */
#include "verbs/info/info_features.h"

#include <string.h>

#include "options.h"

enum { NAME = 14, WIDTH = 80 };

static void print_supported(const mnem_transformer *t) {
    size_t at = NAME;
    mnem_feature_info f;
    tool_outf("%-*s", NAME, "supports");
    for (int32_t i = 0; mnem_feature_get(i, &f); i++) {
        if (!mnem_support_get(t, f.feature).supported) continue;
        const size_t more = 1 + strlen(f.name);
        if (at + more > WIDTH) {
            tool_outf("\n%-*s", NAME, "");
            at = NAME;
        }
        tool_outf(" %s", f.name);
        at += more;
    }
    tool_outf("\n");
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
        tool_outf("  %-14s  %s: %s\n", f.name, s.reason, s.instead);
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
