/* What of its owner's quotas a sandbox holds: a place, and its limits of memory, disk, CPU and tasks. It holds them
   whether it runs or not, since it may be started again at any time, and gives them back when it is destroyed. Quotas
   that are lowered below what is held end nothing. */
#include "core/core_internal.h"

/* Those that follow its limits. */
static const enum quota of_limits[] = {QUOTA_MEMORY, QUOTA_DISK, QUOTA_CPU, QUOTA_TASKS};
/* All that its creation takes. */
static const enum quota of_create[] = {QUOTA_SANDBOXES, QUOTA_PROJECTS, QUOTA_MEMORY,
                                       QUOTA_DISK,      QUOTA_CPU,      QUOTA_TASKS};

/* Without a limit it may use the whole machine. */
static uint64_t cpu_of(const struct jail_limits *limits) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return limits->cpu_percent ? limits->cpu_percent : 100 * (uint64_t)(cores > 0 ? cores : 1);
}

static uint64_t amount_of(const struct jail_limits *limits, enum quota quota) {
    switch (quota) {
    case QUOTA_MEMORY: return limits->memory_bytes + limits->socket_memory_bytes; /* cgroup v1 bounds them apart */
    case QUOTA_DISK: return limits->disk_bytes;
    case QUOTA_CPU: return cpu_of(limits);
    case QUOTA_TASKS: return limits->os_tasks; /* the host has a number of them, however little memory they take */
    default: return 1;
    }
}

int charge_create(struct engine *engine, uid_t uid, const struct jail_limits *limits, struct charge *ret,
                  struct error *reterr) {
    struct charge charge = {.uid = uid};
    for (size_t i = 0; i < ARRAY_SIZE(of_create); i++) {
        uint64_t amount = amount_of(limits, of_create[i]);
        int result = quotas_take(engine->config.quotas, uid, of_create[i], amount, reterr);
        if (result < 0) {
            charge_give_all(engine, &charge);
            return result;
        }
        charge.of[of_create[i]] = amount;
    }
    *ret = charge;
    return 0;
}

void charge_restored(struct engine *engine, uid_t uid, const struct jail_limits *limits, struct charge *ret) {
    *ret = (struct charge){.uid = uid};
    ret->of[QUOTA_SANDBOXES] = 1;
    quotas_count(engine->config.quotas, uid, QUOTA_SANDBOXES, 1);
    charge_raise(engine, ret, limits, true, NULL);
}

int charge_raise(struct engine *engine, struct charge *charge, const struct jail_limits *limits, bool anyway,
                 struct error *reterr) {
    struct charge before = *charge;
    for (size_t i = 0; i < ARRAY_SIZE(of_limits); i++) {
        enum quota quota = of_limits[i];
        uint64_t amount = amount_of(limits, quota), *held = &charge->of[quota];
        if (amount <= *held) continue;
        int result = 0;
        if (anyway)
            quotas_count(engine->config.quotas, charge->uid, quota, amount - *held);
        else
            result = quotas_take(engine->config.quotas, charge->uid, quota, amount - *held, reterr);
        if (result < 0) {
            for (size_t j = 0; j < i; j++)
                quotas_give(engine->config.quotas, charge->uid, of_limits[j],
                            charge->of[of_limits[j]] - before.of[of_limits[j]]);
            *charge = before;
            return result;
        }
        *held = amount;
    }
    return 0;
}

int charge_ports(struct engine *engine, struct charge *charge, size_t count, bool anyway, struct error *reterr) {
    struct quotas *quotas = engine->config.quotas;
    uint64_t *held = &charge->of[QUOTA_PORTS];
    int result = 0;
    if (count < *held)
        quotas_give(quotas, charge->uid, QUOTA_PORTS, *held - count);
    else if (count > *held && anyway)
        quotas_count(quotas, charge->uid, QUOTA_PORTS, count - *held);
    else if (count > *held)
        result = quotas_take(quotas, charge->uid, QUOTA_PORTS, count - *held, reterr);
    if (result == 0) *held = count;
    return result;
}

void charge_lower(struct engine *engine, struct charge *charge, const struct jail_limits *limits) {
    for (size_t i = 0; i < ARRAY_SIZE(of_limits); i++) {
        uint64_t amount = amount_of(limits, of_limits[i]), *held = &charge->of[of_limits[i]];
        if (amount >= *held) continue;
        quotas_give(engine->config.quotas, charge->uid, of_limits[i], *held - amount);
        *held = amount;
    }
}

void charge_give(struct engine *engine, struct charge *charge, enum quota quota) {
    quotas_give(engine->config.quotas, charge->uid, quota, charge->of[quota]);
    charge->of[quota] = 0;
}

void charge_give_all(struct engine *engine, struct charge *charge) {
    for (size_t i = 0; i < ARRAY_SIZE(of_create); i++) charge_give(engine, charge, of_create[i]);
    charge_give(engine, charge, QUOTA_PORTS);
}
