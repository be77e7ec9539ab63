/* kit_file.c: see kit_file.h. */
#include "kit/kit_file.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"

enum { PATHS_MOST = 1024 };

static const char *above = "/tmp";
static char folder[96];
static pid_t owner; /* a child that exits leaves the folder to its parent */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)info, (void)kind, (void)at;
    return remove(path);
}

static bool is_gone(const char *path) {
    return nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT;
}

static void remove_all(void) {
    if (getpid() == owner && !is_gone(folder)) fprintf(stderr, "%s is left\n", folder);
}

static bool make_folder(const char *parent) {
    snprintf(folder, sizeof folder, "%s/mnem-test-XXXXXX", parent);
    return mkdtemp(folder) != NULL;
}

const char *kit_folder(void) {
    if (owner) {
        if (mkdir(folder, 0700) != 0) assert_int_equal(errno, EEXIST);
        return folder;
    }
    assert_true(make_folder(above) || make_folder("/tmp"));
    owner = getpid();
    atexit(remove_all);
    return folder;
}

void kit_folder_in(const char *parent) {
    above = parent;
}

int kit_folder_count(void) {
    int n = -2; /* . and .. */
    DIR *dir = opendir(kit_folder());
    assert_non_null(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

int kit_folder_remove(void) {
    return owner ? rmdir(folder) : 0;
}

void kit_remove(const char *path) {
    if (!is_gone(path)) fail_msg("%s: can't remove it", path);
}

const char *kit_path(const char *name) {
    static char *paths[PATHS_MOST];
    const size_t skip = strlen(kit_folder()) + 1;
    int i = 0;
    while (i < PATHS_MOST && paths[i] && strcmp(paths[i] + skip, name) != 0) i++;
    assert_in_range(i, 0, PATHS_MOST - 1);
    if (!paths[i]) {
        const size_t room = skip + strlen(name) + 1;
        paths[i] = malloc(room);
        assert_non_null(paths[i]);
        snprintf(paths[i], room, "%s/%s", folder, name);
    }
    return paths[i];
}

void write_file(const char *path, const void *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

char *read_file(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("no %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const size_t size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, size, file), size);
    bytes[size] = 0;
    fclose(file);
    if (n) *n = size;
    return bytes;
}

void assert_same_files(const char *a, const char *b) {
    size_t n, m;
    char *x = read_file(a, &n), *y = read_file(b, &m);
    assert_true(n > 0);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}
