/* models_names.c: several names of one file are loaded as one model.
 *
 * The first name of a file leads: its engine and its scheduler serve all names of the file, so that
 * weights, KV pages, graph and buffers are there once, and equal prompts share pages. A name has
 * only its own part of the API (template, vocabulary), its limit of the context and its adapters.
 * Sharing the weights between several engines would save less, and the bytes of a model would
 * depend on which others are loaded; so each set of models has a sum of fixed numbers.
 *
 * The engine has the largest context of the names, and the adapters of all. It applies adapters in
 * their order, which changes the last bits of a sum: a name shares only if its adapters are in the
 * same order in the joint list, so its answers are those that it gets alone.
 *
 * Invariant: names of a model have one file. Files are compared by device and inode, again before
 * each load: a name whose file is no longer that of the first name becomes a model of its own, and
 * so does each name if the joint model fails. Names never join later. */
#include <string.h>

#include "verbs/serve/models/models_serve.h"

models_one *models_next_name(const models_one *m, const models_one *name) {
    for (int32_t i = name ? name->index + 1 : m->index; i < m->of->list.count; i++)
        if (m->of->model[i].lead == m) return &m->of->model[i];
    return NULL;
}

bool models_has_names(const models_one *m) {
    return models_next_name(m, m) != NULL;
}

const char *models_pinned_by(const models_one *name) {
    if (name->entry->pin) return name->entry->name;
    const models_one *m = name->lead;
    for (const models_one *n = m; n; n = models_next_name(m, n))
        if (n->entry->pin) return n->entry->name;
    return NULL;
}

bool models_is_pinned(const models_one *m) {
    return models_pinned_by(m) != NULL;
}

/* ---- joint lists of adapters ---- */

/* The number of an adapter's file in the list; -1: it isn't there. */
static int find_adapter(const tool_texts *lora, const char *asked) {
    char path[PATH_MAX], other[PATH_MAX];
    tool_adapter_split(asked, path);
    for (int i = 0; i < lora->count; i++) {
        tool_adapter_split(lora->text[i], other);
        if (strcmp(path, other) == 0) return i;
    }
    return -1;
}

/* Adds the name's adapters to the list, and notes their numbers in it. false: they are too many, or
 * in another order. */
static bool add_adapters(tool_texts *lora, models_one *n) {
    char path[PATH_MAX];
    int last = -1;
    for (int k = 0; k < n->entry->adapters; k++) {
        int at = find_adapter(lora, n->entry->adapter[k]);
        if (at < 0) {
            if (lora->count == TOOL_ADAPTERS_MAX) return false;
            at = lora->count;
            lora->text[lora->count++] = n->entry->adapter[k];
        }
        if (at <= last) return false;
        last = at;
        n->adapter[k] = (api_adapter){at, tool_adapter_split(n->entry->adapter[k], path)};
    }
    return true;
}

static void set_alone(models_one *m) {
    m->asked.context = m->asked_context;
    m->context_least = 0;
    m->asked.lora.count = m->entry->adapters;
    for (int k = 0; k < m->entry->adapters; k++) m->asked.lora.text[k] = m->entry->adapter[k];
}

/* Sets what the names of a model need together. A context that is left to the plan is at least the
 * largest that another name has. false: they can't be one model. */
static bool join(models_one *m) {
    tool_texts lora = {0};
    bool open = false;
    set_alone(m);
    if (!models_has_names(m)) return true;
    for (models_one *n = m; n; n = models_next_name(m, n)) {
        const int32_t context = n->asked_context;
        if (!add_adapters(&lora, n)) return false;
        open = open || context == 0;
        if (context > m->context_least) m->context_least = context;
    }
    m->asked.lora = lora;
    m->asked.context = open ? 0 : m->context_least;
    return true;
}

/* ---- one file ---- */

/* Whether both files exist, and are one: same; or are not. */
static bool are_there(const models_one *a, const models_one *b, bool same) {
    struct stat x, y;
    if (stat(a->entry->path, &x) != 0 || stat(b->entry->path, &y) != 0) return false;
    return (x.st_dev == y.st_dev && x.st_ino == y.st_ino) == same;
}

static void make_own(models_one *n) {
    models_one *was = n->lead;
    n->lead = n;
    set_alone(n);
    (void)join(was); /* as before n came: it can't fail */
}

static void try_join(models_one *m, models_one *n) {
    if (!are_there(m, n, true)) return;
    n->lead = m;
    if (!join(m)) make_own(n);
}

void models_join_names(models_all *v) {
    for (int32_t i = 0; i < v->list.count; i++) {
        models_one *n = &v->model[i];
        n->lead = n;
        set_alone(n);
        for (int32_t k = 0; k < i && n->lead == n; k++)
            if (v->model[k].lead == &v->model[k]) try_join(&v->model[k], n);
    }
}

/* What was planned for the names together is not for one of them. */
static void forget_plan(models_one *m) {
    m->planned = false;
    m->failed = MNEM_OK;
    m->file = (struct stat){0};
    m->bytes = m->least_bytes = m->whole_bytes = 0;
    models_drop_cache(m);
}

static int32_t count_names(const models_one *m) {
    int32_t names = 0;
    for (const models_one *n = m; n; n = models_next_name(m, n)) names++;
    return names;
}

/* The name takes its part of the disk along, so that the sum of all parts stays. */
static void leave(models_one *m, models_one *n) {
    n->swap_part = m->swap_part / (uint64_t)count_names(m);
    m->swap_part -= n->swap_part;
    make_own(n);
    forget_plan(n);
    models_tell(n);
}

void models_part_names(models_one *m, bool all) {
    bool parted = false;
    for (models_one *n = models_next_name(m, m), *next; n; n = next) {
        next = models_next_name(m, n);
        if (!all && !are_there(m, n, false)) continue;
        leave(m, n);
        parted = true;
    }
    if (!parted) return;
    forget_plan(m);
    if (!join(m))
        models_part_names(m, true); /* the order came from the adapters of one that left */
    models_tell(m);
}

bool models_names_differ(const models_one *m) {
    for (const models_one *n = models_next_name(m, m); n; n = models_next_name(m, n))
        if (are_there(m, n, false)) return true;
    return false;
}

/* ---- what a name has of the model ---- */

int32_t models_context(const models_one *n) {
    const int32_t all = n->lead->served.stage.plan.context, asked = n->asked_context;
    return asked && asked < all ? asked : all;
}

const char *models_shares_with(const models_one *n) {
    return n->lead == n ? NULL : n->lead->entry->name;
}
