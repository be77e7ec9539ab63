/* test_engine_split.c: models over devices that are numbers, and the frontier of a plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"

enum { DEVICES_MOST = 8 };
enum { STEP = MNEM_SANITIZED ? 18 : 9 }; /* MiB from one capacity to the next */

static const char *path;

static int make_it(void **state) {
    (void)state;
    path = kit_path("split.gguf");
    make_model(path, "--embd 256 --layers 12 --heads 4 --kv-heads 2 --ff 700 --vocab 3000 "
                     "--type F16 --context 4096");
    return 0;
}

static mnem_status split(const uint64_t *capacity, int32_t count, mnem_engine_options o,
                         mnem_engine_device *devices, mnem_engine_split *out) {
    mnem_ledger *ledger;
    mnem_model *model;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){0}, &ledger), MNEM_OK);
    assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
    for (int32_t i = 0; i < count; i++)
        devices[i] = (mnem_engine_device){.capacity_bytes = capacity[i]};
    o.ledger = ledger;
    const mnem_status status = mnem_engine_split_make(model, &o, devices, count, out);
    mnem_model_close(model);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
    return status;
}

static uint64_t weight_bytes(void) {
    session_case c;
    assert_int_equal(session_case_open(&c, path, 0, NULL), MNEM_OK);
    const uint64_t bytes = c.plan.weight_bytes;
    session_case_close(&c);
    return bytes;
}

/* It makes no logits: all that isn't an activation is weights. */
static void an_encoder_on_one_device_has_all_its_weights_there(void **state) {
    (void)state;
    const char *const made = path;
    mnem_engine_device d;
    mnem_engine_split s;
    mnem_engine_plan plan;
    mnem_ledger *ledger;
    mnem_model *model;
    path = MNEM_TEST_DATA "/architectures/bert.gguf";
    assert_int_equal(split((uint64_t[]){64 * MIB}, 1, (mnem_engine_options){0}, &d, &s), MNEM_OK);
    assert_int_equal(mnem_ledger_create(NULL, &ledger), MNEM_OK);
    assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
    const mnem_engine_options o = {.ledger = ledger};
    assert_int_equal(mnem_engine_plan_make(model, &o, &plan), MNEM_OK);
    assert_true(d.weight_bytes >= plan.weight_bytes);
    assert_int_equal(d.weight_bytes + d.kv_bytes + d.activation_bytes, d.bytes_used);
    mnem_model_close(model);
    mnem_ledger_destroy(ledger);
    path = made;
}

static void every_layer_is_somewhere_and_the_room_is_what_is_left(void **state) {
    (void)state;
    const uint64_t capacity[] = {24 * MIB, 24 * MIB, 16 * MIB};
    mnem_engine_device d[3];
    mnem_engine_split s;
    assert_int_equal(split(capacity, 3, (mnem_engine_options){0}, d, &s), MNEM_OK);
    assert_int_equal(s.context, 4096);
    int32_t next = 0;
    uint64_t room = UINT64_MAX, weights = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(d[i].layer_begin, next);
        next += d[i].layers;
        weights += d[i].weight_bytes;
        assert_int_equal(d[i].embedding, i == 0);
        assert_int_equal(d[i].head, i == 2);
        assert_int_equal(d[i].weight_bytes + d[i].kv_bytes + d[i].activation_bytes,
                         d[i].bytes_used);
        assert_true(d[i].bytes_used <= d[i].capacity_bytes);
        if (d[i].capacity_bytes - d[i].bytes_used < room)
            room = d[i].capacity_bytes - d[i].bytes_used;
    }
    assert_int_equal(next, 12);
    assert_int_equal(room, s.room_bytes);
    const uint64_t vectors = (12 * 2 + 1) * 256 * sizeof(float);
    assert_int_equal(weights, weight_bytes() + vectors);
    assert_true(d[2].layers < d[0].layers);
}

/* Of a layer that attends, too, beside its keys and values. */
static void live_states_are_counted_with_their_layers(void **state) {
    (void)state;
    static const char *const files[] = {MNEM_TEST_DATA "/architectures/mamba2.gguf",
                                        MNEM_TEST_DATA "/architectures/falcon_h1.gguf"};
    const char *made = path;
    const uint64_t capacity = 64 * MIB;
    mnem_engine_options o = {.context = 128, .sequences = 3, .kv = MNEM_KV_F16};
    for (int i = 0; i < 2; i++) {
        mnem_engine_device d;
        mnem_engine_split s;
        session_case c;
        mnem_transformer t;
        path = files[i];
        assert_int_equal(split(&capacity, 1, o, &d, &s), MNEM_OK);
        assert_int_equal(session_case_open(&c, path, 0, &o), MNEM_OK);
        assert_int_equal(mnem_model_transformer(c.model, &t), MNEM_OK);
        const uint64_t states = 3 * mnem_transformer_state_bytes(&t);
        assert_int_equal(d.kv_bytes, (uint64_t)c.plan.pages * c.plan.page_bytes + states);
        session_case_close(&c);
    }
    path = made;
}

static void smaller_devices_get_a_smaller_context_and_chunk(void **state) {
    (void)state;
    mnem_engine_device d[2];
    mnem_engine_split s = {.context = 4096};
    int32_t last = 4096;
    for (uint64_t capacity = 40 * MIB; capacity > 12 * MIB; capacity -= MIB) {
        const uint64_t both[] = {capacity, capacity};
        if (split(both, 2, (mnem_engine_options){0}, d, &s) != MNEM_OK) break;
        assert_true(s.context <= last);
        last = s.context;
    }
    assert_true(last < 4096);
}

/* Does what a refusal says. */
static void turn_knob(mnem_knob knob, uint64_t *capacity, int32_t count, mnem_engine_options *o) {
    switch (knob.kind) {
    case MNEM_KNOB_KV: o->kv = (mnem_kv_choice)knob.value; break;
    case MNEM_KNOB_CONTEXT: o->context = (int32_t)knob.value; break;
    case MNEM_KNOB_CHUNK: o->chunk = (int32_t)knob.value; break;
    case MNEM_KNOB_DEVICES:
        for (int32_t i = 0; i < count; i++) capacity[i] += (uint64_t)knob.value;
        break;
    default: fail_msg("no knob: %d", knob.kind);
    }
}

static void the_knob_of_a_refused_split_works(void **state) {
    (void)state;
    static const mnem_engine_options variants[] = {
        {0}, {.context = 4096}, {.context = 1000, .chunk = 500}, {.kv = MNEM_KV_AUTO}};
    int refused = 0;
    /* With each variant and number of devices other capacities. */
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
        for (int32_t count = 1; count <= DEVICES_MOST; count++)
            for (uint64_t each = 1 + 3 * ((v + (uint64_t)count) % 3); each < 40; each += STEP) {
                mnem_engine_options o = variants[v];
                uint64_t capacity[DEVICES_MOST];
                mnem_engine_device d[DEVICES_MOST];
                mnem_engine_split s;
                for (int32_t i = 0; i < count; i++) capacity[i] = each * MIB + (uint64_t)i * 12345;
                const mnem_status status = split(capacity, count, o, d, &s);
                if (status == MNEM_OK) continue;
                assert_int_equal(status, MNEM_OVER_BUDGET);
                assert_true(s.short_bytes > 0);
                char text[512];
                snprintf(text, sizeof text, "%s", mnem_last_error());
                turn_knob(s.knob, capacity, count, &o);
                if (split(capacity, count, o, d, &s) != MNEM_OK)
                    fail_msg("%s, then: %s", text, mnem_last_error());
                refused++;
            }
    print_message("%d refusals\n", refused);
    assert_true(refused > (MNEM_SANITIZED ? 15 : 30));
}

static void wrong_numbers_of_devices_are_refused(void **state) {
    (void)state;
    const uint64_t capacity[] = {UINT64_MAX};
    mnem_engine_device d[1];
    mnem_engine_split s;
    assert_int_equal(split(capacity, 0, (mnem_engine_options){0}, d, &s), MNEM_INVALID);
    assert_int_equal(split(capacity, 1, (mnem_engine_options){0}, d, &s), MNEM_INVALID);
}

/* ---- the frontier ---- */

typedef struct seen {
    mnem_engine_way last;
    int ways, chosen;
    int stop_at; /* 0: never */
} seen;

static bool on_way(void *context, const mnem_engine_way *way) {
    seen *s = context;
    if (s->ways > 0) {
        assert_true(way->peak_bytes > s->last.peak_bytes);
        assert_true(way->seconds < s->last.seconds);
        assert_true(s->last.gave_up[0] != 0);
    }
    s->last = *way;
    s->ways++;
    s->chosen += way->chosen;
    return s->ways != s->stop_at;
}

static void the_frontier_climbs_and_holds_the_plan(void **state) {
    (void)state;
    static const mnem_engine_options variants[] = {
        {0},
        {.context = 300},
        {.context = 64, .chunk = 16},
        {.kv = MNEM_KV_AUTO},
        {.context = 300, .sequences = 8, .pages_fill = true}};
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
        for (uint64_t budget = 0; budget <= 48 * MIB; budget += 12 * MIB) {
            session_case c = {.options = variants[v]};
            seen s = {0};
            assert_int_equal(
                mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &c.ledger),
                MNEM_OK);
            assert_int_equal(mnem_model_open(path, &c.model), MNEM_OK);
            c.options.ledger = c.ledger;
            assert_int_equal(mnem_engine_plan_make(c.model, &c.options, &c.plan), MNEM_OK);
            assert_int_equal(mnem_engine_frontier(c.model, &c.options, &c.plan, on_way, &s),
                             MNEM_OK);
            assert_true(s.ways > 5);
            assert_int_equal(s.chosen, 1);
            assert_int_equal(s.last.gave_up[0], 0);
            s = (seen){.stop_at = 2};
            assert_int_equal(mnem_engine_frontier(c.model, &c.options, &c.plan, on_way, &s),
                             MNEM_OK);
            assert_int_equal(s.ways, 2);
            session_case_close(&c);
        }
}

/* Bytes of the ways move with it, the chosen one's too. */
static void a_charge_after_planning_leaves_the_chosen_way(void **state) {
    (void)state;
    session_case c = {.options = {.context = 300}};
    seen s = {0};
    assert_int_equal(mnem_ledger_create(NULL, &c.ledger), MNEM_OK);
    assert_int_equal(mnem_model_open(path, &c.model), MNEM_OK);
    c.options.ledger = c.ledger;
    assert_int_equal(mnem_engine_plan_make(c.model, &c.options, &c.plan), MNEM_OK);
    assert_int_equal(mnem_ledger_charge(c.ledger, MNEM_KIND_HOST, "later", 1000), MNEM_OK);
    assert_int_equal(mnem_engine_frontier(c.model, &c.options, &c.plan, on_way, &s), MNEM_OK);
    assert_int_equal(s.chosen, 1);
    mnem_ledger_release(c.ledger, MNEM_KIND_HOST, "later", 1000);
    session_case_close(&c);
}

/* ---- without memory ---- */

static bool count_way(void *context, const mnem_engine_way *way) {
    (void)way;
    ++*(int *)context;
    return true;
}

/* The split, the frontier and a graph, with the n-th allocation refused. */
static mnem_status all_three(session_case *c) {
    mnem_engine_device d[2] = {{.capacity_bytes = 24 * MIB}, {.capacity_bytes = 24 * MIB}};
    mnem_engine_split s;
    mnem_graph *graph = NULL;
    mnem_graph_sizes sizes;
    int ways = 0;
    mnem_status status = mnem_engine_split_make(c->model, &c->options, d, 2, &s);
    if (status == MNEM_OK)
        status = mnem_engine_frontier(c->model, &c->options, &c->plan, count_way, &ways);
    if (status == MNEM_OK)
        status =
            mnem_engine_graph_create(c->model, &c->options, &c->plan, false, 0, &graph, &sizes);
    if (status == MNEM_OK) assert_true(ways > 5);
    mnem_graph_destroy(graph);
    return status;
}

static void without_memory_nothing_is_left_behind(void **state) {
    (void)state;
    session_case c;
    const mnem_engine_options o = {.context = 64, .chunk = 16};
    assert_int_equal(session_case_open(&c, path, 0, &o), MNEM_OK);
    for (int from = 0; from < 2; from++) { /* this one, or all from it on */
        uint64_t n = 1;
        for (int wholes = 0; wholes < 4; n++) { /* one that was done without is no end */
            mnem_heap_usage before, after;
            mnem_heap_usage_get(&before);
            mnem__heap_fail_at(n, from);
            const mnem_status status = all_three(&c);
            mnem__heap_fail_at(0, false);
            mnem_heap_usage_get(&after);
            assert_int_equal(before.bytes_live, after.bytes_live);
            wholes = status == MNEM_OK ? wholes + 1 : 0;
            if (status != MNEM_OK) assert_int_equal(status, MNEM_NO_MEMORY);
        }
        print_message("%llu allocations\n", (unsigned long long)n - 5);
        assert_true(n > 20);
    }
    session_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_is_somewhere_and_the_room_is_what_is_left),
        cmocka_unit_test(an_encoder_on_one_device_has_all_its_weights_there),
        cmocka_unit_test(live_states_are_counted_with_their_layers),
        cmocka_unit_test(smaller_devices_get_a_smaller_context_and_chunk),
        cmocka_unit_test(the_knob_of_a_refused_split_works),
        cmocka_unit_test(wrong_numbers_of_devices_are_refused),
        cmocka_unit_test(the_frontier_climbs_and_holds_the_plan),
        cmocka_unit_test(a_charge_after_planning_leaves_the_chosen_way),
        cmocka_unit_test(without_memory_nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, make_it, NULL);
}
