/* test_probe_parts.c: what a probe is made of: cycles, knees, samples, what the system says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "sight/probe/probe_private.h"

/* ---- cycles ---- */

static void a_cycle_that_grows_stays_one_cycle(void **state) {
    (void)state;
    enum { BYTES = 1 << 16 };
    mnem__probe_block block = {.bytes = aligned_alloc(128, BYTES), .size = BYTES};
    uint64_t random = 7;
    mnem__probe_cycle_begin(&block);
    for (uint64_t bytes = 4096; bytes <= BYTES; bytes *= 2) {
        mnem__probe_cycle_grow(&block, bytes, &random);
        assert_int_equal(block.cycle, bytes / 128);
        char *p = block.bytes;
        uint64_t steps = 0, forward = 0;
        do {
            char *next = *(char **)(void *)p;
            assert_true(next >= block.bytes && next < block.bytes + bytes);
            forward += next == p + 128;
            p = next;
            steps++;
        } while (p != block.bytes && steps <= bytes / 128);
        assert_int_equal(steps, bytes / 128);
        assert_true(forward <= bytes / 128 / 4); /* in order: about one */
    }
    free(block.bytes);
}

/* ---- knees ---- */

/* Levels of 32 KiB, 1 MiB and `third`, as a curve of steps or as one of random replacement. */
static void draw(mnem_probe *p, uint64_t third, bool steps) {
    const uint64_t edge[3] = {32 << 10, 1 << 20, third};
    const double ns[4] = {1, 4, 20, 90};
    *p = (mnem_probe){.levels = 4};
    for (uint64_t bytes = 4096; bytes <= 1 << 30; bytes *= 2)
        for (uint64_t part = 4; part < 8 && p->sizes < MNEM_PROBE_SIZES; part++) {
            const uint64_t size = bytes * part / 4;
            double sum = ns[0];
            for (int i = 0; i < 3; i++)
                if (size > edge[i])
                    sum += (ns[i + 1] - ns[i]) * (steps ? 1 : 1 - (double)edge[i] / (double)size);
            p->size[p->sizes++] = (mnem_probe_size){.bytes = size, .ns = sum};
        }
    const uint64_t cycle[4] = {16 << 10, 180 << 10, 4 << 20, 1 << 30};
    for (int i = 0; i < 4; i++) {
        p->level[i].latency = (mnem_probe_value){.best = ns[i], .passes = 1};
        p->level[i].latency_bytes = cycle[i];
        p->level[i].said_bytes = i < 3 ? edge[i] : 1 << 30;
    }
}

static void knees_are_where_levels_end(void **state) {
    (void)state;
    static mnem_probe p;
    for (int steps = 0; steps < 2; steps++) {
        draw(&p, 32 << 20, steps);
        mnem__probe_knees(&p);
        for (int i = 0; i < 3; i++) {
            const double part = (double)p.level[i].measured_bytes / (double)p.level[i].said_bytes;
            assert_true(part > 0.75 && part < 1.45);
            assert_false(mnem_probe_level_lies(&p.level[i]));
        }
        assert_int_equal(p.level[3].measured_bytes, 0);
        assert_ptr_equal(mnem_probe_level_of(&p, 16 << 10), &p.level[0]);
        assert_ptr_equal(mnem_probe_level_of(&p, 8 << 20), &p.level[2]);
        assert_ptr_equal(mnem_probe_level_of(&p, 900 << 20), &p.level[3]);
    }
}

static void a_level_that_is_smaller_than_said_is_found(void **state) {
    (void)state;
    static mnem_probe p;
    draw(&p, 8 << 20, false);
    p.level[2].said_bytes = 64 << 20; /* as a virtual machine says */
    mnem__probe_knees(&p);
    assert_true(mnem_probe_level_lies(&p.level[2]));
    assert_true(p.level[2].measured_bytes < 12 << 20);
}

static void a_knee_that_is_not_seen_is_none(void **state) {
    (void)state;
    static mnem_probe p;
    draw(&p, 32 << 20, true);
    while (p.size[p.sizes - 1].bytes > 24 << 20) p.sizes--;
    p.level[3].latency.best = 0;
    mnem__probe_knees(&p);
    assert_int_equal(p.level[2].measured_bytes, 0);
}

/* ---- samples ---- */

static void noise_does_not_move_the_best(void **state) {
    (void)state;
    mnem__probe_samples s = {0};
    for (int i = 0; i < 100; i++) mnem__probe_sample(&s, i % 3 ? 10.0 + i : 5.0, false);
    const mnem_probe_value v = mnem__probe_value(&s, false);
    assert_true(v.best == 5.0 && v.passes == 100);
    mnem__probe_samples quiet = {0}, wild = {0};
    for (int i = 0; i < 20; i++) {
        mnem__probe_sample(&quiet, i < 12 ? 100.0 : 3.0, true); /* busy for 8 of them */
        mnem__probe_sample(&wild, 100.0 - 4 * i, true);
    }
    const mnem_probe_value q = mnem__probe_value(&quiet, true), w = mnem__probe_value(&wild, true);
    assert_true(q.best == 100 && !mnem_probe_noisy(&q));
    assert_true(w.best == 100 && mnem_probe_noisy(&w));
    const mnem__probe_samples none = {0};
    assert_int_equal(mnem__probe_value(&none, true).passes, 0);
}

/* ---- the system ---- */

static void say(const char *root, const char *name, const char *text) {
    char path[400];
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu0/cache/%s", root, name);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    write_file(path, text, strlen(text));
}

static void caches_are_read_as_the_system_writes_them(void **state) {
    (void)state;
    uint64_t bytes[3] = {0};
    int32_t shared[3] = {1, 1, 1};
    const char *root = kit_path("system");
    say(root, "index0/type", "Data\n");
    say(root, "index0/level", "1\n");
    say(root, "index0/size", "48K\n");
    say(root, "index0/shared_cpu_list", "0\n");
    say(root, "index1/type", "Instruction\n");
    say(root, "index1/level", "1\n");
    say(root, "index1/size", "32K\n");
    say(root, "index2/type", "Unified\n");
    say(root, "index2/level", "3\n");
    say(root, "index2/size", "260M\n");
    say(root, "index2/shared_cpu_list", "0-3,8,10-11\n");
    mnem__probe_caches(root, 0, bytes, shared);
    assert_true(bytes[0] == 48 * KIB && bytes[1] == 0 && bytes[2] == 260 * MIB);
    assert_true(shared[0] == 1 && shared[2] == 7);
    say(root, "index2/size", "everything\n");
    say(root, "index2/shared_cpu_list", "9-0-,,\n");
    mnem__probe_caches(root, 0, bytes, shared);
    assert_true(bytes[2] == 0 && shared[2] == 1);
}

static void the_last_level_is_counted_with_all_its_caches(void **state) {
    (void)state;
    mnem__probe_system system = {.cache_bytes = {48 * KIB, MIB, 32 * MIB},
                                 .cache_shared = {2, 2, 16}};
    assert_true(mnem__probe_last_bytes(&system, 2) == 32 * MIB);
    assert_true(mnem__probe_last_bytes(&system, 16) == 32 * MIB);
    assert_true(mnem__probe_last_bytes(&system, 17) == 64 * MIB);
    assert_true(mnem__probe_last_bytes(&system, 192) == 12 * 32 * MIB);
    system.cache_bytes[2] = 0; /* none */
    assert_true(mnem__probe_last_bytes(&system, 4) == 2 * MIB);
    assert_true(mnem__probe_last_bytes(&(mnem__probe_system){0}, 4) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cycle_that_grows_stays_one_cycle),
        cmocka_unit_test(knees_are_where_levels_end),
        cmocka_unit_test(a_level_that_is_smaller_than_said_is_found),
        cmocka_unit_test(a_knee_that_is_not_seen_is_none),
        cmocka_unit_test(noise_does_not_move_the_best),
        cmocka_unit_test(caches_are_read_as_the_system_writes_them),
        cmocka_unit_test(the_last_level_is_counted_with_all_its_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
