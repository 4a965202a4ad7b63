/* Runs a fuzz target on the files of a directory, without a fuzzer: the seeds as a test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define FILE_LEN_MAX ((size_t)1 << 20)

static int run_file(const char *path)
{
    static uint8_t bytes[FILE_LEN_MAX];
    FILE *file = fopen(path, "rb");
    uint8_t *exact;
    size_t len;

    if (file == NULL) {
        perror(path);
        return 1;
    }
    len = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    exact = malloc(len + 1); /* so that a sanitizer sees a read beyond */
    if (exact == NULL) {
        return 1;
    }
    for (size_t i = 0; i < len; i++) {
        exact[i] = bytes[i];
    }
    (void)LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    return 0;
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    struct dirent *entry;
    unsigned count = 0;
    int failed = 0;

    if (dir == NULL) {
        (void)fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    while ((entry = readdir(dir)) != NULL) {
        char path[1024];

        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
            failed |= run_file(path);
            count++;
        }
    }
    (void)closedir(dir);
    (void)printf("%u inputs\n", count);
    return failed != 0 || count == 0 ? 1 : 0;
}
