/* grammar_link.c: a draft becomes a program: no jumps, few forks, nothing that can't end.
 *
 * The idea: a place of the draft becomes the set of nodes that are reached from it without a byte.
 * Those of the set that go on by bytes of which no two are the same become one node, so that the
 * inside of a JSON string, say, is one node with all its edges. A set of more than LEAVES_MAX stays
 * a fork of forks, so that a hostile chain of options takes linear room.
 * Then what has no end is cut away: a node is good if it returns, has an edge to a good one, or
 * calls a good rule and goes on with a good node; the least such set, by passes to and fro.
 * Cost: linear, but for the passes, which are bounded. */
#include "sampling/grammar/grammar_program.h"

#include <string.h>

#include "base/heap.h"

enum { LEAVES_MAX = 48, VISITS_MAX = 100000000 };

typedef struct linker {
    mnem__draft *d;
    mnem__program *p;
    uint64_t tables;   /* bytes beside the program's */
    uint32_t *node_of; /* of each place of the draft: the node that it became + 1; 0: none yet */
    uint32_t *seen_in; /* of each place: the last search that saw it */
    uint32_t *todo;    /* places whose nodes are made but not filled */
    uint32_t todos;
    uint32_t leaf[LEAVES_MAX], seen[2 * LEAVES_MAX];
    uint32_t leaves, seens, search;
    mnem_status status;
} linker;

void mnem__program_fini(mnem__program *p) {
    mnem__free(p->node);
    mnem__free(p->edge);
    mnem__free(p->target);
    mnem__free(p->start);
    *p = (mnem__program){0};
}

uint64_t mnem__program_bytes_used(const mnem__program *p) {
    return (uint64_t)p->nodes_room * sizeof *p->node + (uint64_t)p->edges_room * sizeof *p->edge +
           (uint64_t)p->targets_room * sizeof *p->target + (uint64_t)p->rules * sizeof *p->start;
}

static bool grow(linker *l, void **block, uint32_t count, uint32_t *room, size_t size) {
    if (l->status != MNEM_OK) return false;
    if (count < *room) return true;
    const uint32_t more = *room ? *room : 64;
    if (!mnem__draft_fits(l->d, l->tables + mnem__program_bytes_used(l->p) + more * size)) {
        l->status = MNEM_OVER_BUDGET;
        return false;
    }
    void *grown = mnem__realloc(MNEM__GRAMMAR_TAG, *block, (size_t)(*room + more) * size);
    if (!grown) {
        l->status = mnem__heap_status();
        return false;
    }
    *block = grown;
    *room += more;
    return true;
}

static uint32_t put_node(linker *l, mnem__program_node node) {
    mnem__program *p = l->p;
    if (!grow(l, (void **)&p->node, p->nodes, &p->nodes_room, sizeof *p->node)) return 0;
    p->node[p->nodes] = node;
    return p->nodes++;
}

/* ---- places without a byte between ---- */

static bool is_step(uint32_t op) {
    return op == MNEM__DRAFT_JUMP || op == MNEM__DRAFT_SPLIT;
}

static uint32_t skip_jumps(const mnem__draft *d, uint32_t at) {
    /* A loop of jumps alone can't be written: an item's jump leads forward, but for a loop's, whose
     * item then begins with a split. */
    while (d->node[at].op == MNEM__DRAFT_JUMP) at = (uint32_t)((int32_t)at + d->node[at].x);
    return at;
}

static bool see(linker *l, uint32_t at) {
    if (l->seen_in[at] == l->search) return true;
    if (l->seens == sizeof l->seen / sizeof *l->seen) return false;
    l->seen_in[at] = l->search;
    l->seen[l->seens++] = at;
    return true;
}

/* Fills leaf; false: there are too many. */
static bool find_leaves(linker *l, uint32_t at) {
    const mnem__draft *d = l->d;
    l->leaves = l->seens = 0;
    l->search++;
    if (!see(l, skip_jumps(d, at))) return false;
    for (uint32_t i = 0; i < l->seens; i++) { /* what is seen grows meanwhile */
        const uint32_t here = l->seen[i];
        const mnem__draft_node *n = &d->node[here];
        if (n->op != MNEM__DRAFT_SPLIT) {
            if (l->leaves == LEAVES_MAX) return false;
            l->leaf[l->leaves++] = here;
            continue;
        }
        if (!see(l, skip_jumps(d, (uint32_t)((int32_t)here + n->x))) ||
            !see(l, skip_jumps(d, (uint32_t)((int32_t)here + n->y))))
            return false;
    }
    return true;
}

/* ---- nodes ---- */

/* The node that a place of the draft becomes; it is filled later. */
static uint32_t node_for(linker *l, uint32_t at) {
    at = skip_jumps(l->d, at);
    if (l->node_of[at]) return l->node_of[at] - 1;
    const uint32_t node = put_node(l, (mnem__program_node){0});
    if (l->status != MNEM_OK) return 0;
    l->node_of[at] = node + 1;
    l->todo[l->todos++] = at;
    return node;
}

static void put_edge(linker *l, uint8_t low, uint8_t high, uint32_t to) {
    mnem__program *p = l->p;
    if (grow(l, (void **)&p->edge, p->edges, &p->edges_room, sizeof *p->edge))
        p->edge[p->edges++] = (mnem__edge){low, high, (int32_t)to};
}

static void put_target(linker *l, uint32_t to) {
    mnem__program *p = l->p;
    if (grow(l, (void **)&p->target, p->targets, &p->targets_room, sizeof *p->target))
        p->target[p->targets++] = to;
}

static uint32_t edge_place(const mnem__draft *d, uint32_t at, int32_t edge) {
    return (uint32_t)((int32_t)at + d->edge[edge].to);
}

static void put_joined(linker *l, uint32_t first, mnem__edge edge, uint32_t to) {
    mnem__edge *last = l->p->edges > first ? &l->p->edge[l->p->edges - 1] : NULL;
    if (last && last->to == (int32_t)to && last->high + 1 == edge.low)
        last->high = edge.high;
    else
        put_edge(l, edge.low, edge.high, to);
}

static bool is_in_order(const mnem__draft *d, uint32_t at) {
    const mnem__draft_node *n = &d->node[at];
    for (int32_t e = n->x + 1; e < n->x + n->y; e++)
        if (d->edge[e].low <= d->edge[e - 1].high) return false;
    return true;
}

/* Appends the edges of some places, which have no byte twice; in the order of the bytes. */
static mnem__program_node bytes_node(linker *l, const uint32_t *place, uint32_t n) {
    const mnem__draft *d = l->d;
    const uint32_t first = l->p->edges;
    uint32_t to[256];
    bool has[256] = {false};
    const mnem__draft_node *only = n == 1 && is_in_order(d, *place) ? &d->node[*place] : NULL;
    for (int32_t e = only ? only->x : 0; only && e < only->x + only->y; e++)
        put_joined(l, first, d->edge[e], node_for(l, edge_place(d, *place, e)));
    for (uint32_t i = 0; i < n && !only; i++) {
        const mnem__draft_node *b = &d->node[place[i]];
        for (int32_t e = b->x; e < b->x + b->y; e++) {
            const uint32_t node = node_for(l, edge_place(d, place[i], e));
            for (int byte = d->edge[e].low; byte <= d->edge[e].high; byte++) {
                to[byte] = node;
                has[byte] = true;
            }
        }
    }
    for (int byte = 0; byte < 256 && !only; byte++) {
        const mnem__edge edge = {(uint8_t)byte, (uint8_t)byte, 0};
        if (has[byte]) put_joined(l, first, edge, to[byte]);
    }
    return (mnem__program_node){MNEM__NODE_BYTES, first, l->p->edges - first};
}

/* Nodes of one byte, of which texts are made. */
static mnem__program_node byte_node(linker *l, uint32_t at) {
    const int32_t edge = l->d->node[at].x;
    const uint32_t to = node_for(l, edge_place(l->d, at, edge)), first = l->p->edges;
    put_edge(l, l->d->edge[edge].low, l->d->edge[edge].high, to);
    return (mnem__program_node){MNEM__NODE_BYTES, first, l->p->edges - first};
}

/* A place that is no jump as a node of its own. */
static mnem__program_node leaf_node(linker *l, uint32_t at) {
    const mnem__draft_node *n = &l->d->node[at];
    if (n->op == MNEM__DRAFT_BYTES) return n->y == 1 ? byte_node(l, at) : bytes_node(l, &at, 1);
    if (n->op == MNEM__DRAFT_RETURN) return (mnem__program_node){MNEM__NODE_RETURN, 0, 0};
    return (mnem__program_node){MNEM__NODE_CALL, (uint32_t)n->x, node_for(l, at + 1)};
}

static bool takes(const mnem__draft *d, uint32_t at, uint64_t bytes[4]) {
    const mnem__draft_node *n = &d->node[at];
    uint64_t own[4] = {0};
    for (int32_t e = n->x; e < n->x + n->y; e++) {
        const int low = d->edge[e].low, high = d->edge[e].high;
        for (int word = low / 64; word <= high / 64; word++) {
            const int from = low > word * 64 ? low % 64 : 0,
                      end = high / 64 > word ? 63 : high % 64;
            own[word] |= ~UINT64_C(0) << from & ~UINT64_C(0) >> (63 - end);
        }
    }
    for (int i = 0; i < 4; i++)
        if (own[i] & bytes[i]) return false;
    for (int i = 0; i < 4; i++) bytes[i] |= own[i];
    return true;
}

/* Of the leaves those that become one node come first; returns how many. */
static uint32_t gather_bytes(linker *l) {
    uint64_t bytes[4] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->leaves; i++) {
        const uint32_t at = l->leaf[i];
        if (l->d->node[at].op != MNEM__DRAFT_BYTES || !takes(l->d, at, bytes)) continue;
        l->leaf[i] = l->leaf[n];
        l->leaf[n++] = at;
    }
    return n;
}

static mnem__program_node fork_node(linker *l, const uint32_t *to, uint32_t n) {
    const uint32_t first = l->p->targets;
    for (uint32_t i = 0; i < n; i++) put_target(l, to[i]);
    return (mnem__program_node){MNEM__NODE_FORK, first, n};
}

/* The splits that follow a place, as one node or as a fork. */
static mnem__program_node step_node(linker *l, uint32_t at) {
    const mnem__draft_node *n = &l->d->node[at];
    uint32_t to[LEAVES_MAX + 1], count = 0;
    if (!find_leaves(l, at)) {
        to[0] = node_for(l, (uint32_t)((int32_t)at + n->x));
        to[1] = node_for(l, (uint32_t)((int32_t)at + n->y));
        return fork_node(l, to, 2);
    }
    const uint32_t merged = gather_bytes(l), leaves = l->leaves;
    if (leaves == 1 && !merged) return leaf_node(l, l->leaf[0]);
    if (merged == leaves) return bytes_node(l, l->leaf, merged);
    if (merged == 1)
        to[count++] = node_for(l, l->leaf[0]); /* others may lead there, too */
    else if (merged) {
        const mnem__program_node bytes = bytes_node(l, l->leaf, merged);
        to[count++] = put_node(l, bytes);
    }
    for (uint32_t i = merged; i < leaves; i++) to[count++] = node_for(l, l->leaf[i]);
    return fork_node(l, to, count);
}

static void fill_nodes(linker *l) {
    while (l->todos && l->status == MNEM_OK) {
        const uint32_t at = l->todo[--l->todos], node = l->node_of[at] - 1;
        const mnem__program_node made =
            is_step(l->d->node[at].op) ? step_node(l, at) : leaf_node(l, at);
        if (l->status == MNEM_OK) l->p->node[node] = made;
    }
}

/* ---- what ends ---- */

static bool is_good(const mnem__program *p, const bool *good, uint32_t node) {
    const mnem__program_node *n = &p->node[node];
    if (n->op == MNEM__NODE_RETURN) return true;
    if (n->op == MNEM__NODE_CALL) return good[p->start[n->a]] && good[n->b];
    for (uint32_t i = n->a; i < n->a + n->b; i++)
        if (good[n->op == MNEM__NODE_BYTES ? (uint32_t)p->edge[i].to : p->target[i]]) return true;
    return false;
}

static mnem_status find_good(const mnem__program *p, bool *good) {
    uint64_t visits = 0;
    for (bool more = true, up = false; more; up = !up) {
        more = false;
        for (uint32_t i = 0; i < p->nodes; i++) {
            const uint32_t node = up ? i : p->nodes - 1 - i;
            if (good[node] || !is_good(p, good, node)) continue;
            good[node] = more = true;
        }
        if ((visits += p->nodes + p->edges) > VISITS_MAX) return MNEM_OVER_BUDGET;
    }
    return MNEM_OK;
}

/* Takes what leads nowhere out of a node. */
static void prune_node(mnem__program *p, const bool *good, uint32_t node) {
    mnem__program_node *n = &p->node[node];
    uint32_t kept = n->a;
    if (!good[node]) *n = (mnem__program_node){MNEM__NODE_BYTES, 0, 0};
    if (n->op == MNEM__NODE_RETURN || n->op == MNEM__NODE_CALL || n->b == 0) return;
    for (uint32_t i = n->a; i < n->a + n->b; i++) {
        if (n->op == MNEM__NODE_BYTES && good[p->edge[i].to]) p->edge[kept++] = p->edge[i];
        if (n->op == MNEM__NODE_FORK && good[p->target[i]]) p->target[kept++] = p->target[i];
    }
    n->b = kept - n->a;
}

static bool add_rule(mnem__draft_way *way, uint32_t rule) {
    for (uint32_t i = 0; i < way->count; i++)
        if (way->rule[i] == rule) return false;
    if (way->count == MNEM__WAY_RULES) return false;
    way->rule[way->count++] = rule;
    return true;
}

/* Follows the only ways on from the root, to where there is none or are several. */
static void find_way(const mnem__program *p, const bool *good, mnem__draft_way *way) {
    uint32_t node = p->start[p->root];
    way->count = 0;
    add_rule(way, p->root);
    for (uint32_t steps = 0; steps < p->nodes; steps++) {
        const mnem__program_node *n = &p->node[node];
        if (n->op == MNEM__NODE_CALL && good[p->start[n->a]])
            node = n->b;
        else if (n->op == MNEM__NODE_CALL && add_rule(way, n->a))
            node = p->start[n->a];
        else if (n->op == MNEM__NODE_BYTES && n->b == 1)
            node = (uint32_t)p->edge[n->a].to;
        else if (n->op == MNEM__NODE_FORK && n->b == 1)
            node = p->target[n->a];
        else
            return;
    }
}

static mnem_status prune(mnem__program *p, mnem__draft_way *way) {
    bool *good = mnem__calloc(MNEM__GRAMMAR_TAG, p->nodes ? p->nodes : 1, sizeof *good);
    if (!good) return mnem__heap_status();
    mnem_status status = find_good(p, good);
    if (status == MNEM_OK && !good[p->start[p->root]]) {
        find_way(p, good, way);
        status = MNEM_BAD_FILE;
    }
    for (uint32_t i = 0; i < p->nodes && status == MNEM_OK; i++) prune_node(p, good, i);
    mnem__free(good);
    return status;
}

static void link_rules(linker *l) {
    for (uint32_t i = 0; i < l->d->rules && l->status == MNEM_OK; i++) {
        l->p->start[i] = node_for(l, (uint32_t)l->d->start[i]);
        fill_nodes(l);
    }
}

mnem_status mnem__program_link(mnem__draft *d, uint32_t root, mnem__program *p,
                               mnem__draft_way *way) {
    const uint64_t tables = mnem__draft_bytes_used(d) + (uint64_t)d->nodes * 3 * sizeof(uint32_t);
    *p = (mnem__program){.rules = d->rules, .root = root};
    if (!mnem__draft_fits(d, tables)) return MNEM_OVER_BUDGET;
    linker *l = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *l);
    uint32_t *table = mnem__calloc(MNEM__GRAMMAR_TAG, (size_t)d->nodes * 3, sizeof *table);
    p->start = mnem__calloc(MNEM__GRAMMAR_TAG, d->rules, sizeof *p->start);
    mnem_status status = MNEM_OK;
    if (!l || !table || !p->start) status = mnem__heap_status();
    if (status == MNEM_OK) {
        *l = (linker){.d = d,
                      .p = p,
                      .tables = tables,
                      .node_of = table,
                      .seen_in = table + d->nodes,
                      .todo = table + 2 * (size_t)d->nodes};
        link_rules(l);
        status = l->status;
    }
    mnem__free(table);
    mnem__free(l);
    if (status == MNEM_OK) status = prune(p, way);
    if (status != MNEM_OK) mnem__program_fini(p);
    return status;
}
