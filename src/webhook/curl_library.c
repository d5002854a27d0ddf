/* Loads libcurl at run time and looks up the functions that are used. */
#include <dlfcn.h>

#include "webhook/webhook_internal.h"

static int find(void *library, const char *name, void **ret, struct error *reterr) {
    *ret = dlsym(library, name);
    return *ret ? 0 : error_set(reterr, E_SYSTEM, "libcurl has no %s; it is too old", name);
}

int curl_library_load(struct curl_library *ret, struct error *reterr) {
    struct curl_library found;
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return error_set(reterr, E_SYSTEM, "a webhook needs libcurl: %s", dlerror());
    int result = 0;
#define X(name)                                                                                                        \
    if (result == 0) result = find(library, #name, (void **)&found.name, reterr);
    CURL_FUNCTION_LIST(X)
#undef X
    if (result == 0 && found.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        result = error_set(reterr, E_SYSTEM, "libcurl can't be used");
    if (result == 0) *ret = found;
    return result;
}
