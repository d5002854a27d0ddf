/* The operations that the engine carries out, by their names in the operation table: engine_<name> runs each. */
#ifndef CORE_OPERATIONS_H
#define CORE_OPERATIONS_H

#define ENGINE_OPS(X)                                                                                                  \
    X(create)                                                                                                          \
    X(run)                                                                                                             \
    X(mix)                                                                                                             \
    X(list)                                                                                                            \
    X(info)                                                                                                            \
    X(wait)                                                                                                            \
    X(restart)                                                                                                         \
    X(destroy)                                                                                                         \
    X(freeze)                                                                                                          \
    X(thaw)                                                                                                            \
    X(input)                                                                                                           \
    X(eval)                                                                                                            \
    X(reload)                                                                                                          \
    X(rollback)                                                                                                        \
    X(versions)                                                                                                        \
    X(export)                                                                                                          \
    X(watch)                                                                                                           \
    X(compile)                                                                                                         \
    X(validate)                                                                                                        \
    X(deps)                                                                                                            \
    X(scan)                                                                                                            \
    X(stats)                                                                                                           \
    X(top)                                                                                                             \
    X(limits)                                                                                                          \
    X(publish)                                                                                                         \
    X(unpublish)                                                                                                       \
    X(events)                                                                                                          \
    X(logs)                                                                                                            \
    X(audit)                                                                                                           \
    X(profiles)                                                                                                        \
    X(toolchains)                                                                                                      \
    X(file_list)                                                                                                       \
    X(file_read)                                                                                                       \
    X(file_write)                                                                                                      \
    X(file_mkdir)                                                                                                      \
    X(volumes)                                                                                                         \
    X(volume_create)                                                                                                   \
    X(volume_remove)                                                                                                   \
    X(quotas)                                                                                                          \
    X(doctor)                                                                                                          \
    X(health)                                                                                                          \
    X(reload_config)                                                                                                   \
    X(shutdown)

#endif
