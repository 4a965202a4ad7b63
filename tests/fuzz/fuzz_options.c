/*
 * A configuration file and a command line: bytes up to the first 0xff are the file, each line after
 * it is a flag. Laws: taken, refused with a sentence, or no memory; memory is given back; what was
 * taken is shown as text that sets another object to the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/option.h"

#include "law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define WORDS_MAX 16

struct conf {
    bool verbose;
    uint32_t threads;
    uint64_t objects;
    uint16_t rpc_port;
    double watermark;
    uint64_t size;
    uint64_t lease;
    uint64_t ttl;
    char *name;
    struct mc_option_texts segment;
};

static const struct mc_option table[] = {
    MC_OPTION(struct conf, verbose, BOOL, "false", "help"),
    MC_OPTION(struct conf, threads, U32, "2", "help", .min = 1, .max = 64),
    MC_OPTION(struct conf, objects, U64, NULL, "help"),
    MC_OPTION(struct conf, rpc_port, PORT, "50051", "help", .alias = "port"),
    MC_OPTION(struct conf, watermark, RATIO, "0.9", "help"),
    MC_OPTION(struct conf, size, SIZE, "4GiB", "help", .min = 1024),
    MC_OPTION(struct conf, lease, MS, "10s", "help"),
    MC_OPTION(struct conf, ttl, SECONDS, "10", "help"),
    MC_OPTION(struct conf, name, TEXT, NULL, "help"),
    MC_OPTION(struct conf, segment, TEXTS, NULL, "help"),
};

/* The other object, and how many options have been looked at. */
struct copy {
    struct mc_options *options;
    struct conf conf;
};

static void set_copy(void *arg, const struct mc_option_view *view)
{
    struct copy *copy = arg;

    /* a size that was never given is 0, which nobody may give; lists are shown with commas */
    if (strcmp(view->source, "default") != 0 && strcmp(view->name, "segment") != 0) {
        law(mc_options_set(copy->options, view->name, view->value, view->source) == MOONCAKE_OK);
    }
}

static void check_copy(const struct mc_options *options, const struct conf *conf)
{
    struct copy copy = {0};

    law(mc_options_create("fuzz", table, MC_ARRAY_LEN(table), &copy.conf, &copy.options) ==
        MOONCAKE_OK);
    mc_options_visit(options, set_copy, &copy);
    law(copy.conf.verbose == conf->verbose && copy.conf.threads == conf->threads &&
        copy.conf.objects == conf->objects && copy.conf.rpc_port == conf->rpc_port &&
        memcmp(&copy.conf.watermark, &conf->watermark, sizeof(conf->watermark)) == 0 &&
        copy.conf.size == conf->size && copy.conf.lease == conf->lease &&
        copy.conf.ttl == conf->ttl && strcmp(copy.conf.name, conf->name) == 0);
    law(conf->threads >= 1 && conf->threads <= 64 && conf->size >= 1024);
    law(conf->watermark >= 0 && conf->watermark <= 1);
    mc_options_destroy(&copy.options);
}

/* Cut @p text at its newlines into words behind those that are there. */
static int add_words(char *text, char **argv, int argc)
{
    char *rest = text;

    while (argc < WORDS_MAX - 1) {
        char *end = strchr(rest, '\n');

        argv[argc++] = rest;
        if (end == NULL) {
            break;
        }
        *end = '\0';
        rest = end + 1;
    }
    argv[argc] = NULL;
    return argc;
}

/* A file in memory that has a path. */
static int make_file(const uint8_t *data, size_t len, char *flag, size_t cap)
{
    int fd = memfd_create("conf", MFD_CLOEXEC);

    law(fd >= 0);
    law(write(fd, data, len) == (ssize_t)len);
    (void)snprintf(flag, cap, "--config_path=/proc/self/fd/%d", fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char program[] = "fuzz";
    const uint8_t *mark = len == 0 ? NULL : memchr(data, 0xff, len);
    size_t file_len = mark == NULL ? len : (size_t)(mark - data);
    int64_t live = mc_mem_live_count();
    struct mc_options *options = NULL;
    struct conf conf = {0};
    char *argv[WORDS_MAX] = {program};
    int argc = 1;
    char flag[64];
    char *words = NULL;
    int fd = -1;
    mooncake_err err;

    law(mc_options_create("fuzz", table, MC_ARRAY_LEN(table), &conf, &options) == MOONCAKE_OK);
    if (file_len > 0) {
        fd = make_file(data, file_len, flag, sizeof(flag));
        argv[argc++] = flag;
    }
    if (mark != NULL) {
        words = strndup((const char *)mark + 1, len - file_len - 1);
        law(words != NULL);
        /* a name of a file from the fuzzer would lead out of its hands */
        if (strstr(words, "config") == NULL) {
            argc = add_words(words, argv, argc);
        }
    }
    mc_err_clear();
    err = mc_options_read(options, &argc, argv, 2);
    if (err == MOONCAKE_OK) {
        law(argc >= 1 && argc <= 3);
        if (!mc_options_asked(options, "help") && !mc_options_asked(options, "version")) {
            check_copy(options, &conf);
        }
    } else {
        law(err == MOONCAKE_EINVAL && mooncake_last_error()[0] != '\0');
        law(strpbrk(mooncake_last_error(), "\n\r") == NULL);
    }
    mc_options_destroy(&options);
    law(mc_mem_live_count() == live);
    free(words);
    if (fd >= 0) {
        (void)close(fd);
    }
    return 0;
}
