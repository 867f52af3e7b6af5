/* Hints of files to a thermocline volume, from C.
 *
 * Link with -lthermocline_hints. A hint goes to whoever the environment variable THERMOCLINE_HINTS_SOCKET names when the program
 * starts: `thermocline hint run --preload` sets it, `thermocline hint watch --socket PATH` listens at PATH. Where it is not set, nothing happens.
 *
 * The functions never wait, leave errno as it is, take no lock and allocate nothing; they may be called by any thread, after a fork,
 * and in a signal's handler. Hints may cost speed, never data. docs/guides/hints.md tells what each leads to.
 */
#ifndef THERMOCLINE_HINTS_H
#define THERMOCLINE_HINTS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Wishes, added up. */
#define THERMOCLINE_METADATA 1u /* what a file system, or a database, keeps to find the rest */
#define THERMOCLINE_PIN 2u      /* placements shall leave it where it is */
#define THERMOCLINE_DEMOTE 4u   /* it is not needed soon */
#define THERMOCLINE_PREFETCH 8u /* it is needed soon */

/* How it is used. */
#define THERMOCLINE_USAGE_UNKNOWN 0
#define THERMOCLINE_USAGE_READ_INTENSIVE 1
#define THERMOCLINE_USAGE_WRITE_INTENSIVE 2
#define THERMOCLINE_USAGE_RANDOM_WRITE 3
#define THERMOCLINE_USAGE_SEQUENTIAL_WRITE 4
#define THERMOCLINE_USAGE_MIXED 5
#define THERMOCLINE_USAGE_ARCHIVAL 6

/* How long it will live: the numbers of Linux's RWH_WRITE_LIFE_. */
#define THERMOCLINE_LIFE_NOT_SET 0
#define THERMOCLINE_LIFE_NONE 1
#define THERMOCLINE_LIFE_SHORT 2
#define THERMOCLINE_LIFE_MEDIUM 3
#define THERMOCLINE_LIFE_LONG 4
#define THERMOCLINE_LIFE_EXTREME 5

/* What is known of bytes of a file. What is not known stays 0; `size` must be set. */
struct thermocline_hint {
    uint32_t size;          /* sizeof(struct thermocline_hint) */
    uint32_t wishes;        /* THERMOCLINE_METADATA | … */
    uint64_t offset;        /* from where on, bytes */
    uint64_t length;        /* how far, bytes; 0: to the file's end */
    uint16_t stream;        /* a number for what belongs together; 0: none */
    uint8_t usage;          /* THERMOCLINE_USAGE_… */
    uint8_t life;           /* THERMOCLINE_LIFE_… */
    uint32_t background_ms; /* nobody waits for it: requests may wait so long, 1 to 10,000; 0: they do not */
    uint64_t expires_ms;    /* when to forget it, from now; 0: after an hour, or with the program that listens */
};

/* Both answer 0, or the number of an error: EINVAL a field holds what it may not, ENOTCONN nobody listens (the variable was not
 * set), ECONNREFUSED or ENOENT who listened is gone, EAGAIN it did not keep up and the hint is lost, EBADF and others as open(2).
 * 0 says that the hint was sent, not that anything follows from it. */
int thermocline_hint_fd(int file, const struct thermocline_hint *hint);
int thermocline_hint_path(const char *path, const struct thermocline_hint *hint);

#ifdef __cplusplus
}
#endif

#endif
