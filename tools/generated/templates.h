/* The source texts of the generated project, with places for the names of modules and groups. */
#ifndef GENERATED_TEMPLATES_H
#define GENERATED_TEMPLATES_H

#include "generated.h"

struct template {
    const char *path, *text;
};

extern const struct template project_templates[]; /* once; ended by NULLs */
extern const struct template data_templates[];    /* in each group, no modules */
extern const struct template module_templates[];  /* GENERATED_GROUP_MODULES of them */

#endif
