/* The placement `baseline`, as one of one's own: the most accessed chunks of an epoch go to the
 * fastest pool, the least recently used ones there make room.
 *
 *     cc -O2 -shared -fPIC -I crates/plugins/include -o baseline.so crates/plugins/examples/baseline.c
 *     thermocline lab volume web.csv.gz --policy baseline:k=200,./baseline.so:baseline:k=200
 *
 * State: none between epochs; 24 B a chunk in use while moves are planned. */

#include "thermocline_placement.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct baseline {
    unsigned long k;
};

/* A chunk, and what it is sorted by: the smaller goes first. */
struct ranked {
    uint64_t key;
    uint32_t away; /* of equally accessed chunks those on the fastest pool go first */
    uint32_t volume, index, chunk;
};

static void *create(const char *settings, char *error, size_t error_bytes)
{
    unsigned long k = 1000;
    int end = 0;
    /* `%lu` would take a sign and spaces. */
    int digit = strncmp(settings, "k=", 2) == 0 && settings[2] >= '0' && settings[2] <= '9';
    if (settings[0] != '\0' &&
        (!digit || sscanf(settings, "k=%lu%n", &k, &end) != 1 || settings[end] != '\0' || k == 0)) {
        snprintf(error, error_bytes, "its only setting is k=CHUNKS, and it was given `%s`", settings);
        return NULL;
    }
    struct baseline *baseline = malloc(sizeof *baseline);
    if (baseline != NULL)
        baseline->k = k;
    return baseline;
}

static int compare(const void *one, const void *other)
{
    const struct ranked *a = one, *b = other;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->away != b->away)
        return a->away < b->away ? -1 : 1;
    if (a->volume != b->volume)
        return a->volume < b->volume ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static struct ranked rank(const thermocline_epoch *epoch, size_t chunk, uint64_t key, uint32_t away)
{
    const thermocline_chunk *facts = &epoch->chunks[chunk];
    return (struct ranked){key, away, facts->volume, facts->index, (uint32_t)chunk};
}

/* The chunks accessed in the epoch, most accessed first; how many. */
static size_t by_accesses(const thermocline_epoch *epoch, struct ranked *ranked)
{
    size_t count = 0;
    for (size_t i = 0; i < epoch->chunk_count; i++) {
        const thermocline_chunk *chunk = &epoch->chunks[i];
        uint64_t accesses = chunk->reads + chunk->writes;
        if (accesses > 0)
            ranked[count++] = rank(epoch, i, UINT64_MAX - accesses, chunk->pool != 0);
    }
    qsort(ranked, count, sizeof *ranked, compare);
    return count;
}

/* The chunks on the fastest pool that are not kept, least recently used first; how many. */
static size_t by_age(const thermocline_epoch *epoch, const char *kept, struct ranked *ranked)
{
    size_t count = 0;
    for (size_t i = 0; i < epoch->chunk_count; i++)
        if (epoch->chunks[i].pool == 0 && !kept[i])
            ranked[count++] = rank(epoch, i, epoch->chunks[i].last_access, 0);
    qsort(ranked, count, sizeof *ranked, compare);
    return count;
}

/* The first pool below the fastest that has a free chunk; the number of pools when none has. */
static size_t room_below(const uint64_t *free_chunks, size_t pools)
{
    size_t pool = 1;
    while (pool < pools && free_chunks[pool] == 0)
        pool++;
    return pool;
}

static size_t plan(const thermocline_epoch *epoch, const struct ranked *up, size_t ups,
                   const struct ranked *down, size_t downs, uint64_t *free_chunks,
                   thermocline_move *moves, size_t room)
{
    size_t count = 0, rises = 0, falls = 0;
    while (count < room && rises < ups) {
        if (free_chunks[0] > 0) {
            uint32_t chunk = up[rises++].chunk;
            free_chunks[0]--;
            free_chunks[epoch->chunks[chunk].pool]++;
            moves[count++] = (thermocline_move){chunk, 0};
            continue;
        }
        size_t below = room_below(free_chunks, epoch->pool_count);
        if (falls == downs || below == epoch->pool_count)
            break;
        free_chunks[0]++;
        free_chunks[below]--;
        moves[count++] = (thermocline_move){down[falls++].chunk, (uint32_t)below};
    }
    return count;
}

static int propose(void *placement, const thermocline_epoch *epoch, thermocline_move *moves,
                   size_t room, size_t *count)
{
    const struct baseline *baseline = placement;
    size_t chunks = epoch->chunk_count + 1; /* never 0, for malloc */
    struct ranked *up = malloc(chunks * sizeof *up), *down = malloc(chunks * sizeof *down);
    char *kept = calloc(chunks, 1);
    uint64_t *free_chunks = malloc(epoch->pool_count * sizeof *free_chunks);
    int failed = up == NULL || down == NULL || kept == NULL || free_chunks == NULL;
    if (!failed) {
        for (size_t pool = 0; pool < epoch->pool_count; pool++)
            free_chunks[pool] = epoch->pools[pool].free_chunks;
        size_t top = by_accesses(epoch, up), ups = 0;
        if (top > baseline->k)
            top = baseline->k;
        if (top > epoch->pools[0].total_chunks)
            top = (size_t)epoch->pools[0].total_chunks;
        for (size_t i = 0; i < top; i++) {
            if (up[i].away)
                up[ups++] = up[i];
            else
                kept[up[i].chunk] = 1;
        }
        size_t downs = by_age(epoch, kept, down);
        *count = plan(epoch, up, ups, down, downs, free_chunks, moves, room);
    }
    free(up), free(down), free(kept), free(free_chunks);
    return failed;
}

static uint64_t footprint(const void *placement)
{
    (void)placement;
    return sizeof(struct baseline);
}

static const thermocline_placement baseline = {
    .version = THERMOCLINE_PLACEMENT_VERSION,
    .struct_bytes = sizeof(thermocline_placement),
    .name = "baseline",
    .summary = "moves each epoch's most accessed chunks to the fastest pool",
    .create = create,
    .destroy = free,
    .propose = propose,
    .footprint = footprint,
};

static const thermocline_placement *const placements[] = {&baseline, NULL};

const thermocline_placement *const *thermocline_placements(void)
{
    return placements;
}
