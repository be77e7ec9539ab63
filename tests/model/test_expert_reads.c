/* test_expert_reads.c: experts that are read when a layer wants them: what is handed out is what
 * the file holds, a read that nobody wants any more ends early, and errors of the disk come out of
 * acquire. pread is wrapped by the linker, so that reads can wait, be short, or fail. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/error.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_random.h"
#include "mnem/ledger.h"
#include "model/gguf/gguf_writer.h"
#include "model/weights/weights.h"
#include "model/weights/weights_idle.h"
#include "model/weights/weights_private.h"

enum { MIXTURES = 2, EXPERTS = 8, ROWS = 32, K = 256, MATRICES = 3 * MIXTURES };
enum { A = 0, B = 3 }; /* the mixtures, by the handles of their gates */

/* ---- a disk that waits, or misbehaves ---- */

typedef enum disk_mode { DISK_GOOD, DISK_SHORT, DISK_BROKEN, DISK_CUT } disk_mode;
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    disk_mode mode;
    int good;    /* reads until BROKEN and CUT begin */
    bool stands; /* reads wait until it doesn't */
    int waiting, reads;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

ssize_t __real_pread(int fd, void *out, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *out, size_t n, off_t at);

ssize_t __wrap_pread(int fd, void *out, size_t n, off_t at) {
    pthread_mutex_lock(&disk.lock);
    const int read = disk.reads++;
    const disk_mode mode = read >= disk.good ? disk.mode : DISK_GOOD;
    disk.waiting++;
    pthread_cond_broadcast(&disk.changed);
    while (disk.stands) pthread_cond_wait(&disk.changed, &disk.lock);
    disk.waiting--;
    pthread_mutex_unlock(&disk.lock);
    if (mode == DISK_CUT) return 0;
    if (mode == DISK_SHORT && n > 8192) n = 4096;
    errno = mode == DISK_SHORT ? EINTR : EIO;
    if (mode == DISK_BROKEN || (mode == DISK_SHORT && read % 3 == 0)) return -1;
    return __real_pread(fd, out, n, at);
}

static void disk_set(disk_mode mode, int good) {
    pthread_mutex_lock(&disk.lock);
    disk.mode = mode;
    disk.good = good;
    disk.reads = 0;
    pthread_mutex_unlock(&disk.lock);
}

/* From then on reads wait in the middle; or all of them go on. */
static void disk_stand(bool stands) {
    pthread_mutex_lock(&disk.lock);
    disk.stands = stands;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

static void wait_for_readers(int count) {
    pthread_mutex_lock(&disk.lock);
    while (disk.waiting < count) pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
}

/* ---- weights of two mixtures ---- */

typedef struct reads_case {
    mnem_model *model;
    mnem_device *device;
    mnem_block experts, ring;
    mnem__weights *weights;
    uint64_t matrix_bytes; /* of one expert's gate, up or down in the file */
} reads_case;

static int write_model(void **state) {
    static const char *const names[MATRICES] = {
        "blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight",
        "blk.1.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"};
    static const int64_t shape[] = {EXPERTS, ROWS, K};
    static float rows[EXPERTS * ROWS * K];
    mnem_gguf_writer *w;
    uint64_t random = 7;
    (void)state;
    must(mnem_gguf_create(kit_path("experts.gguf"), &w));
    must(mnem_gguf_key_text(w, "general.architecture", "none"));
    for (int i = 0; i < MATRICES; i++)
        must(mnem__gguf_write_tensor(w, names[i], MNEM_TYPE_F32, 3, shape));
    for (int i = 0; i < MATRICES; i++) {
        for (int64_t j = 0; j < EXPERTS * ROWS * K; j++)
            rows[j] = (float)(next_random(&random) % 255);
        must(mnem__gguf_write_data(w, rows, sizeof rows));
    }
    must(mnem_gguf_finish(w));
    return 0;
}

static void take(reads_case *c, uint64_t bytes, mnem_block *block) {
    if (bytes) must(mnem_device_alloc(c->device, MNEM_SPACE_HOST, bytes, 4096, block));
}

static void open_case(reads_case *c, int32_t slots) {
    static const int32_t tensors[MATRICES] = {0, 1, 2, 3, 4, 5};
    static const bool resident[MATRICES] = {false};
    mnem__weights_sizes sizes;
    *c = (reads_case){.matrix_bytes = ROWS * K * sizeof(float)};
    disk_set(DISK_GOOD, 0);
    must(mnem_model_open(kit_path("experts.gguf"), &c->model));
    must(mnem_device_open("host", NULL, &c->device));
    const mnem__weights_options options = {.model = c->model,
                                           .tensors = tensors,
                                           .resident = resident,
                                           .body_count = MATRICES,
                                           .slots = 2,
                                           .expert_slots = slots};
    must(mnem__weights_measure(&options, &sizes));
    assert_int_equal(sizes.expert_slots, slots);
    take(c, sizes.expert_bytes, &c->experts);
    take(c, sizes.ring_bytes, &c->ring);
    const mnem__weights_blocks blocks = {.ring = mnem_block_host(&c->ring),
                                         .experts = mnem_block_host(&c->experts)};
    must(mnem__weights_create(&options, &blocks, &c->weights));
    must(mnem__weights_load(c->weights, &(mnem_progress){0}));
}

static void close_case(reads_case *c) {
    mnem__weights_destroy(c->weights);
    mnem_device_free(&c->experts);
    mnem_device_free(&c->ring);
    mnem_model_close(c->model);
    must(mnem_device_close(c->device));
}

static void check_bytes(const reads_case *c, int32_t gates, const mnem_op_expert *expert) {
    static float raw[ROWS * K];
    static _Alignas(64) uint8_t packed[sizeof raw];
    for (int i = 0; i < 3; i++) {
        must(mnem_model_tensor_read(c->model, (uint32_t)(gates + i),
                                    (uint64_t)expert->number * c->matrix_bytes, c->matrix_bytes,
                                    raw));
        for (int g = 0; g < ROWS / MNEM_PACK_ROWS; g++)
            mnem_pack_group(MNEM_TYPE_F32, MNEM_PACK_ROWS, K, raw + g * MNEM_PACK_ROWS * K,
                            packed + (size_t)g * mnem_pack_group_bytes(MNEM_TYPE_F32, K));
        assert_memory_equal(expert->packed[i], packed, sizeof packed);
    }
}

static mnem_status want(reads_case *c, int32_t gates, const int32_t *numbers, int32_t count,
                        bool in_order) {
    return mnem__weights_experts.want(c->weights, gates, numbers, count, in_order);
}

/* Takes and gives back count of those that are wanted. check: the disk is good. */
static mnem_status use(reads_case *c, int32_t gates, int32_t count, bool check) {
    for (int32_t i = 0; i < count; i++) {
        mnem_graph_expert expert;
        MNEM__TRY(mnem__weights_experts.acquire(c->weights, gates, &expert));
        if (check) check_bytes(c, gates, &expert.expert);
        mnem__weights_experts.release(c->weights, &expert);
    }
    return MNEM_OK;
}

static void want_and_use(reads_case *c, int32_t gates, const int32_t *numbers, int32_t count) {
    must(want(c, gates, numbers, count, false));
    must(use(c, gates, count, true));
}

static void guess(reads_case *c, int32_t gates, const int32_t *numbers, int32_t count) {
    mnem__weights_experts.guess(c->weights, gates, numbers, count);
}

static mnem__weights_stats stats_of(const reads_case *c) {
    mnem__weights_stats stats;
    mnem__weights_stats_get(c->weights, &stats);
    return stats;
}

/* Also by readers that gave up. */
static void check_matrices_read(const reads_case *c, uint64_t matrices) {
    weights_idle(c->weights);
    assert_int_equal(stats_of(c).bytes_streamed, matrices * c->matrix_bytes);
}

/* ---- what is read ---- */

static void what_is_handed_out_is_what_the_file_holds(void **state) {
    static const int32_t all[EXPERTS] = {0, 1, 2, 3, 4, 5, 6, 7};
    (void)state;
    for (int in_order = 0; in_order < 2; in_order++)
        for (int mode = DISK_GOOD; mode <= DISK_SHORT; mode++) {
            reads_case c;
            open_case(&c, 5);
            disk_set((disk_mode)mode, 0);
            for (int round = 0; round < 6; round++) {
                const int32_t gates = round % 2 ? B : A;
                must(want(&c, gates, all, EXPERTS, in_order));
                must(use(&c, gates, EXPERTS, true));
            }
            assert_int_equal(stats_of(&c).expert_hits + stats_of(&c).expert_misses, 6 * EXPERTS);
            close_case(&c);
        }
}

static void a_wrong_guess_ends_at_the_next_matrix(void **state) {
    reads_case c;
    (void)state;
    open_case(&c, 8);
    want_and_use(&c, A, (int32_t[]){0}, 1);
    must(want(&c, A, (int32_t[]){0}, 1, false));
    disk_stand(true);
    guess(&c, B, (int32_t[]){5}, 1);
    wait_for_readers(1);
    must(use(&c, A, 1, false));
    must(want(&c, B, (int32_t[]){2}, 1, false));
    disk_stand(false);
    must(use(&c, B, 1, true));
    check_matrices_read(&c, 3 + 1 + 3);
    want_and_use(&c, B, (int32_t[]){5}, 1);
    assert_int_equal(stats_of(&c).expert_misses, 3);
    close_case(&c);
}

static void a_guess_that_comes_true_is_read_once(void **state) {
    reads_case c;
    (void)state;
    for (int rewound = 0; rewound < 2; rewound++) {
        open_case(&c, 8);
        want_and_use(&c, A, (int32_t[]){0}, 1);
        disk_stand(true);
        guess(&c, B, (int32_t[]){5}, 1);
        wait_for_readers(1);
        if (rewound) must(mnem__weights_rewind(c.weights));
        must(want(&c, B, (int32_t[]){5}, 1, false));
        disk_stand(false);
        must(use(&c, B, 1, true));
        check_matrices_read(&c, 3 + 3);
        assert_int_equal(stats_of(&c).expert_hits, 1);
        close_case(&c);
    }
}

/* Of all places that of B's 7 is worth least, but the guess says that it is needed. */
static void a_guess_doesnt_drive_out_what_it_names(void **state) {
    static const int32_t others[] = {0, 1, 2, 3, 4, 5, 6};
    reads_case c;
    (void)state;
    open_case(&c, 8);
    want_and_use(&c, B, (int32_t[]){7}, 1);
    for (int i = 0; i < 3; i++) want_and_use(&c, A, others, 7);
    guess(&c, B, (int32_t[]){5, 7}, 2);
    check_matrices_read(&c, 3 * 9);
    want_and_use(&c, B, (int32_t[]){5, 7}, 2);
    assert_int_equal(stats_of(&c).expert_guesses, 1);
    assert_int_equal(stats_of(&c).expert_misses, 8);
    close_case(&c);
}

/* Steps that are cancelled while a guess is read, more often than there are places. */
static void a_guess_that_was_forgotten_keeps_no_place(void **state) {
    reads_case c;
    (void)state;
    open_case(&c, 4);
    for (int32_t i = 1; i < 7; i++) {
        want_and_use(&c, A, (int32_t[]){0}, 1);
        disk_stand(true);
        guess(&c, B, &i, 1);
        wait_for_readers(1);
        must(mnem__weights_rewind(c.weights));
        must(want(&c, A, (int32_t[]){0}, 1, false));
        guess(&c, B, (int32_t[]){7}, 1);
        disk_stand(false);
        weights_idle(c.weights); /* while the other guess stands */
        must(use(&c, A, 1, true));
    }
    want_and_use(&c, A, (int32_t[]){1, 2, 3, 4, 5}, 5);
    close_case(&c);
}

/* ---- a disk that fails ---- */

/* Reads fail from `good` on: acquire says so, then and ever after, and nothing hangs. */
static void break_disk(disk_mode mode, int good, bool in_order, const char *text) {
    static const int32_t some[] = {1, 2, 4, 7};
    reads_case c;
    mnem_status status = MNEM_OK;
    open_case(&c, 5);
    disk_set(mode, good);
    for (int i = 0; i < 8 && status == MNEM_OK; i++) {
        const int32_t gates = i % 2 ? B : A;
        must(want(&c, gates, some, 4, in_order));
        guess(&c, gates == A ? B : A, (int32_t[]){3}, 1);
        status = use(&c, gates, 4, false);
    }
    assert_int_equal(status, MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), text));
    disk_set(DISK_GOOD, 0);
    must(mnem__weights_rewind(c.weights));
    must(want(&c, A, some, 4, in_order));
    assert_int_equal(use(&c, A, 1, false), MNEM_IO);
    close_case(&c);
}

static void acquire_says_what_the_disk_said(void **state) {
    (void)state;
    for (int good = 0; good < 30; good++) {
        break_disk(DISK_BROKEN, good, good % 2, "Input/output error");
        break_disk(DISK_CUT, good, good % 2, "another program made the file shorter");
    }
}

static void destroy_at_any_moment(void **state) {
    static const int32_t some[] = {0, 3, 5, 6, 7};
    (void)state;
    for (int stop = 0; stop < 20; stop++) {
        reads_case c;
        open_case(&c, 4 + stop % 3);
        must(want(&c, A, some, 5, stop % 2));
        guess(&c, B, some, 1);
        must(use(&c, A, stop % 5, false));
        if (stop % 3 == 0) must(mnem__weights_rewind(c.weights));
        close_case(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_handed_out_is_what_the_file_holds),
        cmocka_unit_test(a_wrong_guess_ends_at_the_next_matrix),
        cmocka_unit_test(a_guess_that_comes_true_is_read_once),
        cmocka_unit_test(a_guess_doesnt_drive_out_what_it_names),
        cmocka_unit_test(a_guess_that_was_forgotten_keeps_no_place),
        cmocka_unit_test(acquire_says_what_the_disk_said),
        cmocka_unit_test(destroy_at_any_moment),
    };
    return cmocka_run_group_tests(tests, write_model, NULL);
}
