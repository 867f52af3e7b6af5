/* Cache policies of one's own for thermocline: a shared library in C, C++ or Rust.
 *
 *     cc -O2 -shared -fPIC -I include -o mine.so mine.c
 *     thermocline lab cache web.csv.gz --policy lru,./mine.so:name --size 5%
 *
 * A library exports one function, `thermocline_policies`, which returns the tables of its policies,
 * a null pointer after the last. Each cache of a run is made by `create` and used by one thread at a
 * time, but not always by the same one; several caches are used at once, so that what they share
 * must be safe to share. Answers are checked: one that cannot be true ends the run with a message.
 * A library that writes where it may not is not caught.
 *
 * This interface is version 1. Functions are only ever added at the end of the table;
 * `struct_bytes` says which ones a library knows. Licence: Apache-2.0. */

#ifndef THERMOCLINE_POLICY_H
#define THERMOCLINE_POLICY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define THERMOCLINE_POLICY_VERSION 1u

/* Outcomes of an access. Any other value is the line that was evicted to admit the accessed one. */
#define THERMOCLINE_HIT 0xffffffffu      /* the line was resident */
#define THERMOCLINE_ADMITTED 0xfffffffeu /* a miss; the line was admitted into free room */
#define THERMOCLINE_BYPASSED 0xfffffffdu /* a miss; the line was not admitted, nothing evicted. A
                                            write to a resident line may drop it this way. */

/* A cache that a policy is made for. */
typedef struct thermocline_geometry {
    uint32_t lines;      /* capacity in lines, 1 or more */
    uint32_t volumes;    /* volumes that share the cache, 1 or more */
    uint64_t line_bytes; /* bytes of a line; 1 where objects of unit size are cached */
    uint64_t seed;       /* of everything random */
} thermocline_geometry;

/* A policy. All pointers stay valid while the library is loaded. */
typedef struct thermocline_policy {
    uint32_t version;      /* THERMOCLINE_POLICY_VERSION */
    uint32_t struct_bytes; /* sizeof(thermocline_policy) */
    const char *name;      /* letters, digits, `-` and `_` */
    const char *summary;   /* one line */

    /* An empty cache. `settings` is what follows the name, `key=value:key=value`, empty for none.
     * On failure returns NULL and may write a message into `error`, `error_bytes` with its zero. */
    void *(*create)(const thermocline_geometry *geometry, const char *settings, char *error,
                    size_t error_bytes);
    void (*destroy)(void *cache);

    /* Lines below `universe` may be named from now on; it never shrinks. 0, or not 0 on failure. */
    int (*reserve)(void *cache, uint32_t universe);

    /* Accesses `count` lines in order. Writes an outcome for each. A tag is the volume's number
     * times two, plus one for a write. 0, or not 0 on failure. */
    int (*access)(void *cache, const uint32_t *lines, const uint16_t *tags, uint32_t *outcomes,
                  size_t count);

    /* Drops a resident line: its data was discarded. 0, or not 0 on failure. */
    int (*invalidate)(void *cache, uint32_t line);

    /* Memory in use: what grows with the capacity, and what grows with the lines seen. May be
     * NULL. */
    void (*footprint)(const void *cache, uint64_t *resident_bytes, uint64_t *index_bytes);

    /* An epoch ended. 0, or not 0 on failure. May be NULL. */
    int (*end_epoch)(void *cache, uint64_t now_ns);
} thermocline_policy;

/* The library's policies, a null pointer after the last. */
const thermocline_policy *const *thermocline_policies(void);

#ifdef __cplusplus
}
#endif

#endif
