/* LRU, as a policy of one's own, written for speed: a log in place of a list.
 *
 *     cc -O2 -shared -fPIC -I crates/plugins/include -o lru_log.so crates/plugins/examples/lru_log.c
 *
 * lru.c shows the interface with a textbook list, whose every hit writes to several random places.
 * This one appends, and evicts what lru.c evicts:
 *
 * 1. Every access appends its line to a ring, and notes the position in the line's index word. That
 *    word is the only random memory an access needs, and it is asked for well before.
 * 2. A bit a slot says whether its entry is the line's last one. The oldest line is the first bit
 *    at or after the tail. An entry below the tail was evicted; its index word is left as it is.
 * 3. When the ring is full of holes, the entries that live are appended again, in order.
 * 4. Hits and misses come in no order that the processor could foresee, so that a full cache
 *    chooses between them without a jump.
 *
 * State: 4 B a distinct line, 8.25 to 16.5 B a cached line. */

#include "thermocline_policy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD 64u                 /* slots whose bits one word has */
#define REBASE_AT (3u << 30)     /* positions are lowered from here on */
#define CAPACITY_MAX (1u << 28)  /* lines: a ring then has at most 2^30 slots */
#define FAR 24                   /* accesses ahead at which a line's index word is asked for */
#define AHEAD 16                 /* entries ahead at which that is done while packing */

struct lru {
    uint32_t *index; /* a line's position; 0: it was never here */
    uint32_t *ring;  /* the line of each slot */
    uint64_t *live;  /* a bit a slot; bits from the head on mean nothing */
    uint32_t universe, capacity, count;
    uint32_t mask;       /* slots less one */
    uint32_t head, tail; /* the next position; none that lives is below the tail */
};

static void destroy(void *cache)
{
    struct lru *lru = cache;
    free(lru->index);
    free(lru->ring);
    free(lru->live);
    free(lru);
}

static void *create(const thermocline_geometry *geometry, const char *settings, char *error,
                    size_t error_bytes)
{
    if (settings[0] != '\0') {
        snprintf(error, error_bytes, "it has no settings, and was given `%s`", settings);
        return NULL;
    }
    if (geometry->lines > CAPACITY_MAX) {
        snprintf(error, error_bytes, "it holds at most %u lines", CAPACITY_MAX);
        return NULL;
    }
    struct lru *lru = calloc(1, sizeof *lru);
    if (lru == NULL)
        return NULL;
    size_t slots = 2 * WORD;
    while (slots < 2 * (size_t)geometry->lines + 2 * WORD)
        slots *= 2;
    lru->capacity = geometry->lines;
    lru->mask = (uint32_t)(slots - 1);
    lru->head = lru->tail = (uint32_t)slots;
    lru->ring = malloc(slots * sizeof *lru->ring);
    lru->live = malloc(slots / WORD * sizeof *lru->live);
    if (lru->ring == NULL || lru->live == NULL) {
        destroy(lru);
        return NULL;
    }
    memset(lru->ring, 0, slots * sizeof *lru->ring);
    return lru;
}

static int reserve(void *cache, uint32_t universe)
{
    struct lru *lru = cache;
    if (universe <= lru->universe)
        return 0;
    /* Twice as many, so that a growing trace is not copied at each step. */
    size_t room = universe < UINT32_MAX / 2 ? (size_t)universe * 2 : universe;
    uint32_t *index = realloc(lru->index, room * sizeof *index);
    if (index == NULL)
        return 1;
    memset(index + lru->universe, 0, (room - lru->universe) * sizeof *index);
    lru->index = index;
    lru->universe = (uint32_t)room;
    return 0;
}

static inline void push(struct lru *lru, uint32_t line)
{
    lru->ring[lru->head & lru->mask] = line;
    lru->index[line] = lru->head++;
}

/* The entry at a position is no longer its line's last one. */
static inline void kill(struct lru *lru, uint32_t position)
{
    uint32_t slot = position & lru->mask;
    lru->live[slot / WORD] &= ~(UINT64_C(1) << slot % WORD);
}

/* The first position at or after the tail that lives. There is one. */
static inline uint32_t oldest(const uint64_t *live, uint32_t mask, uint32_t tail)
{
    uint32_t slot = tail & mask, position = tail;
    uint64_t bits = live[slot / WORD] >> slot % WORD;
    if (bits == 0) {
        position &= ~(WORD - 1);
        do {
            position += WORD;
            bits = live[(position & mask) / WORD];
        } while (bits == 0);
    }
    return position + (uint32_t)__builtin_ctzll(bits);
}

/* Appends what lives again, in order. What is written never overtakes what is read, because the
 * ring has more than a word of free slots; a word's bits are copied before it is written. */
static void pack(struct lru *lru)
{
    uint32_t position = lru->tail & ~(WORD - 1);
    uint64_t bits = lru->live[(position & lru->mask) / WORD];
    bits &= ~UINT64_C(0) << lru->tail % WORD;
    for (uint32_t left = lru->count; left > 0; left--) {
        while (bits == 0) {
            position += WORD;
            bits = lru->live[(position & lru->mask) / WORD];
        }
        uint32_t slot = (position & lru->mask) + (uint32_t)__builtin_ctzll(bits);
        bits &= bits - 1;
        __builtin_prefetch(&lru->index[lru->ring[(slot + AHEAD) & lru->mask]], 1);
        if (lru->head % WORD == 0)
            lru->live[(lru->head & lru->mask) / WORD] = ~UINT64_C(0);
        push(lru, lru->ring[slot]);
    }
    lru->tail = lru->head - lru->count;
}

/* Lowers all positions by a multiple of the ring. */
static void rebase(struct lru *lru)
{
    uint32_t slots = lru->mask + 1, by = (lru->head & ~lru->mask) - slots;
    for (uint32_t line = 0; line < lru->universe; line++)
        lru->index[line] = lru->index[line] < by ? 0 : lru->index[line] - by;
    lru->head -= by;
    lru->tail -= by;
}

/* Readies the bits of the next word of slots. */
static void open_word(struct lru *lru)
{
    if (lru->head - lru->tail > lru->mask - (WORD - 1))
        pack(lru);
    if (lru->head >= REBASE_AT)
        rebase(lru);
    if (lru->head % WORD == 0)
        lru->live[(lru->head & lru->mask) / WORD] = ~UINT64_C(0);
}

/* An access while there is room. */
static uint32_t fill(struct lru *lru, uint32_t line)
{
    uint32_t position = lru->index[line], outcome = THERMOCLINE_HIT;
    if (position >= lru->tail) {
        kill(lru, position);
    } else {
        lru->count++;
        outcome = THERMOCLINE_ADMITTED;
    }
    push(lru, line);
    return outcome;
}

/* At most as many accesses of a full cache as its word of slots has left. `coming` are the lines to
 * ask for meanwhile. What changes is kept in variables: in `lru`, each access would wait for what
 * the one before has stored there. */
static void replace(struct lru *lru, const uint32_t *lines, const uint32_t *coming,
                    uint32_t *outcomes, size_t count)
{
    uint32_t *const index = lru->index, *const ring = lru->ring;
    uint64_t *const live = lru->live;
    const uint32_t mask = lru->mask;
    uint32_t head = lru->head, tail = lru->tail;
    for (size_t i = 0; i < count; i++) {
        __builtin_prefetch(&index[coming[i]], 1);
        uint32_t line = lines[i], position = index[line], first = oldest(live, mask, tail);
        uint32_t is_hit = position >= tail, chosen = -is_hit;
        uint32_t leaving = ((position & chosen) | (first & ~chosen)) & mask;
        outcomes[i] = chosen | (ring[leaving] & ~chosen); /* all ones mean a hit */
        live[leaving / WORD] &= ~(UINT64_C(1) << leaving % WORD);
        tail = first + 1 - is_hit;
        ring[head & mask] = line;
        index[line] = head++;
    }
    lru->head = head;
    lru->tail = tail;
}

static int access_batch(void *cache, const uint32_t *lines, const uint16_t *tags,
                        uint32_t *outcomes, size_t count)
{
    struct lru *lru = cache;
    (void)tags;
    for (size_t i = 0; i < count;) {
        if (lru->head % WORD == 0)
            open_word(lru);
        if (lru->count < lru->capacity) {
            outcomes[i] = fill(lru, lines[i]);
            i++;
            continue;
        }
        size_t span = WORD - lru->head % WORD;
        if (span > count - i)
            span = count - i;
        const uint32_t *coming = i + span + FAR <= count ? &lines[i + FAR] : &lines[i];
        replace(lru, &lines[i], coming, &outcomes[i], span);
        i += span;
    }
    return 0;
}

static int invalidate(void *cache, uint32_t line)
{
    struct lru *lru = cache;
    kill(lru, lru->index[line]);
    lru->index[line] = 0;
    lru->count--;
    return 0;
}

static void footprint(const void *cache, uint64_t *resident_bytes, uint64_t *index_bytes)
{
    const struct lru *lru = cache;
    uint64_t slots = (uint64_t)lru->mask + 1;
    *resident_bytes = slots * sizeof *lru->ring + slots / WORD * sizeof *lru->live;
    *index_bytes = (uint64_t)lru->universe * sizeof *lru->index;
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
