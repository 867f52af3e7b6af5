/* A program that gives hints itself, by the header. */
#include "thermocline_hints.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **words) {
    int file = open(words[1], O_RDONLY);
    struct thermocline_hint hint = {
        .size = sizeof hint,
        .wishes = THERMOCLINE_PIN | THERMOCLINE_PREFETCH,
        .offset = 4096,
        .length = 8192,
        .stream = 7,
        .usage = THERMOCLINE_USAGE_WRITE_INTENSIVE,
        .life = THERMOCLINE_LIFE_EXTREME,
        .background_ms = 500,
        .expires_ms = 60000,
    };
    errno = 77;
    int answers[] = {
        thermocline_hint_fd(file, &hint),
        (hint.offset = 0, thermocline_hint_path(words[1], &hint)),
        thermocline_hint_path("/no/such/file", &hint),
        thermocline_hint_fd(-1, &hint),
        thermocline_hint_fd(file, NULL),
        (hint.usage = 7, thermocline_hint_fd(file, &hint)),
        (hint.usage = 0, hint.wishes = 16, thermocline_hint_fd(file, &hint)),
        (hint.wishes = 0, hint.size = 8, thermocline_hint_fd(file, &hint)),
    };
    for (unsigned at = 0; at < sizeof answers / sizeof *answers; at++)
        printf("%d ", answers[at]);
    printf("%d\n", errno);
    return count == 2 ? 0 : 1;
}
