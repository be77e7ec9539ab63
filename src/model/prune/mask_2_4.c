/* mask_2_4.c: see mask_2_4.h. A row that is 2:4 already stays as it is: what is zero goes first,
 * even where nothing was seen of the inputs. */
#include "model/prune/mask_2_4.h"

#include <math.h>

/* Of weights that give as much, such as nothing where no input was seen. */
static bool comes_before(const float *x, int a, int b) {
    const float size = fabsf(x[a]), other = fabsf(x[b]);
    return size != other ? size > other : a < b;
}

bool mnem__mask_2_4(int64_t k, float *row, const float *squares) {
    bool changed = false;
    for (float *x = row; x < row + k; x += 4) {
        double gives[4];
        bool goes[4];
        for (int a = 0; a < 4; a++)
            gives[a] = (double)x[a] * (double)x[a] * (squares ? (double)squares[x - row + a] : 1);
        for (int a = 0; a < 4; a++) {
            int more = 0;
            for (int b = 0; b < 4; b++)
                more += gives[b] > gives[a] || (gives[b] == gives[a] && comes_before(x, b, a));
            goes[a] = more >= 2;
        }
        for (int a = 0; a < 4; a++) {
            changed |= goes[a] && x[a] != 0;
            if (goes[a]) x[a] = 0;
        }
    }
    return changed;
}
