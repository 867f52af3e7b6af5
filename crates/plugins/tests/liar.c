/* Policies that fail, for tests: `liar` answers a hit to everything, `late` keeps nothing for 5,000
 * accesses and answers a hit then, `unmade` cannot be made. */

#include "thermocline_policy.h"
#include <stdio.h>
#include <stdlib.h>

#define LATE 5000u

static void *create(const thermocline_geometry *geometry, const char *settings, char *error,
                    size_t error_bytes) {
    (void)geometry, (void)settings, (void)error, (void)error_bytes;
    return calloc(1, sizeof(size_t));
}

static void *refuse(const thermocline_geometry *geometry, const char *settings, char *error,
                    size_t error_bytes) {
    (void)geometry, (void)settings;
    snprintf(error, error_bytes, "it never can");
    return NULL;
}

static int nothing(void *cache, uint32_t number) {
    (void)cache, (void)number;
    return 0;
}

static int hits(void *cache, const uint32_t *lines, const uint16_t *tags, uint32_t *outcomes,
                size_t count) {
    (void)cache, (void)lines, (void)tags;
    for (size_t i = 0; i < count; i++)
        outcomes[i] = THERMOCLINE_HIT;
    return 0;
}

static int late(void *cache, const uint32_t *lines, const uint16_t *tags, uint32_t *outcomes,
                size_t count) {
    size_t *seen = cache;
    (void)lines, (void)tags;
    for (size_t i = 0; i < count; i++)
        outcomes[i] = ++*seen > LATE ? THERMOCLINE_HIT : THERMOCLINE_BYPASSED;
    return 0;
}

#define POLICY(its_name, its_create, its_access)                                                   \
    {.version = THERMOCLINE_POLICY_VERSION, .struct_bytes = sizeof(thermocline_policy),            \
     .name = its_name, .summary = "fails", .create = its_create, .destroy = free,                  \
     .reserve = nothing, .access = its_access, .invalidate = nothing}

static const thermocline_policy policies[] = {
    POLICY("liar", create, hits),
    POLICY("late", create, late),
    POLICY("unmade", refuse, hits),
};

static const thermocline_policy *const all[] = {&policies[0], &policies[1], &policies[2], NULL};

const thermocline_policy *const *thermocline_policies(void) { return all; }
