/* test_graph_room.c: the programs of every family have exactly the room that they use, and take the
 * heap that was said before. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "graph/build/graph_private.h"
#include "mnem/ledger.h"
#include "model/architecture/adapter_set.h"

enum { TOKENS = 8, PRODUCTS = 64, TABLES = 100 };

typedef struct seen {
    bool table[TABLES];
    int programs, cut;
} seen;

static mnem__transformer_graph_options options_of(const mnem__transformer_map *map) {
    const mnem_kv_layout kv = {.type = MNEM_TYPE_F32,
                               .kv_heads = map->shape.kv_heads,
                               .head_dim = map->shape.head_dim,
                               .page_tokens = 16};
    return (mnem__transformer_graph_options){
        .map = map, .tokens = TOKENS, .workers = 1, .kv = kv, .context = 32};
}

/* All that was added is there, or was found to be superfluous when the graph was compiled. */
static void check_room(const mnem_graph *graph, const mnem_graph_sizes *sizes) {
    if (!graph) return;
    assert_int_equal(graph->tensors, graph->options.tensors);
    assert_int_equal(graph->steps + sizes->dropped.nodes + sizes->merged.nodes,
                     graph->options.nodes);
}

static void must(mnem_status status) {
    if (status != MNEM_OK) fail_msg("%s", mnem_last_error());
}

static uint64_t heap_bytes(void) {
    mnem_heap_usage usage;
    mnem_heap_usage_get(&usage);
    return usage.bytes_live;
}

static void check_whole(const mnem__transformer_graph_options *o, seen *s) {
    mnem_graph *body, *head;
    mnem_graph_sizes body_sizes, head_sizes;
    const uint64_t before = heap_bytes();
    must(mnem__transformer_body(o, &body, &body_sizes));
    must(mnem__transformer_head(o, &head, &head_sizes));
    assert_int_equal(heap_bytes() - before, mnem__transformer_graphs_bytes(o));
    check_room(body, &body_sizes);
    check_room(head, &head_sizes);
    mnem_graph_destroy(body);
    mnem_graph_destroy(head);
    s->programs++;
}

/* Every layer by itself; the largest is what was said. */
static void check_parts(const mnem__transformer_graph_options *o) {
    uint64_t most = 0;
    for (int32_t layer = -1; layer < o->map->shape.layers; layer++) {
        mnem_graph *graph;
        mnem_graph_sizes sizes;
        const uint64_t before = heap_bytes();
        must(mnem__transformer_part(o, layer, &graph, &sizes));
        if (heap_bytes() - before > most) most = heap_bytes() - before;
        check_room(graph, &sizes);
        mnem_graph_destroy(graph);
    }
    assert_int_equal(most, mnem__transformer_part_bytes(o));
}

static void add_product(mnem__adapter_set *set, int32_t handle, const mnem_tensor_info *info) {
    if (set->count == PRODUCTS) return;
    set->low[set->count] =
        (mnem_low_rank){.a_type = MNEM_TYPE_F32, .b_type = MNEM_TYPE_F32, .rank = 4, .scale = 1};
    set->product[set->count++] =
        (mnem__adapter_product){.matrix = handle,
                                .a = {.type = MNEM_TYPE_F32, .rows = 4, .k = info->shape[1]},
                                .b = {.type = MNEM_TYPE_F32, .rows = info->shape[0], .k = 4}};
}

/* An adapter at every matrix that is one product, two at the first. */
static mnem__adapter_set *adapters_of(const mnem__transformer_map *map) {
    mnem__adapter_set *set = calloc(1, sizeof *set);
    assert_non_null(set);
    set->product = calloc(PRODUCTS, sizeof *set->product);
    set->low = calloc(PRODUCTS, sizeof *set->low);
    assert_true(set->product && set->low);
    for (int32_t handle = 0; handle < map->body_count + map->head_count; handle++) {
        mnem_tensor_info info;
        mnem__transformer_matrix(map, handle, &info);
        if (info.dims != 2) continue;
        if (set->count == 0) add_product(set, handle, &info);
        add_product(set, handle, &info);
    }
    return set;
}

static void check_options(const mnem__transformer_map *map, seen *s) {
    mnem__adapter_set *set = adapters_of(map);
    for (int bits = 0; bits < 8; bits++) {
        mnem__transformer_graph_options o = options_of(map);
        o.keep_inputs = bits & 1;
        o.guess_experts = bits & 2;
        o.adapters = bits & 4 && !map->rows ? set : NULL;
        o.embedding_packed = bits == 0 && !map->rows;
        check_whole(&o, s);
        if (!map->rows && !map->shape.encoder && map->shape.part_end == 0) check_parts(&o);
    }
    free(set->product);
    free(set->low);
    free(set);
}

/* The first half of all rows. */
static void check_cut(const mnem_model *model, const mnem_transformer *t, seen *s) {
    const mnem_row_part half = {.heads = {0, t->heads / 2},
                                .kv_heads = {0, t->kv_heads / 2},
                                .ff = {0, t->ff / 2},
                                .embd = {0, t->embd / 2},
                                .vocab = {0, t->vocab / 2},
                                .experts = {0, t->experts / 2}};
    mnem__transformer_map *map;
    if (mnem__transformer_map_rows(model, &half, &map) != MNEM_OK) return;
    check_options(map, s);
    mnem__transformer_map_destroy(map);
    s->cut++;
}

static void note_table(const mnem_transformer *t, seen *s) {
    const mnem__architecture *a = mnem__architecture_find(t->architecture);
    for (int i = 0; i < TABLES; i++) s->table[i] |= mnem__architecture_get(i) == a;
}

static void check_file(const char *path, seen *s) {
    mnem_model *model;
    mnem__transformer_map *map;
    must(mnem_model_open(path, &model));
    must(mnem__transformer_map_create(model, &map));
    const mnem_transformer t = map->shape;
    note_table(&t, s);
    check_options(map, s);
    mnem__transformer_map_destroy(map);
    if (t.streams)
        assert_int_equal(mnem__transformer_map_part(model, 0, 1, &map), MNEM_UNSUPPORTED);
    if (!t.encoder && !t.streams) {
        const int32_t last = mnem__layer_run_begin(&t, mnem__layer_runs(&t) - 1);
        must(mnem__transformer_map_part(model, last, t.layers, &map));
        check_options(map, s);
        mnem__transformer_map_destroy(map);
        check_cut(model, &t, s);
    }
    mnem_model_close(model);
}

static void check_files(seen *s) {
    DIR *folder = opendir(MNEM_TEST_DATA "/architectures");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[512];
        if (!strstr(entry->d_name, ".gguf")) continue;
        snprintf(path, sizeof path, "%s/architectures/%s", MNEM_TEST_DATA, entry->d_name);
        check_file(path, s);
    }
    closedir(folder);
}

static void check_made(const char *architecture, seen *s) {
    char path[64], command[512];
    snprintf(path, sizeof path, "/tmp/mnem_test_graph_room_%d.gguf", (int)getpid());
    snprintf(command, sizeof command,
             "%s %s --arch %s --embd 64 --layers 3 --heads 4 --ff 96 --vocab 400", MAKE_MODEL, path,
             architecture);
    assert_int_equal(system(command), 0);
    check_file(path, s);
    remove(path);
}

static void programs_use_all_the_room_that_they_ask_for(void **state) {
    (void)state;
    seen s = {0};
    check_files(&s);
    for (int i = 0; mnem__architecture_get(i); i++)
        if (!s.table[i]) check_made(mnem__architecture_get(i)->names[0], &s);
    for (int i = 0; mnem__architecture_get(i); i++) assert_true(s.table[i]);
    print_message("%d programs, %d models cut by rows\n", s.programs, s.cut);
    assert_true(s.cut >= 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_use_all_the_room_that_they_ask_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
