/* example_pool.c: what a runtime does with a pool: blocks in the order of a stream, a budget for
 * each kind, one refusal that explains itself.
 *
 *     example_pool 64M
 */
#include <stdio.h>

#include "mnem/mnem.h"

static mnem_pool_block caches[4];
static int cache_count;

/* Near a limit: give back what can be had again. */
static void reclaim(void *context, const mnem_pool_soft *soft) {
    mnem_pool *pool = *(mnem_pool **)context;
    printf("%s: %llu bytes over the soft limit\n", soft->tag ? soft->tag : "pool",
           (unsigned long long)soft->bytes_over);
    if (cache_count) mnem_pool_free(pool, &caches[--cache_count], NULL);
}

/* A step: two activations on the stream; the second may take the first one's place at once. */
static mnem_status step(mnem_pool *pool, mnem_device *device, mnem_stream *stream, uint64_t bytes) {
    mnem_status status = MNEM_OK;
    for (int layer = 0; layer < 2 && status == MNEM_OK; layer++) {
        mnem_pool_block hidden;
        status = mnem_pool_alloc(
            pool,
            &(mnem_pool_request){
                .bytes = bytes, .kind = MNEM_KIND_ACTIVATION, .tag = "hidden", .stream = stream},
            &hidden);
        if (status != MNEM_OK) break;
        status = mnem_stream_fill(device, stream, &hidden.memory, 0, bytes, (uint8_t)layer);
        mnem_pool_free(pool, &hidden, stream); // after the work that is queued by now
    }
    return status == MNEM_OK ? mnem_pool_step(pool, stream) : status;
}

static mnem_status run(mnem_pool *pool, mnem_device *device, mnem_stream *stream, uint64_t budget) {
    const mnem_pool_request request = {.bytes = budget / 8, .kind = MNEM_KIND_KV, .tag = "pages"};
    mnem_pool_block block;
    mnem_status status = mnem_pool_limit_set(pool, MNEM_KIND_KV, "pages", budget / 2);
    for (int i = 0; i < 4 && status == MNEM_OK; i++) { // the fourth passes the soft limit
        status = mnem_pool_alloc(pool, &request, &block);
        if (status == MNEM_OK) caches[cache_count++] = block;
    }
    for (int i = 0; i < 10 && status == MNEM_OK; i++)
        status = step(pool, device, stream, budget / 4);
    const mnem_pool_request too_large = {.bytes = budget, .tag = "too large"};
    if (status == MNEM_OK && mnem_pool_alloc(pool, &too_large, &block) != MNEM_OK)
        printf("refused: %s\n", mnem_last_error()); // an answer, not a failure
    while (cache_count) mnem_pool_free(pool, &caches[--cache_count], NULL);
    return status;
}

int main(int argc, char **argv) {
    uint64_t budget;
    if (argc < 2 || mnem_size_parse(argv[1], &budget) != MNEM_OK)
        return fprintf(stderr, "example_pool BUDGET\n"), 2;
    mnem_device *device = NULL;
    mnem_stream *stream = NULL;
    mnem_pool *pool = NULL;
    mnem_status status = mnem_device_open("host", NULL, &device);
    if (status == MNEM_OK) status = mnem_stream_create(device, &stream);
    if (status == MNEM_OK)
        status = mnem_pool_create(
            &(mnem_pool_options){
                .device = device, .bytes_max = budget, .on_soft = reclaim, .context = &pool},
            &pool);
    if (status == MNEM_OK) status = run(pool, device, stream, budget);
    if (status == MNEM_OK) status = mnem_pool_destroy(pool); // lists what is still live
    if (status != MNEM_OK) fprintf(stderr, "example_pool: %s\n", mnem_last_error());
    mnem_stream_destroy(stream);
    mnem_device_close(device);
    return status == MNEM_OK ? 0 : 1;
}
