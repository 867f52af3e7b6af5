/* A program that knows nothing of hints: says one thing of each kind, and prints what the C library answered, with errno. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, long answer) {
    printf("%s %ld %d\n", what, answer, errno);
    errno = 77;
}

static void everything(int file, int pipe_end) {
    uint64_t life = 4;
    errno = 77;
    for (int advice = 0; advice <= 6; advice++)
        tell("posix_fadvise", posix_fadvise(file, 4096, 8192, advice));
    tell("whole", posix_fadvise(file, 0, 0, POSIX_FADV_WILLNEED));
    tell("negative", posix_fadvise(file, 0, -1, POSIX_FADV_WILLNEED));
    tell("no file", posix_fadvise(-1, 0, 0, POSIX_FADV_WILLNEED));
    tell("pipe", posix_fadvise(pipe_end, 0, 0, POSIX_FADV_WILLNEED));
    tell("readahead", readahead(file, 0, 65536));
    tell("readahead of no file", readahead(-1, 0, 65536));
    tell("life", fcntl(file, 1024 + 12, &life));
    life = 77;
    tell("no life", fcntl(file, 1024 + 12, &life));
    tell("no number", fcntl(file, 1024 + 12, NULL));
    tell("flags", fcntl(file, F_GETFL) & O_ACCMODE);
    int other = fcntl(file, F_DUPFD, 100);
    tell("another", other);
    tell("closed", close(other));
    tell("syscall", syscall(SYS_getppid) == getppid());
    tell("six arguments", syscall(SYS_copy_file_range, file, NULL, -1, NULL, 1L, 0) < 0);
    tell("idle", syscall(SYS_ioprio_set, 1, 0, 3 << 13));
    tell("of another", syscall(SYS_ioprio_set, 1, getppid(), 0));
    tell("no class", syscall(SYS_ioprio_set, 1, 0, 7 << 13));
}

int main(int count, char **words) {
    int pipes[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count < 3 || pipe(pipes))
        return 2;
    int file = open(words[2], O_RDWR);
    if (file < 0)
        return 3;
    if (!strcmp(words[1], "everything")) {
        everything(file, pipes[0]);
    } else if (!strcmp(words[1], "child")) {
        pid_t child = fork();
        if (child == 0) {
            posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
            _exit(0);
        }
        printf("%d\n", (int)child);
        waitpid(child, NULL, 0);
    } else if (!strcmp(words[1], "many")) {
        for (int at = 0; at < 5000; at++)
            if (posix_fadvise(file, at, 1, POSIX_FADV_WILLNEED))
                return 4;
        puts("said");
        getchar();
        posix_fadvise(file, 5000, 1, POSIX_FADV_WILLNEED);
    }
    return 0;
}
