/* kit_model.h: models made when a test asks for one: of random weights by make_model, or of what
 * the fixture has learnt. */
#ifndef MNEM_TESTS_KIT_KIT_MODEL_H
#define MNEM_TESTS_KIT_KIT_MODEL_H

/* Writes a model to path by the program make_model, of --embd 64 --layers 2 --ff 96 --vocab 384
 * --context 128; what the arguments name again takes the place of that. */
void make_model(const char *path, const char *arguments);

/* Writes to path what is left of the fixture model (F16) by pruning: this many of its 6 layers,
 * half of its heads, a third of its channels. Its weights and its inputs are those of a model that
 * has learnt, and its rows are whole blocks of every type, at a tenth of the fixture's cost. */
void make_taught_model(const char *path, int layers);

#endif
