/* kit_file.h: files of a test: a folder of its own, and files from and to memory. */
#ifndef MNEM_TESTS_KIT_KIT_FILE_H
#define MNEM_TESTS_KIT_KIT_FILE_H

#include <stddef.h>

/* A folder of this program's own, in /tmp, made when it is first asked for. It is removed with all
 * that is in it when the program ends. */
const char *kit_folder(void);
/* FOLDER/name. The same name gives the same pointer, until the program ends. */
const char *kit_path(const char *name);
/* Puts the folder there instead, where that can be; before it is first asked for. */
void kit_folder_in(const char *parent);
/* How many files are in it. */
int kit_folder_count(void);
/* Removes the folder, which must be empty: -1 when something was left in it. It is made again when
 * a path is asked for. A teardown can return this. */
int kit_folder_remove(void);
/* Removes a file, or a folder with all that is in it; that there is none is right too. */
void kit_remove(const char *path);

void write_file(const char *path, const void *bytes, size_t n);
/* To free; a zero stands behind the n bytes. n may be NULL. */
char *read_file(const char *path, size_t *n);
/* Fails unless both files hold the same bytes, and some. */
void assert_same_files(const char *a, const char *b);

#endif
