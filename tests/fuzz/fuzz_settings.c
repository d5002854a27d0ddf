/* Any text as sandbox.conf: it is read, or refused with a reason; what it says of profiles is read as the engine does,
   and every profile that comes of it can be found. */
#include <stdlib.h>
#include <string.h>

#include "daemon/settings.h"
#include "fuzz/harness/fuzz.h"
#include "guard/profiles.h"

static void check(bool holds) {
    if (!holds) abort();
}

static bool is_terminated(const char *text, size_t size) {
    return memchr(text, '\0', size) != NULL;
}

static void check_settings(const struct settings *settings) {
    check(is_terminated(settings->home, sizeof settings->home) && is_terminated(settings->otp, sizeof settings->otp));
    check(is_terminated(settings->webhook, sizeof settings->webhook) &&
          is_terminated(settings->webhook_secret, sizeof settings->webhook_secret) &&
          is_terminated(settings->webhook_events, sizeof settings->webhook_events));
    check(is_terminated(settings->profiles, sizeof settings->profiles));
}

static void read_profiles(const char *text) {
    struct guard_profiles profiles = {0};
    struct error error = {0};
    if (guard_profiles_read(text, &profiles, &error) < 0) {
        check(error.code == E_INVALID && error.detail[0] && !profiles.items);
        return;
    }
    check(profiles.count > 0 && profiles.count <= GUARD_PROFILES_MAX);
    for (size_t i = 0; i < profiles.count; i++)
        check(guard_profile_find(&profiles, profiles.items[i].jail.name) == &profiles.items[i]);
    guard_profiles_free(&profiles);
}

static void read_settings(const uint8_t *data, size_t size) {
    static struct settings settings; /* too large for the stack of a sanitizer's build */
    struct error error = {0};
    memset(&settings, 0, sizeof settings);
    engine_config_defaults(&settings.engine);
    FILE *file = fmemopen((void *)data, size, "r");
    check(file != NULL);
    int result = settings_read_stream(file, "/etc/sandbox.conf", &settings, &error);
    fclose(file);
    check(result == 0 || (error.code != E_NONE && error.detail[0]));
    check_settings(&settings);
    if (result == 0) read_profiles(settings.profiles);
}

void fuzz_one(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size);
    check(text != NULL);
    if (size > 0) read_settings(data, size);
    read_profiles(text);
    free(text);
}
