/* import_case.h: folders of a model for tests: copies of the stored ones, with a file changed. */
#ifndef MNEM_TESTS_MODEL_IMPORT_IMPORT_CASE_H
#define MNEM_TESTS_MODEL_IMPORT_IMPORT_CASE_H

#include "mnem/model.h"

#define STORED(name) MNEM_TEST_DATA "/folders/" name

/* A fresh copy of a stored folder in the test's own; kit_path's storage. */
const char *copy_folder(const char *stored, const char *name);
/* Writes one of its files; text NULL removes it. */
void put_file(const char *folder, const char *name, const char *text);
/* In a file's text `old`, which is there, becomes `new`. */
void edit_file(const char *folder, const char *name, const char *old, const char *new);
/* Opening fails so, with all of these words in the error (NULL ends them). */
void refuses(const char *folder, mnem_status status, ...);

#endif
