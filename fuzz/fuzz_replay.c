/* fuzz_replay.c: runs a fuzz target over files and folders of files, in any build.
 *
 *     replay_fuzz_gguf fuzz/corpus/gguf */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void die(const char *path) {
    perror(path);
    exit(1);
}

static void replay_file(const char *path, size_t n) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(n ? n : 1); /* exactly n bytes, so that reading past them is seen */
    if (!file || !data || fread(data, 1, n, file) != n) die(path);
    fclose(file);
    LLVMFuzzerTestOneInput(data, n);
    free(data);
}

/* Returns the number of files. */
static int replay(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0) die(path);
    if (S_ISREG(st.st_mode)) {
        replay_file(path, (size_t)st.st_size);
        return 1;
    }
    DIR *dir = opendir(path);
    if (!dir) die(path);
    int files = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        char name[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        files += replay(name);
    }
    closedir(dir);
    return files;
}

int main(int argc, char **argv) {
    int files = 0;
    for (int i = 1; i < argc; i++) files += replay(argv[i]);
    printf("%d files\n", files);
    return files == 0; /* an empty corpus tests nothing */
}
