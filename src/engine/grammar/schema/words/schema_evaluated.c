/* schema_evaluated.c: members and items that are left to unevaluatedProperties and unevaluatedItems
 * (JSON Schema 2020-12, core, 11): those that neither the words beside them nor a schema that these
 * bring (by $ref, allOf or a case that was chosen) has evaluated.
 *
 * The idea: the parts of a conjunction know which part brought them, and all of them fit, so that
 * what is evaluated is what the parts below reach. A part that a "not" brought fits, too, but is
 * made of what the schema does not say: it evaluates nothing.
 * What is evaluated by a case that fits beside the chosen one does not count; the cases are made so
 * that several may be chosen (schema_cases.c). */
#include "engine/grammar/schema/schema_private.h"

bool mnem__schema_has_unevaluated(const mnem__node *top) {
    if (mnem__schema_get(top, MNEM__WORD_UNEVALUATED_ITEMS)) return true;
    if (mnem__schema_get(top, MNEM__WORD_UNEVALUATED_PROPERTIES)) return true;
    for (const mnem__node *n = top->first; n; n = n->next)
        if (mnem__schema_has_unevaluated(n)) return true;
    return false;
}

/* Whether a part is below another, or is it, without a "not" between. */
static bool counts_for(const mnem__schema *s, uint32_t part, uint32_t of) {
    const mnem__schema_part *p = s->all->part;
    for (; part != of; part = p[part].parent)
        if (p[part].negated || p[part].parent == part) return false;
    return true;
}

static bool is_evaluated(const mnem__schema *s, mnem__schema_word word, const bool *taken,
                         uint32_t of) {
    for (uint32_t i = 0; i < s->all->count; i++) {
        const bool takes =
            taken[i] || (i != of && mnem__schema_says(s, s->all->part[i].node, word));
        if (takes && counts_for(s, i, of)) return true;
    }
    return false;
}

/* Items that a "contains" wants are evaluated. */
static const mnem__node *or_contained(mnem__schema *s, uint32_t of, const mnem__node *node) {
    for (uint32_t i = 0; i < s->all->count && node; i++) {
        const mnem__node *contains =
            mnem__schema_says(s, s->all->part[i].node, MNEM__WORD_CONTAINS);
        if (contains && counts_for(s, i, of)) node = mnem__schema_either(s, node, contains);
    }
    return node;
}

bool mnem__schema_gather_unevaluated(mnem__schema *s, mnem__schema_word word, const bool *taken,
                                     mnem__schema_parts *parts) {
    if (!s->unevaluated) return true;
    for (uint32_t i = 0; i < s->all->count; i++) {
        const mnem__node *left = mnem__schema_says(s, s->all->part[i].node, word);
        if (!left) continue;
        if (!mnem__schema_spend(s, s->all->count)) return false;
        if (is_evaluated(s, word, taken, i)) continue;
        if (word == MNEM__WORD_UNEVALUATED_ITEMS) left = or_contained(s, i, left);
        if (!left || !mnem__schema_gather(s, parts, left, MNEM__SCHEMA_NO_PARENT)) return false;
    }
    return true;
}
