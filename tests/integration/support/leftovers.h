/* What a service has on its machine while it runs, so that a test can prove that nothing of it is left. */
#ifndef INTEGRATION_LEFTOVERS_H
#define INTEGRATION_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct footprint;

/* Everything that belongs to the service of this home now. */
struct footprint *footprint_take(const char *home);
/* Of that, the nodes alone, which takes no longer than to read a folder. */
struct footprint *footprint_take_nodes(const char *home);
void footprint_free(struct footprint *footprint);
size_t footprint_node_count(const struct footprint *footprint); /* by their cgroups */
bool footprint_runs(const struct footprint *footprint);         /* any process of it */
/* Whether one of its nodes holds this process. */
bool footprint_node_holds(const struct footprint *footprint, size_t index, pid_t pid);
bool footprint_has_node(const struct footprint *footprint, const char *name);
const char *footprint_node(const struct footprint *footprint, size_t index);
/* The launcher's records in its slot that are of no node there is, standing permissions among them. */
size_t footprint_stray_record_count(const struct footprint *footprint);
/* Entries of a folder, without "." and ".."; 0 when there is none. */
size_t count_entries(const char *path);
/* What is still there of it, one line each, NULL when nothing is. To be freed. */
char *footprint_left(const struct footprint *footprint);
/* End its processes by force, when it did not end by itself. */
void footprint_kill(const struct footprint *footprint);

void remove_tree(const char *path);

#endif
