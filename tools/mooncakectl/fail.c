/* How failures are told and which exit status they have. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "output.h"

#define SENTENCE_LEN_MAX 1024

enum mc_exit mc_exit_of(mooncake_err err)
{
    switch (err) {
    case MOONCAKE_OK:
        return MC_EXIT_OK;
    case MOONCAKE_ENOENT:
    case MOONCAKE_EEXIST:
        return MC_EXIT_NO;
    case MOONCAKE_EBADKEY:
        return MC_EXIT_USAGE;
    case MOONCAKE_ERPC:
    case MOONCAKE_ETIMEDOUT:
    case MOONCAKE_ETRANSFER:
        return MC_EXIT_UNREACHABLE;
    case MOONCAKE_EINTERNAL:
    case MOONCAKE_ENOMEM:
    case MOONCAKE_ENOSEGMENT:
    case MOONCAKE_ESEGMENTEXISTS:
    case MOONCAKE_ENOCLIENT:
    case MOONCAKE_ENOSPACE:
    case MOONCAKE_EINVAL:
    case MOONCAKE_ENOTOWNER:
    case MOONCAKE_ESTATE:
    case MOONCAKE_ENOTREADY:
    case MOONCAKE_ELEASED:
    case MOONCAKE_ELEASEEXPIRED:
    case MOONCAKE_ETASKRUNNING:
    case MOONCAKE_ENOREPLICA:
    case MOONCAKE_EREPLICABUSY:
    case MOONCAKE_ECHECKSUM:
    case MOONCAKE_ECANCELED:
    case MOONCAKE_EUNAVAILABLE:
    case MOONCAKE_EMODE:
    case MOONCAKE_ENOTSUP:
    case MOONCAKE_ENOTASK:
    case MOONCAKE_ETASKQUEUE:
    case MOONCAKE_EQUOTA:
    case MOONCAKE_ENOTENANT:
        return MC_EXIT_FAILED;
    }
    return MC_EXIT_FAILED; /* a number of a later library */
}

static void tell_json(const char *sentence, const char *name, int code)
{
    json_t *error = mc_json_object();

    if (name != NULL) {
        mc_json_set(error, "name", json_string(name));
        mc_json_set(error, "code", json_integer(code));
    }
    mc_json_set(error, "message", mc_json_text(sentence));
    mc_json_print_field("error", error);
}

enum mc_exit mc_fail(const struct mc_ctl *ctl, mooncake_err err, const char *want, ...)
{
    const char *detail = mooncake_last_error();
    char wanted[SENTENCE_LEN_MAX];
    char sentence[3 * SENTENCE_LEN_MAX];
    va_list args;

    va_start(args, want);
    (void)vsnprintf(wanted, sizeof(wanted), want, args);
    va_end(args);
    if (detail[0] == '\0') {
        detail = mooncake_err_text(err);
    }
    (void)snprintf(sentence, sizeof(sentence), "%s: %s", wanted, detail);
    mc_print_text(stderr, "mooncakectl: ");
    mc_print_text(stderr, sentence);
    (void)fprintf(stderr, " [%s %d]\n", mooncake_err_name(err), (int)err);
    if (ctl->json) {
        tell_json(sentence, mooncake_err_name(err), (int)err);
    }
    return mc_exit_of(err);
}

enum mc_exit mc_fail_plain(const struct mc_ctl *ctl, enum mc_exit status, const char *text, ...)
{
    char sentence[2 * SENTENCE_LEN_MAX];
    va_list args;

    va_start(args, text);
    (void)vsnprintf(sentence, sizeof(sentence), text, args);
    va_end(args);
    mc_print_text(stderr, "mooncakectl: ");
    mc_print_text(stderr, sentence);
    (void)fputc('\n', stderr);
    if (ctl->json) {
        tell_json(sentence, NULL, 0);
    }
    return status;
}

void *mc_need(void *ptr)
{
    if (ptr == NULL) {
        (void)fputs("mooncakectl: out of memory in this process\n", stderr);
        exit(MC_EXIT_FAILED);
    }
    return ptr;
}
