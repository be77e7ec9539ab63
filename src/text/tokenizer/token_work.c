/* token_work.c: see token_work.h. Cost: linear; what is over SCRATCH_KEPT bytes is given back. */
#include "text/tokenizer/token_work.h"

#include "base/heap.h"

enum { SCRATCH_KEPT = 64 * 1024, IDS_FIRST = 256 };

void mnem__token_work_ids_trim(mnem__token_work *w) {
    w->count = 0;
    if (w->room * sizeof *w->ids <= SCRATCH_KEPT) return;
    mnem__free(w->ids);
    w->ids = NULL;
    w->room = 0;
}

void mnem__token_work_trim(mnem__token_work *w) {
    if (w->merger.room * UINT64_C(16) > SCRATCH_KEPT) mnem__merger_fini(&w->merger);
    if (w->text_room <= SCRATCH_KEPT) return;
    mnem__free(w->text);
    w->text = NULL;
    w->text_room = 0;
}

mnem_status mnem__token_work_text(mnem__token_work *w, size_t n) {
    if (n <= w->text_room) return MNEM_OK;
    mnem__free(w->text);
    w->text = mnem__alloc(MNEM__TOKENIZER_TAG, n);
    w->text_room = w->text ? n : 0;
    return w->text ? MNEM_OK : mnem__heap_status();
}

mnem_status mnem__token_work_add(mnem__token_work *w, int32_t id) {
    if (w->count == w->room) {
        const size_t room = w->room ? w->room + w->room / 2 : IDS_FIRST;
        int32_t *ids = mnem__realloc(MNEM__TOKENIZER_TAG, w->ids, room * sizeof *ids);
        if (!ids) return mnem__heap_status();
        w->ids = ids;
        w->room = room;
    }
    w->ids[w->count++] = id;
    return MNEM_OK;
}

mnem_status mnem__token_work_add_bytes(mnem__token_work *w, const char *bytes, uint32_t n) {
    mnem_status status = MNEM_OK;
    for (uint32_t i = 0; i < n && status == MNEM_OK; i++) {
        int32_t id = w->vocab->byte_id[(unsigned char)bytes[i]];
        if (id < 0) id = w->unknown;
        if (id >= 0) status = mnem__token_work_add(w, id);
    }
    return status;
}

mnem_status mnem__token_work_add_merged(mnem__token_work *w) {
    const mnem__merger *m = &w->merger;
    mnem_status status = MNEM_OK;
    for (uint32_t i = 0; i < m->n && status == MNEM_OK; i += m->span[i])
        status = m->id[i] >= 0 ? mnem__token_work_add(w, m->id[i])
                               : mnem__token_work_add_bytes(w, m->text + i, m->span[i]);
    return status;
}

void mnem__token_work_fini(mnem__token_work *w) {
    mnem__merger_fini(&w->merger);
    mnem__free(w->text);
    mnem__free(w->ids);
}
