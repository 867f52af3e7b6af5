/* Placements that fail, for tests: what each proposes is in its name. */

#include "thermocline_placement.h"
#include <stdio.h>
#include <stdlib.h>

static char nothing;

static void *create(const char *settings, char *error, size_t error_bytes)
{
    (void)settings, (void)error, (void)error_bytes;
    return &nothing;
}

static void *refuse(const char *settings, char *error, size_t error_bytes)
{
    (void)settings;
    snprintf(error, error_bytes, "it never can");
    return NULL;
}

static void *mute(const char *settings, char *error, size_t error_bytes)
{
    (void)settings, (void)error, (void)error_bytes;
    return NULL;
}

static void destroy(void *placement) { (void)placement; }

#define PROPOSE(function, statement)                                                               \
    static int function(void *placement, const thermocline_epoch *epoch, thermocline_move *moves,  \
                        size_t room, size_t *count)                                                \
    {                                                                                              \
        (void)placement, (void)epoch, (void)moves, (void)room, (void)count;                        \
        statement;                                                                                 \
    }

#define MOVE(its_chunk, its_pool)                                                                  \
    if (room == 0)                                                                                 \
        return 9;                                                                                  \
    moves[0] = (thermocline_move){(uint32_t)(its_chunk), (uint32_t)(its_pool)};                    \
    *count = 1;                                                                                    \
    return 0

static int overfill(void *placement, const thermocline_epoch *epoch, thermocline_move *moves,
                    size_t room, size_t *count)
{
    (void)placement;
    *count = 0;
    for (uint32_t chunk = 0; chunk < epoch->chunk_count && *count < room; chunk++)
        if (epoch->chunks[chunk].pool != 0)
            moves[(*count)++] = (thermocline_move){chunk, 0};
    return 0;
}

static int twice(void *placement, const thermocline_epoch *epoch, thermocline_move *moves,
                 size_t room, size_t *count)
{
    (void)placement;
    uint32_t chunk = 0;
    while (epoch->chunks[chunk].pool != 0)
        chunk++;
    if (room < 2)
        return 9;
    moves[0] = moves[1] = (thermocline_move){chunk, 1};
    *count = 2;
    return 0;
}

PROPOSE(silent, return 0)
PROPOSE(fails, return 7)
PROPOSE(unwritten, *count = 1; return 0)
PROPOSE(too_many, *count = room + 1; return 0)
PROPOSE(no_chunk, MOVE(epoch->chunk_count, 0))
PROPOSE(no_pool, MOVE(0, epoch->pool_count))
PROPOSE(stays, MOVE(0, epoch->chunks[0].pool))

#define PLACEMENT(its_name, its_create, its_propose)                                               \
    {.version = THERMOCLINE_PLACEMENT_VERSION, .struct_bytes = sizeof(thermocline_placement),      \
     .name = its_name, .summary = "fails", .create = its_create, .destroy = destroy,               \
     .propose = its_propose}

static const thermocline_placement placements[] = {
    PLACEMENT("unmade", refuse, silent),   PLACEMENT("mute", mute, silent),
    PLACEMENT("silent", create, silent),   PLACEMENT("fails", create, fails),
    PLACEMENT("unwritten", create, unwritten), PLACEMENT("too-many", create, too_many),
    PLACEMENT("no-chunk", create, no_chunk), PLACEMENT("no-pool", create, no_pool),
    PLACEMENT("stays", create, stays),     PLACEMENT("twice", create, twice),
    PLACEMENT("overfill", create, overfill),
};

static const thermocline_placement *const all[] = {
    &placements[0], &placements[1], &placements[2], &placements[3], &placements[4], &placements[5],
    &placements[6], &placements[7], &placements[8], &placements[9], &placements[10], NULL,
};

const thermocline_placement *const *thermocline_placements(void) { return all; }
