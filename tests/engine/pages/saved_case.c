#include "engine/pages/saved_case.h"

#include <string.h>
#include <sys/mman.h>

int32_t text[LENGTH];

int fill_text(void **state) {
    (void)state;
    for (int32_t i = 0; i < LENGTH; i++) text[i] = (7 * i * i + 13 * i + 5) % VOCAB;
    return 0;
}

void open_case(engine_case *c, const char *path, mnem_kv_choice kv, int32_t chunk) {
    const mnem_engine_options o = {
        .context = CONTEXT, .threads = 1, .chunk = chunk, .kv = kv, .sequences = 3};
    engine_case_open(c, path, 0, &o);
}

int new_file(void) {
    const int fd = memfd_create("saved", MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

bool keep_logits(void *context, int32_t part, int32_t index, const float *logits) {
    (void)part, (void)index;
    memcpy(context, logits, VOCAB * sizeof *logits);
    return true;
}

void go_on(engine_case *c, mnem_sequence *s, int32_t end, float logits[VOCAB]) {
    const int32_t at = mnem_sequence_length(s);
    const mnem_step_part part = {s, text + at, end - at, end - at - 1};
    must(mnem_engine_step(c->engine, &part, 1, keep_logits, logits));
}

void save(engine_case *c, int32_t n, int32_t from, int fd, uint64_t offset) {
    float logits[VOCAB];
    mnem_sequence *s;
    must(mnem_sequence_create(c->engine, &s));
    go_on(c, s, n, logits);
    must(mnem_sequence_save(s, text, from, fd, offset));
    mnem_sequence_destroy(s);
}

int32_t free_pages(const engine_case *c) {
    mnem_engine_pages pages;
    mnem_engine_pages_get(c->engine, &pages);
    return pages.free.full + pages.free.window;
}
