/* LRU, as a policy of one's own: a list through the lines, most recently used first.
 *
 *     cc -O2 -shared -fPIC -I crates/plugins/include -o lru.so crates/plugins/examples/lru.c
 *
 * State: 12 B a distinct line. The lines of a batch are known in advance, so the memory of those to
 * come is asked for while earlier ones are served. */

#include "thermocline_policy.h"
#include <stdio.h>
#include <stdlib.h>

#define NONE 0xffffffffu /* no line: the end of the list */
#define FAR 24           /* accesses ahead at which a line's node is asked for */
#define NEAR 12          /* accesses ahead at which its neighbours' nodes are */

struct node {
    uint32_t newer, older;
    uint32_t resident;
};

struct lru {
    struct node *nodes;
    uint32_t universe, capacity, count, newest, oldest;
};

static void *create(const thermocline_geometry *geometry, const char *settings, char *error,
                    size_t error_bytes)
{
    if (settings[0] != '\0') {
        snprintf(error, error_bytes, "it has no settings, and was given `%s`", settings);
        return NULL;
    }
    struct lru *lru = calloc(1, sizeof *lru);
    if (lru == NULL)
        return NULL;
    lru->capacity = geometry->lines;
    lru->newest = lru->oldest = NONE;
    return lru;
}

static void destroy(void *cache)
{
    struct lru *lru = cache;
    free(lru->nodes);
    free(lru);
}

static int reserve(void *cache, uint32_t universe)
{
    struct lru *lru = cache;
    if (universe <= lru->universe)
        return 0;
    /* Twice as many, so that a growing trace is not copied at each step. */
    uint64_t room = universe < NONE / 2 ? (uint64_t)universe * 2 : universe;
    struct node *nodes = realloc(lru->nodes, room * sizeof *nodes);
    if (nodes == NULL)
        return 1;
    for (uint64_t line = lru->universe; line < room; line++)
        nodes[line].resident = 0;
    lru->nodes = nodes;
    lru->universe = (uint32_t)room;
    return 0;
}

static inline void take_out(struct lru *lru, uint32_t line)
{
    struct node *nodes = lru->nodes, *node = &nodes[line];
    if (node->newer == NONE)
        lru->newest = node->older;
    else
        nodes[node->newer].older = node->older;
    if (node->older == NONE)
        lru->oldest = node->newer;
    else
        nodes[node->older].newer = node->newer;
}

static inline void put_first(struct lru *lru, uint32_t line)
{
    struct node *nodes = lru->nodes;
    nodes[line].newer = NONE;
    nodes[line].older = lru->newest;
    if (lru->newest == NONE)
        lru->oldest = line;
    else
        nodes[lru->newest].newer = line;
    lru->newest = line;
}

static inline uint32_t access_one(struct lru *lru, uint32_t line)
{
    struct node *node = &lru->nodes[line];
    if (node->resident) {
        if (lru->newest != line) {
            take_out(lru, line);
            put_first(lru, line);
        }
        return THERMOCLINE_HIT;
    }
    uint32_t outcome = THERMOCLINE_ADMITTED;
    if (lru->count == lru->capacity) {
        outcome = lru->oldest;
        take_out(lru, outcome);
        lru->nodes[outcome].resident = 0;
    } else {
        lru->count++;
    }
    node->resident = 1;
    put_first(lru, line);
    return outcome;
}

static int access_batch(void *cache, const uint32_t *lines, const uint16_t *tags,
                        uint32_t *outcomes, size_t count)
{
    struct lru *lru = cache;
    (void)tags;
    for (size_t i = 0; i < count; i++) {
        if (i + FAR < count)
            __builtin_prefetch(&lru->nodes[lines[i + FAR]], 1);
        if (i + NEAR < count) {
            const struct node *coming = &lru->nodes[lines[i + NEAR]];
            if (coming->resident) {
                if (coming->newer != NONE)
                    __builtin_prefetch(&lru->nodes[coming->newer], 1);
                if (coming->older != NONE)
                    __builtin_prefetch(&lru->nodes[coming->older], 1);
            }
        }
        outcomes[i] = access_one(lru, lines[i]);
    }
    return 0;
}

static int invalidate(void *cache, uint32_t line)
{
    struct lru *lru = cache;
    take_out(lru, line);
    lru->nodes[line].resident = 0;
    lru->count--;
    return 0;
}

static void footprint(const void *cache, uint64_t *resident_bytes, uint64_t *index_bytes)
{
    const struct lru *lru = cache;
    *resident_bytes = 0;
    *index_bytes = (uint64_t)lru->universe * sizeof(struct node);
}

static const thermocline_policy lru = {
    .version = THERMOCLINE_POLICY_VERSION,
    .struct_bytes = sizeof(thermocline_policy),
    .name = "lru",
    .summary = "evicts the line unused for longest",
    .create = create,
    .destroy = destroy,
    .reserve = reserve,
    .access = access_batch,
    .invalidate = invalidate,
    .footprint = footprint,
};

static const thermocline_policy *const policies[] = {&lru, NULL};

const thermocline_policy *const *thermocline_policies(void)
{
    return policies;
}
