/* api_seats.c: POST /slots/ID?action=save, restore, erase, as in llama.cpp's server.
 *
 * Idea: our conversations have no fixed place: the prefix cache finds their pages by their tokens.
 * A seat stands for a slot of llama.cpp's server: a number, and the tokens of the last conversation
 * that had this number. Saving writes the pages that are cached for these tokens. Restoring puts
 * the pages into the prefix cache, into the tree of the client's key; then any prompt of that key
 * that begins with these tokens uses them, whatever its slot.
 * Cost: the tokens of the seats, in at most a quarter of the memory for requests: beyond that the
 * seats used least recently are dropped. Pages are read and written between two steps of the
 * scheduler, as embeddings are computed. Without a folder for the files there are no seats. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/api/api_private.h"

enum {
    NAME_BYTES = 128,
    PATH_BYTES = 4096,
    LIKE_LEAST = 16,
    CALLS_MOST = 8, /* actions of a model that wait: embeddings need calls of the scheduler, too */
    PARTS_MOST = 1000,
    MEMORY_SHARE = 4
};
static const char type_json[] = "application/json";

/* ---- seats and their conversations ---- */

static int32_t seats_of(const api_served *served) {
    mnem_scheduler_stats stats;
    mnem_scheduler_stats_get(served->scheduler, &stats);
    return stats.running_most < API_SEATS ? stats.running_most : API_SEATS;
}

static api_seat *find_seat(api *a, const api_served *served, int32_t number) {
    for (int32_t i = 0; i < API_SEATS; i++)
        if (a->seat[i].served == served && a->seat[i].number == number) return &a->seat[i];
    return NULL;
}

static int32_t alike(const api_seat *seat, const int32_t *ids, int32_t n) {
    int32_t same = 0;
    while (same < n && same < seat->count && seat->ids[same] == ids[same]) same++;
    return same;
}

/* The number of the seat whose conversation the prompt continues: the one with the longest common
 * beginning, of LIKE_LEAST tokens or more. Otherwise that of an unused seat, then that of the seat
 * used least recently. */
static int32_t choose_seat(api *a, const api_served *served, int32_t key, const int32_t *ids,
                           int32_t n) {
    const int32_t seats = seats_of(served);
    int32_t best = -1, most = LIKE_LEAST - 1, oldest = 0;
    uint64_t used = UINT64_MAX;
    for (int32_t i = 0; i < seats; i++) {
        const api_seat *seat = find_seat(a, served, i);
        const uint64_t when = !seat ? 0 : seat->job ? UINT64_MAX - 1 : seat->used;
        const int32_t same = seat && seat->key == key && !seat->job ? alike(seat, ids, n) : 0;
        if (same > most) most = same, best = i;
        if (when < used) used = when, oldest = i;
    }
    return best >= 0 ? best : oldest;
}

static void leave(api *a, api_seat *seat) {
    api_free(&a->memory, seat->ids);
    if (seat->job) seat->job->seat = NULL;
    *seat = (api_seat){0};
}

/* Drops the seat used least recently of those that no request uses; false: there is none. */
static bool drop_oldest(api *a) {
    api_seat *oldest = NULL;
    for (int32_t i = 0; i < API_SEATS; i++) {
        api_seat *seat = &a->seat[i];
        if (seat->served && !seat->job && (!oldest || seat->used < oldest->used)) oldest = seat;
    }
    if (oldest) leave(a, oldest);
    return oldest != NULL;
}

static uint64_t seats_bytes(const api *a) {
    uint64_t tokens = 0;
    for (int32_t i = 0; i < API_SEATS; i++) tokens += (uint64_t)a->seat[i].room;
    return tokens * sizeof *a->seat->ids;
}

/* An entry that is free, where `bytes` more are within the seats' share of the memory, or are those
 * of the only seat; NULL: requests use too many seats. */
static api_seat *free_seat(api *a, uint64_t bytes) {
    const uint64_t most = a->memory.bytes / MEMORY_SHARE;
    for (uint64_t used = seats_bytes(a); used > 0 && used + bytes > most; used = seats_bytes(a))
        if (!drop_oldest(a)) return NULL;
    do {
        for (int32_t i = 0; i < API_SEATS; i++)
            if (!a->seat[i].served) return &a->seat[i];
    } while (drop_oldest(a));
    return NULL;
}

/* Sets up an entry for a number, with room for a context of tokens and none yet; NULL: there is no
 * free entry, or no memory. */
static api_seat *take_seat(api *a, const api_served *served, int32_t number, int32_t key) {
    const size_t bytes = (size_t)served->model.context * sizeof(int32_t);
    api_seat *seat = find_seat(a, served, number);
    if (seat) leave(a, seat);
    seat = free_seat(a, bytes);
    int32_t *ids = seat ? api_alloc(&a->memory, bytes) : NULL;
    if (!ids) return NULL;
    *seat = (api_seat){.served = served,
                       .number = number,
                       .key = key,
                       .ids = ids,
                       .room = served->model.context,
                       .used = ++a->seat_clock};
    return seat;
}

int32_t api_seat_take(api *a, api_job *job, int32_t asked, uint64_t tree, int32_t key,
                      const int32_t *ids, int32_t n) {
    if (!a->options.slot_folder || job->answers != 1) return asked;
    if (asked < 0 || asked >= seats_of(job->served))
        asked = choose_seat(a, job->served, key, ids, n);
    api_seat *seat = take_seat(a, job->served, asked, key);
    if (!seat || n > seat->room) return asked;
    memcpy(seat->ids, ids, (size_t)n * sizeof *ids);
    seat->count = n;
    seat->tree = tree;
    seat->job = job;
    job->seat = seat;
    return asked;
}

void api_seat_add(const api_job *job, int32_t id) {
    api_seat *seat = job->seat;
    if (seat && seat->count < seat->room) seat->ids[seat->count++] = id;
}

void api_seat_leave(const api_job *job) {
    if (job->seat) job->seat->job = NULL;
}

void api_seats_forget(api *a, const api_served *served) {
    for (int32_t i = 0; i < API_SEATS; i++)
        if (a->seat[i].served && (!served || a->seat[i].served == served)) leave(a, &a->seat[i]);
}

/* ---- an action ---- */

typedef enum seat_action { SAVE, RESTORE, ERASE } seat_action;

struct api_seat_call {
    api_owner owner;
    api *api;
    api_served *served;
    http_exchange *exchange; /* NULL: the client is gone */
    api_seat_call *next;
    seat_action action;
    int fd; /* -1: none */
    int32_t seat, key;
    uint64_t tree;
    int32_t *ids; /* [room] */
    int32_t count, room;
    double begin_ms;
    char name[NAME_BYTES];
    uint32_t part; /* the number of the file that is being written; 0: there is none */
    /* Under the lock: */
    bool done;
    mnem_status status;
    int32_t tokens;
    int file_error; /* errno of a file that could not be completed; 0: none */
    char why[200];
};

static void seat_path(const api_seat_call *c, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s/%s", c->api->options.slot_folder, c->name);
}

/* A number of its own for each save: two of one name at a time do not write into one file. */
static void part_path(const api_seat_call *c, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s/%s.%" PRIu32 ".part", c->api->options.slot_folder, c->name,
             c->part);
}

static void drop_part(api_seat_call *c) {
    char path[PATH_BYTES];
    if (!c->part) return;
    part_path(c, path);
    (void)unlink(path);
    c->part = 0;
}

static void seat_call_free(api_seat_call *c) {
    api *a = c->api;
    api_seat_call **at = &a->seat_calls;
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    drop_part(c);
    if (c->fd >= 0) close(c->fd);
    if (c->served) api_served_leave(a, c->served);
    api_free(&a->memory, c->ids);
    api_free(&a->memory, c);
}

/* On the scheduler's thread, so in the order of the saves: gives a saved file its final name only
 * when it is complete. An errno; 0: done. */
static int finish_file(const api_seat_call *c) {
    char part[PATH_BYTES], path[PATH_BYTES];
    part_path(c, part);
    seat_path(c, path);
    return fsync(c->fd) == 0 && rename(part, path) == 0 ? 0 : errno;
}

/* On the scheduler's thread. */
static void act(void *context, mnem_engine *engine) {
    api_seat_call *c = context;
    api *a = c->api;
    mnem_scheduler *s = c->served->scheduler;
    int32_t tokens = 0;
    mnem_status status;
    (void)engine;
    switch (c->action) {
    case SAVE:
        status = mnem_scheduler_prefix_save(s, c->tree, c->ids, c->count, c->fd, &tokens);
        break;
    case RESTORE:
        status = mnem_scheduler_prefix_load(s, c->tree, c->fd, c->ids, c->room, &tokens);
        break;
    default: status = mnem_scheduler_prefix_drop(s, c->tree, c->ids, c->count, &tokens); break;
    }
    const bool saved = status == MNEM_OK && c->action == SAVE;
    const int file_error = saved ? finish_file(c) : 0;
    pthread_mutex_lock(&a->lock);
    c->done = true;
    c->file_error = file_error;
    if (saved && !file_error) c->part = 0;
    c->status = status;
    c->tokens = tokens;
    snprintf(c->why, sizeof c->why, "%s", status == MNEM_OK ? "" : mnem_last_error());
    const bool wake = api_note(a, &c->owner);
    pthread_mutex_unlock(&a->lock);
    if (wake) http_server_wake(a->server);
}

/* ---- the result of an action ---- */

static uint64_t bytes_of(int fd) {
    struct stat file;
    return fd >= 0 && fstat(fd, &file) == 0 ? (uint64_t)file.st_size : 0;
}

static void put_result(const api_seat_call *c, api_text *text) {
    static const char *const counts[] = {"n_saved", "n_restored", "n_erased"};
    static const char *const sizes[] = {"n_written", "n_read"};
    static const char *const times[] = {"save_ms", "restore_ms"};
    api_format(text, "{\"id_slot\":%d,", c->seat);
    if (c->action != ERASE) {
        api_say(text, "\"filename\":");
        api_quote(text, c->name, strlen(c->name));
        api_format(text, ",\"%s\":%" PRIu64 ",\"timings\":{\"%s\":%.3f},", sizes[c->action],
                   bytes_of(c->fd), times[c->action], tell_now_ms() - c->begin_ms);
    }
    api_format(text, "\"%s\":%d}", counts[c->action], c->tokens);
}

/* Updates the seat: a restored conversation becomes the seat's, an erased one is removed. */
static void seat_result(api_seat_call *c) {
    api *a = c->api;
    if (c->action == SAVE) return;
    api_seat *seat = c->action == RESTORE ? take_seat(a, c->served, c->seat, c->key)
                                          : find_seat(a, c->served, c->seat);
    if (!seat) return;
    if (c->action == ERASE) {
        if (seat->key == c->key) leave(a, seat);
        return;
    }
    seat->tree = c->tree;
    seat->count = c->tokens < seat->room ? c->tokens : seat->room;
    memcpy(seat->ids, c->ids, (size_t)seat->count * sizeof *seat->ids);
}

void api_seat_call_go_on(api_seat_call *c) {
    api *a = c->api;
    api_error error = {0};
    api_text text = {.memory = &a->memory};
    /* Erasing a conversation that isn't in the cache succeeds. */
    const bool gone = c->action == ERASE && c->status == MNEM_NOT_READY;
    if (c->status != MNEM_OK && !gone)
        api_refuse(&error, c->status == MNEM_IO || c->status == MNEM_NO_MEMORY ? 500 : 400, NULL,
                   "%s", c->why);
    if (c->file_error)
        api_refuse(&error, 500, "filename", "'%.100s' can't be written: %s", c->name,
                   strerror(c->file_error));
    if (!error.status) seat_result(c);
    http_exchange *exchange = c->exchange;
    if (exchange) http_set(exchange, NULL);
    if (exchange && !error.status) put_result(c, &text);
    seat_call_free(c);
    if (!exchange) return;
    if (error.status)
        api_answer_error(a, exchange, &error, API_OPENAI);
    else
        api_answer_text(a, exchange, 200, type_json, &text);
}

void api_seats_drop(api *a) {
    while (a->seat_calls) seat_call_free(a->seat_calls);
    api_seats_forget(a, NULL);
}

void api_seat_call_gone(api_seat_call *c) {
    c->exchange = NULL;
}

/* ---- a request ---- */

static bool read_action(api_seat_call *c, const http_request *http, api_error *error) {
    static const char *const names[] = {"save", "restore", "erase"};
    static const char path[] = "/slots/";
    char action[16] = "", *end;
    const char *number = http->path + sizeof path - 1;
    const long seat = strtol(number, &end, 10);
    if (end == number || *end || seat < 0 || seat >= seats_of(c->served))
        return api_refuse(error, 400, "id_slot", "the slot '%.40s' must be a number from 0 to %d",
                          number, seats_of(c->served) - 1);
    c->seat = (int32_t)seat;
    (void)api_query_get(http->query, "action", action, sizeof action);
    for (int i = 0; i < 3; i++) {
        c->action = (seat_action)i;
        if (strcmp(action, names[i]) == 0) return true;
    }
    return api_refuse(error, 400, "action",
                      "the query must have action=save, action=restore or action=erase");
}

/* Reads the name of a file in the folder. Refused: paths, hidden files, and names that end in
 * .part, which incomplete files have. */
static bool read_name(api_seat_call *c, const json_t *root, api_error *error) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._- ";
    const char *name = NULL;
    if (c->action == ERASE) return true;
    if (!api_get_text(root, "filename", &name, error)) return false;
    const size_t n = name ? strlen(name) : 0;
    if (n == 0 || n >= sizeof c->name || *name == '.' || strspn(name, letters) != n ||
        (n > 5 && strcmp(name + n - 5, ".part") == 0))
        return api_refuse(error, 400, "filename",
                          "'filename' must be a name of 1 to %d letters, digits, '.', '_', '-' and "
                          "spaces that does not begin with '.' or end in .part",
                          NAME_BYTES - 1);
    memcpy(c->name, name, n + 1);
    return true;
}

/* Numbers of files that are there already, of another server or of one that was killed, are passed
 * over. */
static int open_part(api_seat_call *c) {
    char path[PATH_BYTES];
    for (c->part = 1; c->part <= PARTS_MOST; c->part++) {
        part_path(c, path);
        const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0) return fd;
        if (errno != EEXIST) break;
    }
    c->part = 0;
    return -1;
}

static bool open_file(api_seat_call *c, api_error *error) {
    char path[PATH_BYTES];
    if (c->action == ERASE) return true;
    seat_path(c, path);
    c->fd = c->action == SAVE ? open_part(c) : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (c->fd >= 0) return true;
    return api_refuse(error, errno == ENOENT && c->action == RESTORE ? 404 : 500, "filename",
                      "'%.100s' can't be opened: %s", c->name, strerror(errno));
}

/* Copies the tokens of the seat, or makes room for the tokens to restore. */
static bool take_ids(api_seat_call *c, const http_request *http, api_error *error) {
    api *a = c->api;
    const api_seat *seat = find_seat(a, c->served, c->seat);
    const bool own = seat && seat->key == http->key;
    if (c->action == SAVE && !own)
        return api_refuse(error, 400, "id_slot",
                          "no conversation has run in the slot %d: send a request with 'id_slot'",
                          c->seat);
    c->key = http->key;
    c->tree = c->action == RESTORE ? api_tree_of(a, http->key, "") : own ? seat->tree : 0;
    c->room = c->served->model.context;
    c->count = own && c->action != RESTORE ? seat->count : 0;
    c->ids = api_alloc(&a->memory, (size_t)c->room * sizeof *c->ids);
    if (!c->ids) return api_refuse_busy(error);
    if (c->count) memcpy(c->ids, seat->ids, (size_t)c->count * sizeof *c->ids);
    return true;
}

static bool refuse_waiting(api_error *error) {
    error->retry_seconds = 1;
    return api_refuse(error, 503, NULL, "other actions of slots wait: try again later");
}

static bool check_waiting(const api_seat_call *c, api_error *error) {
    int32_t waiting = 0;
    for (const api_seat_call *of = c->api->seat_calls; of; of = of->next)
        waiting += of != c && of->served && of->served->scheduler == c->served->scheduler;
    return waiting < CALLS_MOST || refuse_waiting(error);
}

static bool send(api_seat_call *c, api_error *error) {
    const mnem_status status = mnem_scheduler_call(c->served->scheduler, 0, act, c);
    if (status == MNEM_OK) return true;
    if (status == MNEM_BUSY) return refuse_waiting(error);
    error->retry_seconds = 5;
    return api_refuse(error, 503, NULL, "the server is shutting down and accepts no new requests");
}

static bool begin_call(api_seat_call *c, const json_t *root, const http_request *http,
                       api_error *error) {
    return read_action(c, http, error) && read_name(c, root, error) && check_waiting(c, error) &&
           take_ids(c, http, error) && open_file(c, error) && send(c, error);
}

static bool has_folder(const api *a, api_error *error) {
    if (a->options.slot_folder) return true;
    error->code = "unsupported";
    return api_refuse(error, 400, NULL,
                      "slots are not saved by this server: start it with --slot-save-path FOLDER");
}

void api_on_slot_action(void *context, http_exchange *exchange, const http_request *http) {
    api *a = context;
    api_error error = {0};
    api_json json = {0};
    api_slot *slot = NULL;
    const api_call call = {exchange, http, false};
    const bool empty = http->body_bytes == 0; /* allowed for an erase */
    api_seat_call *c = NULL;
    if (has_folder(a, &error) && api_check_ready(a, &error) &&
        api_json_open(&json, empty ? "{}" : http->body, empty ? 2 : http->body_bytes,
                      a->options.json_bytes, &error) &&
        api_pick(a, json.root, &call, &slot, &error)) {
        c = api_alloc(&a->memory, sizeof *c);
        if (!c) api_refuse_busy(&error);
    }
    if (c) {
        *c = (api_seat_call){.owner.kind = API_SEAT,
                             .api = a,
                             .served = slot->served,
                             .exchange = exchange,
                             .next = a->seat_calls,
                             .fd = -1,
                             .begin_ms = tell_now_ms()};
        a->seat_calls = c;
        api_served_join(a, c->served);
        if (begin_call(c, json.root, http, &error))
            http_set(exchange, c);
        else
            seat_call_free(c);
    }
    if (error.status) api_answer_error(a, exchange, &error, API_OPENAI);
    api_json_close(&json);
}
