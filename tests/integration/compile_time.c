#include "attacks.h"

void attack_compilers(struct scene *scene, const struct attack_table *const *tables, size_t count) {
    (void)scene, (void)tables, (void)count;
}
