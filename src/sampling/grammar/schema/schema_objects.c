/* schema_objects.c: which members an object has, and what each of them may be. */
#include "sampling/grammar/schema/schema_objects.h"

#include "base/minmax.h"

enum { GRID_MAX = 40000, UNTYPED_MAX = 100, UNTYPED_ALLS = 100, NONE = MNEM__NO_RULE };
typedef mnem__object_writer object_writer;

const mnem__node *mnem__schema_member(const mnem__node *object, const char *key) {
    const mnem__node *found = NULL;
    for (const mnem__node *n = object ? object->first : NULL; n; n = n->next)
        if (n->key && *n->key == *key && strcmp(n->key, key) == 0) found = n;
    return found;
}

/* ---- which members there are ---- */

static const mnem__node *part_says(const mnem__schema *s, uint32_t part, mnem__schema_word word) {
    return mnem__schema_says(s, s->all->part[part].node, word);
}

static bool check_words(mnem__schema *s) {
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *properties = part_says(s, i, MNEM__WORD_PROPERTIES);
        const mnem__node *required = part_says(s, i, MNEM__WORD_REQUIRED);
        s->node = s->all->part[i].node;
        if (properties && properties->kind != MNEM__JSON_OBJECT)
            return mnem__schema_bad(s, "\"properties\" must be an object");
        const mnem__node *patterns = part_says(s, i, MNEM__WORD_PATTERN_PROPERTIES);
        if (patterns && patterns->kind != MNEM__JSON_OBJECT)
            return mnem__schema_bad(s, "\"patternProperties\" must be an object");
        if (required && required->kind != MNEM__JSON_LIST)
            return mnem__schema_bad(s, "\"required\" must be a list");
        for (const mnem__node *n = properties ? properties->first : NULL; n; n = n->next)
            if (n->kind == MNEM__JSON_NULL)
                return mnem__schema_fail(
                    s, MNEM_BAD_FILE,
                    "the schema of property \"%.60s\" is null, expected an object, true or false",
                    n->key);
        for (const mnem__node *n = required ? required->first : NULL; n; n = n->next)
            if (n->kind != MNEM__JSON_TEXT)
                return mnem__schema_bad(s, "\"required\" must be a list of strings");
    }
    s->node = s->all->part[0].node;
    return true;
}

/* The patterns of all parts, and what they say of names. */
static bool read_patterns(object_writer *w) {
    mnem__schema *s = w->s;
    w->keys.of_names = &w->of_names;
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *patterns = part_says(s, i, MNEM__WORD_PATTERN_PROPERTIES);
        const mnem__node *names = part_says(s, i, MNEM__WORD_PROPERTY_NAMES);
        if (names && !mnem__schema_gather(s, &w->of_names, names, MNEM__SCHEMA_NO_PARENT))
            return false;
        for (const mnem__node *n = patterns ? patterns->first : NULL; n; n = n->next) {
            uint32_t k = 0;
            while (k < w->keys.patterns && strcmp(w->keys.pattern[k], n->key) != 0) k++;
            if (k < w->keys.patterns) continue;
            if (k == MNEM__KEY_PATTERNS)
                return mnem__schema_fail(
                    s, MNEM_UNSUPPORTED,
                    "\"patternProperties\" has more than %d patterns, the limit",
                    MNEM__KEY_PATTERNS);
            w->keys.pattern[w->keys.patterns++] = n->key;
        }
    }
    s->node = s->all->part[0].node;
    return true;
}

/* The list of names that propertyNames has, or its only name; NULL: none. */
static const mnem__node *listed_names(const object_writer *w) {
    for (uint32_t i = 0; i < w->of_names.count; i++) {
        const mnem__node *schema = w->of_names.part[i].node;
        const mnem__node *list = mnem__schema_says(w->s, schema, MNEM__WORD_ENUM);
        const mnem__node *one = mnem__schema_says(w->s, schema, MNEM__WORD_CONST);
        if (one) return one;
        if (list && list->kind == MNEM__JSON_LIST) return list;
    }
    return NULL;
}

/* ---- members by their names ---- */

/* Chains of one hash: of the properties of all parts, and of the members so far. Made once for an
 * object of many members, so that none is compared with all others; few are. */
enum { INDEXED_MIN = 32 };

static uint32_t *slot_of(const object_writer *w, uint32_t *slots, const char *key) {
    uint64_t hash = 0;
    for (; *key; key++) hash = (hash ^ (uint8_t)*key) * UINT64_C(0x9E3779B97F4A7C15);
    return &slots[(hash ^ hash >> 32) & (w->slots - 1)];
}

static bool make_index(object_writer *w) {
    mnem__schema *s = w->s;
    uint32_t named = 0, n = 0;
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *properties = part_says(s, i, MNEM__WORD_PROPERTIES);
        named += properties ? properties->count : 0;
    }
    if (w->room < INDEXED_MIN) return true;
    for (w->slots = INDEXED_MIN; w->slots < w->room;) w->slots *= 2;
    w->of_member = mnem__arena_alloc(&s->arena, w->slots * sizeof *w->of_member);
    w->of_own = mnem__arena_alloc(&s->arena, w->slots * sizeof *w->of_own);
    w->own = mnem__arena_alloc(&s->arena, (named + (size_t)1) * sizeof *w->own);
    if (!w->of_member || !w->of_own || !w->own) return mnem__schema_no_memory(s);
    memset(w->of_member, 0xFF, w->slots * sizeof *w->of_member);
    memset(w->of_own, 0xFF, w->slots * sizeof *w->of_own);
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *properties = part_says(s, i, MNEM__WORD_PROPERTIES);
        for (const mnem__node *p = properties ? properties->first : NULL; p; p = p->next) {
            uint32_t *slot = slot_of(w, w->of_own, p->key);
            w->own[n] = (mnem__own){p, i, *slot};
            *slot = n++;
        }
    }
    return true;
}

/* What a part names so, the last of one name. */
static const mnem__node *own_of(const object_writer *w, uint32_t part, const char *key) {
    if (!w->slots) return mnem__schema_member(part_says(w->s, part, MNEM__WORD_PROPERTIES), key);
    uint32_t i = *slot_of(w, w->of_own, key);
    while (i != NONE && (w->own[i].part != part || strcmp(w->own[i].node->key, key) != 0))
        i = w->own[i].same;
    return i == NONE ? NULL : w->own[i].node;
}

/* The member of a name; the number of members: there is none yet. */
static uint32_t member_of(const object_writer *w, const char *key) {
    uint32_t i = w->slots ? *slot_of(w, w->of_member, key) : 0;
    if (w->slots)
        while (i != NONE && strcmp(w->name[i], key) != 0) i = w->member[i].same;
    else
        while (i < w->members && strcmp(w->name[i], key) != 0) i++;
    return i == NONE ? w->members : i;
}

/* Room for the members that all parts name together. */
static bool make_room(object_writer *w) {
    mnem__schema *s = w->s;
    const mnem__node *listed = listed_names(w);
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *properties = part_says(s, i, MNEM__WORD_PROPERTIES);
        const mnem__node *required = part_says(s, i, MNEM__WORD_REQUIRED);
        w->room += (properties ? properties->count : 0) + (required ? required->count : 0);
    }
    if (listed) w->room += listed->count + 1;
    const size_t columns = (size_t)w->room + 3;
    w->member = mnem__arena_alloc(&s->arena, columns * sizeof *w->member);
    w->name = mnem__arena_alloc(&s->arena, columns * sizeof *w->name);
    w->into = mnem__arena_alloc(&s->arena, columns * sizeof *w->into);
    w->next = mnem__arena_alloc(&s->arena, columns * sizeof *w->next);
    if (!w->member || !w->name || !w->into || !w->next) return mnem__schema_no_memory(s);
    return make_index(w);
}

/* The patterns that a key matches, a bit for each. */
static bool match_patterns(object_writer *w, const char *key, uint32_t *matched) {
    *matched = 0;
    for (uint32_t i = 0; i < w->keys.patterns; i++) {
        const mnem__node pattern = {.kind = MNEM__JSON_TEXT,
                                    .text = w->keys.pattern[i],
                                    .text_bytes = strlen(w->keys.pattern[i])};
        if (mnem__schema_matches(w->s, &pattern, key)) *matched |= UINT32_C(1) << i;
    }
    return w->s->status == MNEM_OK;
}

/* What a part's patterns say of a key that matches some; *any: one of them does. */
static bool gather_matched(object_writer *w, uint32_t part, uint32_t matched, bool *any,
                           mnem__schema_parts *parts) {
    const mnem__node *patterns = part_says(w->s, part, MNEM__WORD_PATTERN_PROPERTIES);
    *any = false;
    for (uint32_t i = 0; i < w->keys.patterns; i++) {
        const mnem__node *n = mnem__schema_member(patterns, w->keys.pattern[i]);
        if (!n || !(matched >> i & 1)) continue;
        *any = true;
        if (!mnem__schema_gather(w->s, parts, n, MNEM__SCHEMA_NO_PARENT)) return false;
    }
    return true;
}

/* What the parts say of a member of that name, or of one that none names (NULL). */
static bool gather_member(object_writer *w, const char *key, uint32_t matched,
                          mnem__schema_parts *parts) {
    mnem__schema *s = w->s;
    bool any, taken[MNEM__SCHEMA_PARTS_MAX];
    parts->count = 0;
    parts->never = false;
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *own = key ? own_of(w, i, key) : NULL;
        if (own && !mnem__schema_gather(s, parts, own, MNEM__SCHEMA_NO_PARENT)) return false;
        if (!gather_matched(w, i, matched, &any, parts)) return false;
        const mnem__node *more = part_says(s, i, MNEM__WORD_ADDITIONAL);
        taken[i] = own || any || more;
        if (own || any || !more) continue;
        if (!mnem__schema_gather(s, parts, more, MNEM__SCHEMA_NO_PARENT)) return false;
    }
    return mnem__schema_gather_unevaluated(s, MNEM__WORD_UNEVALUATED_PROPERTIES, taken, parts);
}

/* Whether propertyNames admits a name. */
static bool may_be_named(object_writer *w, const char *key) {
    const mnem__node name = {.kind = MNEM__JSON_TEXT, .text = key, .text_bytes = strlen(key)};
    for (uint32_t i = 0; i < w->s->all->count; i++) {
        const mnem__node *names = part_says(w->s, i, MNEM__WORD_PROPERTY_NAMES);
        if (names && !mnem__schema_admits(w->s, names, &name)) return false;
    }
    return true;
}

static bool add_member(object_writer *w, const char *key, bool required) {
    mnem__schema_parts parts;
    const uint32_t i = member_of(w, key);
    uint32_t matched, same = NONE;
    if (!mnem__schema_spend(w->s, 1 + (uint64_t)w->s->all->count)) return false;
    if (i < w->members) {
        w->member[i].required |= required;
        return true;
    }
    if (!match_patterns(w, key, &matched) || !gather_member(w, key, matched, &parts)) return false;
    parts.never |= !may_be_named(w, key);
    w->name[i] = key;
    if (w->slots) {
        uint32_t *slot = slot_of(w, w->of_member, key);
        same = *slot;
        *slot = i;
    }
    w->member[i] = (mnem__member){key, mnem__schema_rule_of(w->s, &parts), same, required};
    w->members++;
    return w->s->status == MNEM_OK;
}

/* The properties of all parts, what is required beside them, and other names that are listed. */
static bool read_members(object_writer *w) {
    const mnem__schema *s = w->s;
    const mnem__node *listed = listed_names(w);
    w->only_names = listed != NULL;
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *properties = part_says(s, i, MNEM__WORD_PROPERTIES);
        for (const mnem__node *n = properties ? properties->first : NULL; n; n = n->next)
            if (!add_member(w, n->key, false)) return false;
    }
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *required = part_says(s, i, MNEM__WORD_REQUIRED);
        for (const mnem__node *n = required ? required->first : NULL; n; n = n->next)
            if (!add_member(w, n->text, true)) return false;
    }
    if (listed && listed->kind == MNEM__JSON_TEXT) return add_member(w, listed->text, false);
    for (const mnem__node *n = listed ? listed->first : NULL; n; n = n->next)
        if (n->kind == MNEM__JSON_TEXT && !add_member(w, n->text, false)) return false;
    return true;
}

/* ---- others ---- */

/* false, {"not": {}} and {"not": true} say that a member may not come. */
static bool admits_nothing(const mnem__node *schema) {
    const mnem__node *not = mnem__schema_get(schema, MNEM__WORD_NOT);
    const bool alone = not &&schema->count == 1;
    if (schema->kind == MNEM__JSON_FALSE) return true;
    return alone &&
           (not ->kind == MNEM__JSON_TRUE || (not ->kind == MNEM__JSON_OBJECT && !not ->first));
}

static bool names_members(const mnem__node *properties) {
    for (const mnem__node *n = properties ? properties->first : NULL; n; n = n->next)
        if (!admits_nothing(n)) return true;
    return false;
}

/* Whether no part says that the value is an object, so that its members are not a description of
 * one; as far as keys beside them are cheap: schemas whose cases multiply have too many of them. */
static bool is_untyped(const object_writer *w) {
    const mnem__schema *s = w->s;
    const bool meant = s->within && s->all->part[0].node == s->top;
    return !s->word[MNEM__WORD_TYPE] && !meant && w->members <= UNTYPED_MAX &&
           s->alls <= UNTYPED_ALLS && w->keys.patterns == 0 && w->of_names.count == 0 &&
           !s->word[MNEM__WORD_MIN_PROPERTIES] && !s->word[MNEM__WORD_MAX_PROPERTIES];
}

/* Whether others may come that match no pattern: a part says so, none names members, or none says
 * that there is an object. */
static bool is_open(const object_writer *w) {
    const mnem__schema *s = w->s;
    bool closed = false, open = false;
    for (uint32_t i = 0; i < s->all->count; i++) {
        closed |= names_members(part_says(s, i, MNEM__WORD_PROPERTIES));
        open |= part_says(s, i, MNEM__WORD_ADDITIONAL) != NULL;
        open |= mnem__schema_is_extended(s, s->all->part[i].node);
        open |= part_says(s, i, MNEM__WORD_UNEVALUATED_PROPERTIES) != NULL;
    }
    return open || !closed || is_untyped(w);
}

/* Members whose keys match these patterns, as a case of a rule; *any: there are such. */
static bool write_matched(object_writer *w, uint32_t matched, mnem__choice *choice, bool *any) {
    mnem__schema *s = w->s;
    mnem__schema_parts parts;
    bool some;
    if (!gather_member(w, NULL, matched, &parts)) return false;
    parts.never |= matched == 0 && !is_open(w);
    if (parts.never) return true;
    const uint32_t value = mnem__schema_rule_of(s, &parts);
    if (*any) mnem__draft_other(s->d, choice);
    *any = true;
    const bool plain = w->keys.patterns == 0 && w->of_names.count == 0;
    if (plain ? !mnem__schema_write_other_key(s, w->name, w->members)
              : !mnem__schema_write_matched_key(s, &w->keys, matched, &some))
        return false;
    mnem__schema_put(s, ":");
    mnem__schema_call(s, MNEM__RULE_WS);
    mnem__draft_call(s->d, value);
    return mnem__schema_is_fine(s);
}

/* The rule of others, one case for each set of patterns that a key may match. */
static bool write_others(object_writer *w) {
    mnem__schema *s = w->s;
    bool any = false;
    w->others = NONE;
    if (w->only_names || w->of_names.never) return true;
    w->keys.name = w->name;
    w->keys.names = w->members;
    const uint32_t over = mnem__draft_jump(s->d), rule = mnem__draft_rule(s->d);
    mnem__draft_begin(s->d, rule);
    mnem__choice choice = mnem__draft_choose(s->d);
    for (uint32_t matched = 0; matched < UINT32_C(1) << w->keys.patterns; matched++)
        if (!write_matched(w, matched, &choice, &any)) return false;
    if (!any) mnem__schema_put_never(s);
    mnem__draft_chosen(s->d, &choice);
    mnem__draft_end(s->d);
    mnem__draft_land(s->d, over);
    if (any) w->others = rule;
    return mnem__schema_is_fine(s);
}

static bool read_counts(object_writer *w) {
    mnem__schema *s = w->s;
    uint32_t required = 0;
    if (!mnem__schema_count(s, MNEM__WORD_MIN_PROPERTIES, 0, &w->least) ||
        !mnem__schema_count(s, MNEM__WORD_MAX_PROPERTIES, MNEM__ENDLESS, &w->most))
        return false;
    for (uint32_t i = 0; i < w->members; i++) required += w->member[i].required;
    if (w->least <= required) w->least = 0;
    if (w->others == NONE && w->most >= w->members) w->most = MNEM__ENDLESS;
    if (w->others != NONE && w->least > 1 && w->most != MNEM__ENDLESS)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "\"minProperties\" together with \"maxProperties\" is supported "
                                 "only with \"additionalProperties\": false");
    if (w->others != NONE && w->least > w->members + 1)
        return mnem__schema_fail(s, MNEM_UNSUPPORTED,
                                 "\"minProperties\" is %u, expected at most %u, the number of "
                                 "named properties plus 1: reduce it, or name more properties",
                                 w->least, w->members + 1);
    w->rows = w->most != MNEM__ENDLESS ? w->most : w->least > 1 ? w->least : 1;
    const uint64_t places = ((uint64_t)w->members + 1) * ((uint64_t)w->rows + 1);
    if (places > GRID_MAX && w->rows > 1)
        return mnem__schema_fail(
            s, MNEM_UNSUPPORTED,
            "\"%s\" is %u, expected at most %d beside %u named properties: reduce it, leave it "
            "out, "
            "or name fewer properties",
            w->most != MNEM__ENDLESS ? "maxProperties" : "minProperties", w->rows,
            mnem__max_i32(GRID_MAX / (int32_t)(w->members + 1) - 1, 1), w->members);
    w->end = mnem__arena_alloc(&s->arena, 2 * ((size_t)w->rows + 1) * sizeof *w->end);
    return w->end || mnem__schema_no_memory(s);
}

bool mnem__schema_write_object(mnem__schema *s) {
    object_writer w = {.s = s};
    bool plain = !s->word[MNEM__WORD_UNEVALUATED_PROPERTIES];
    for (int i = MNEM__WORD_PROPERTIES; i <= MNEM__WORD_MAX_PROPERTIES; i++) plain &= !s->word[i];
    if (plain) {
        mnem__schema_call(s, MNEM__RULE_OBJECT);
        return mnem__schema_is_fine(s);
    }
    if (!check_words(s) || !read_patterns(&w) || !make_room(&w) || !read_members(&w)) return false;
    w.any_order = w.members <= MNEM__MEMBERS_IN_ANY_ORDER && is_untyped(&w);
    if (!write_others(&w) || !read_counts(&w)) return false;
    mnem__schema_put(s, "{");
    mnem__schema_call(s, MNEM__RULE_WS);
    if (!mnem__schema_put_members(&w)) return false;
    mnem__schema_put(s, "}");
    return mnem__schema_is_fine(s);
}
