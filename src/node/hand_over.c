/* Hands a pool node over to a sandbox. */
#include "node/pool.h"

static void on_equipped(void *data, const struct error *error) {
    struct node *node = data;
    node->is_being_equipped = false;
    if (error)
        node_kill(node, error->detail);
    else
        node_tell_ready(node);
    node_handle_closed(node);
}

static int name_places(const struct node_spec *spec, char (*places)[PATH_MAX], struct jail_bind *ret_binds,
                       struct error *reterr) {
    if (spec->app_count > NODE_APPS_MAX)
        return error_set(reterr, E_TOO_LARGE, "a node has at most %d applications", NODE_APPS_MAX);
    for (size_t i = 0; i < spec->app_count; i++) {
        if (string_format(places[i], sizeof places[i], reterr, NODE_APP_PLACE, spec->apps[i].name) < 0) return -1;
        ret_binds[i] = (struct jail_bind){
            .source = spec->apps[i].path, .target = places[i], .executable = spec->profile->native_code};
    }
    return 0;
}

void node_hand_over(struct node *node, const struct node_spec *spec, const struct node_handler *handler, void *data) {
    struct jail_bind binds[NODE_APPS_MAX];
    char places[NODE_APPS_MAX][PATH_MAX];
    struct error error;
    node->handler = *handler;
    node->data = data;
    node->is_being_equipped = true;
    node->open_handles++;
    if (name_places(spec, places, binds, &error) == 0) {
        struct jail_egress egress = jail_egress_bounded(&spec->profile->egress, &spec->limits);
        jail_egress_resolve(&egress, spec->resolved, spec->resolved_count);
        struct link_equipment equipment = {
            .limits = &spec->limits,
            .binds = binds,
            .bind_count = spec->app_count,
            .egress = node_has_egress(node->host, spec->profile) ? &egress : NULL,
        };
        link_equip(node->host->link, node->name, &equipment, on_equipped, node);
        return;
    }
    node_kill(node, error.detail);
    node_handle_closed(node);
}
