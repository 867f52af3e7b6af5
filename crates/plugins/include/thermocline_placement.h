/* Placements of one's own for thermocline: a shared library in C, C++ or Rust.
 *
 *     cc -O2 -shared -fPIC -I include -o mine.so mine.c
 *     thermocline lab volume web.csv.gz --policy static,./mine.so:name
 *
 * A placement says which chunk of a tiered volume lies on which pool. It is asked once an epoch, is
 * shown all chunks and pools, and answers with moves.
 *
 * A library exports one function, `thermocline_placements`, which returns the tables of its
 * placements, a null pointer after the last. The same library may also export cache policies
 * (thermocline_policy.h), under other names. Each run makes a placement by `create` and uses it
 * from one thread at a time, but not always from the same one; several placements are used at
 * once, so that what they share must be safe to share. Answers are checked: one that makes no sense
 * ends the run with a message. A library that writes where it may not is not caught.
 *
 * This interface is version 1. Functions are only ever added at the end of a table, and fields at
 * the end of `thermocline_epoch`; `struct_bytes` says which ones are there. Elements of arrays do
 * not change. Licence: Apache-2.0. */

#ifndef THERMOCLINE_PLACEMENT_H
#define THERMOCLINE_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define THERMOCLINE_PLACEMENT_VERSION 1u

/* Flags of a chunk. A move of such a chunk is refused by the volume, without harm. */
#define THERMOCLINE_CHUNK_EMPTY 1u      /* it holds nothing: never written, or discarded */
#define THERMOCLINE_CHUNK_PINNED 2u     /* an administrator pinned it */
#define THERMOCLINE_CHUNK_REPLICATED 4u /* it has further copies; a move to their pools is refused */

/* A chunk, and the accesses of clients to it in the epoch that ends. */
typedef struct thermocline_chunk {
    uint32_t volume; /* from 0 */
    uint32_t index;  /* place in its volume, from 0 */
    uint16_t pool;   /* where it is; the slowest pool when it holds nothing */
    uint16_t flags;
    uint32_t reserved;
    uint64_t reads; /* accesses that read */
    uint64_t writes;
    uint64_t read_bytes;
    uint64_t written_bytes;
    uint64_t last_access; /* number of its last access among all since the start, from 1; 0: never */
    uint64_t last_ns;     /* time of its last access; 0: never */
} thermocline_chunk;

/* Expected service of one kind of requests by a pool. */
typedef struct thermocline_service {
    uint64_t latency_ns; /* mean latency of a request of 4 KiB that is alone */
    uint64_t per_second; /* units of 4 KiB a second, at most */
} thermocline_service;

/* A pool, and what clients asked of its device in the epoch that ends. */
typedef struct thermocline_pool {
    uint64_t total_chunks;
    uint64_t free_chunks;
    thermocline_service random_read;
    thermocline_service random_write;
    thermocline_service sequential_read;
    thermocline_service sequential_write;
    uint64_t reads; /* requests that read */
    uint64_t writes;
    uint64_t read_bytes;
    uint64_t written_bytes;
    uint64_t read_latency_ns; /* mean, the wait in the device included; 0 without reads */
    uint64_t write_latency_ns;
} thermocline_pool;

/* An epoch that ends. All of it is read-only, and gone when `propose` returns. */
typedef struct thermocline_epoch {
    size_t struct_bytes; /* sizeof(thermocline_epoch), as the caller knows it */
    uint64_t now_ns;     /* since the start of virtual time */
    uint64_t epoch_ns;   /* length of the epoch, above 0 */
    uint64_t chunk_bytes;
    /* All chunks met so far. A chunk's number is its place in this array; it keeps it. */
    const thermocline_chunk *chunks;
    size_t chunk_count;
    /* Pools from fastest (0) to slowest, 2 or more. */
    const thermocline_pool *pools;
    size_t pool_count;
} thermocline_epoch;

/* A chunk shall move to a pool. */
typedef struct thermocline_move {
    uint32_t chunk; /* its number */
    uint32_t pool;
} thermocline_move;

/* A placement. All pointers stay valid while the library is loaded. */
typedef struct thermocline_placement {
    uint32_t version;      /* THERMOCLINE_PLACEMENT_VERSION */
    uint32_t struct_bytes; /* sizeof(thermocline_placement) */
    const char *name;      /* letters, digits, `-` and `_` */
    const char *summary;   /* one line */

    /* A placement that knows nothing yet. `settings` is what follows the name,
     * `key=value:key=value`, empty for none. On failure returns NULL and may write a message into
     * `error`, `error_bytes` with its zero. */
    void *(*create)(const char *settings, char *error, size_t error_bytes);
    void (*destroy)(void *placement);

    /* Ends an epoch: writes the moves that it wants into `moves`, which has room for `room` of
     * them, best first, and their number into `count`. The volume may carry out the first ones
     * only; a chunk that is still where it was is proposed again. A chunk moves once an epoch, and
     * not to the pool where it is. An arrival needs a free chunk after the moves before it, so that
     * a move that makes room goes first. 0, or not 0 on failure. */
    int (*propose)(void *placement, const thermocline_epoch *epoch, thermocline_move *moves,
                   size_t room, size_t *count);

    /* Bytes of memory in use. May be NULL. */
    uint64_t (*footprint)(const void *placement);
} thermocline_placement;

/* The library's placements, a null pointer after the last. */
const thermocline_placement *const *thermocline_placements(void);

#ifdef __cplusplus
}
#endif

#endif
