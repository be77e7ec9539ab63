/* kit_model.h: models of random weights, made by make_model when a test asks for one. */
#ifndef MNEM_TESTS_KIT_KIT_MODEL_H
#define MNEM_TESTS_KIT_KIT_MODEL_H

/* Writes a model to path by the program make_model, of --embd 64 --layers 2 --ff 96 --vocab 384
 * --context 128; what the arguments name again takes the place of that. */
void make_model(const char *path, const char *arguments);

#endif
