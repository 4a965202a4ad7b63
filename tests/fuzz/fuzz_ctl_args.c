/*
 * mooncakectl's command line, one word a line. Laws: a command that suits its table, or a fault
 * that was told; numbers are in their ranges; every word that is handed on is one that was given.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define WORDS_MAX 24

/* What is told is told a million times. */
static void hush(void)
{
    if (fileno(stderr) == STDERR_FILENO) {
        stderr = fopen("/dev/null", "w");
        stdout = fopen("/dev/null", "w");
        law(stderr != NULL && stdout != NULL);
    }
}

static bool was_given(const char *word, const char *text, size_t len)
{
    return word >= text && word <= text + len;
}

static void check_taken(const struct mc_ctl *ctl, const struct mc_command *command,
                        const char *text, size_t len)
{
    law(command != NULL && command->run != NULL);
    law(mc_command_find(command->name) == command);
    law(ctl->timeout_ms <= 24u * 3600 * 1000 && ctl->replicas <= 8 && ctl->limit <= INT64_MAX);
    law(ctl->master == NULL || was_given(ctl->master, text, len));
    law(ctl->pattern == NULL || was_given(ctl->pattern, text, len));
    for (size_t i = 0; i < ctl->words_count; i++) {
        law(was_given(ctl->words[i], text, len));
    }
    if (strcmp(command->name, "help") != 0 && strcmp(command->name, "version") != 0) {
        law(ctl->words_count >= command->words_min && ctl->words_count <= command->words_max);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char program[] = "mooncakectl";
    char *argv[WORDS_MAX + 2] = {program};
    struct mc_ctl ctl = {0};
    const struct mc_command *command = NULL;
    char *text = strndup((const char *)data, len);
    size_t text_len;
    int argc = 1;
    char *rest = text;
    enum mc_exit status;

    law(text != NULL);
    hush();
    text_len = strlen(text);
    while (argc <= WORDS_MAX && rest != NULL) {
        argv[argc++] = strsep(&rest, "\n");
    }
    status = mc_args_parse(argc, argv, &ctl, &command);
    law(status == MC_EXIT_OK || status == MC_EXIT_USAGE);
    if (status == MC_EXIT_OK) {
        check_taken(&ctl, command, text, text_len);
    }
    free(text);
    return 0;
}
