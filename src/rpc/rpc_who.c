/*
 * Two questions, one after the other: the second only if the first was not answered in a way that
 * tells. The answer is judged when its connection has ended.
 */
#include "rpc/rpc_who.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"
#include "io/stream.h"

#define ANSWER_CAP 1024u
#define WORDS_CAP 64u
/* So many bytes tell each of those that we know from others. */
#define BEGIN_LEN_MAX 5u

enum question {
    ASK_HTTP,
    ASK_DATA_PORT,
    ASKED_ALL,
};

struct mc_rpc_who {
    struct mc_loop *loop; /* borrowed */
    char address[MC_ADDR_LEN_MAX];
    uint32_t timeout_ms;
    struct mc_stream *stream;
    enum question question;
    char answer[ANSWER_CAP]; /* ends with a NUL */
    size_t len;
    char words[MC_RPC_WHO_CAP]; /* part of a sentence about somebody unknown; "": they said none */
    void (*done)(void *arg, const char *what); /* NULL: nobody cares any more */
    void *arg;
};

static const char data_port[] = "that is the data port of a store";

const char *mc_rpc_who_begins(const uint8_t *bytes, size_t len)
{
    static const struct {
        const char *begin, *what;
    } known[] = {
        {"HTTP/", "that is an HTTP server, such as the admin port of a master or store"},
        {"MCDH", data_port},
        {"SSH-", "that is an SSH server"},
        {"-ERR", "that is a Redis server"},
        {"\x15\x03", "that is a TLS server"},
    };

    for (size_t i = 0; i < MC_ARRAY_LEN(known); i++) {
        size_t begin_len = strlen(known[i].begin);

        if (len >= begin_len && memcmp(bytes, known[i].begin, begin_len) == 0) {
            return known[i].what;
        }
    }
    return NULL;
}

bool mc_rpc_who_words(const void *bytes, size_t len, char what[MC_RPC_WHO_CAP])
{
    char words[WORDS_CAP];

    if (!mc_text_first_words(bytes, len, words, sizeof(words))) {
        return false;
    }
    (void)snprintf(what, MC_RPC_WHO_CAP, "that is no master, it begins with \"%s\"", words);
    return true;
}

/* Our admin pages list their routes. */
static const char *judge(const struct mc_rpc_who *who)
{
    if (who->question == ASK_HTTP && strncmp(who->answer, "HTTP/", 5) == 0) {
        return strstr(who->answer, "/live ") != NULL
                   ? "that is the admin HTTP port of a master or store"
                   : "that is an HTTP server, no master";
    }
    return mc_rpc_who_begins((const uint8_t *)who->answer, who->len);
}

static mooncake_err ask(struct mc_rpc_who *who);

static void on_connected(void *arg)
{
    static const char get[] = "GET / HTTP/1.0\r\n\r\n";
    /* The first bytes of the data protocol: magic, protocol 1 to 1, status 0. */
    static const char hello[16] = {'M', 'C', 'D', 'H', 1, 0, 1, 0};
    struct mc_rpc_who *who = arg;
    bool http = who->question == ASK_HTTP;

    if (mc_stream_send(who->stream, http ? get : hello, http ? sizeof(get) - 1 : sizeof(hello),
                       NULL, NULL) != MOONCAKE_OK) {
        mc_stream_close(who->stream, MOONCAKE_ENOMEM);
        return;
    }
    mc_stream_flush(who->stream);
}

static unsigned on_space(void *arg, struct iovec *iov)
{
    struct mc_rpc_who *who = arg;

    iov[0] = (struct iovec){.iov_base = who->answer + who->len,
                            .iov_len = sizeof(who->answer) - 1 - who->len};
    return 1;
}

static void on_bytes(void *arg, size_t len)
{
    struct mc_rpc_who *who = arg;

    who->len += len;
    /* of a page the routes are wanted, of others the first bytes, which tell or do not */
    if (who->len == sizeof(who->answer) - 1 ||
        (who->len >= BEGIN_LEN_MAX && strncmp(who->answer, "HTTP/", 5) != 0)) {
        mc_stream_close(who->stream, MOONCAKE_OK);
    }
}

static void on_closed(void *arg, mooncake_err why)
{
    struct mc_rpc_who *who = arg;
    const char *what = judge(who);

    (void)why;
    if (what == NULL && who->words[0] == '\0') {
        (void)mc_rpc_who_words(who->answer, who->len, who->words);
    }
    who->question = who->question == ASK_HTTP ? ASK_DATA_PORT : ASKED_ALL;
    if (who->done != NULL && what == NULL && who->question != ASKED_ALL &&
        ask(who) == MOONCAKE_OK) {
        return;
    }
    if (who->done != NULL) {
        who->done(who->arg, what == NULL && who->words[0] != '\0' ? who->words : what);
    }
    mc_free(who);
}

static mooncake_err ask(struct mc_rpc_who *who)
{
    static const struct mc_stream_ops ops = {
        .on_connected = on_connected,
        .on_space = on_space,
        .on_bytes = on_bytes,
        .on_closed = on_closed,
    };

    memset(who->answer, 0, sizeof(who->answer));
    who->len = 0;
    return mc_stream_connect(who->loop, who->address, who->timeout_ms, &ops, who, &who->stream);
}

mooncake_err mc_rpc_who_start(struct mc_loop *loop, const char *address, uint32_t timeout_ms,
                              void (*done)(void *arg, const char *what), void *arg,
                              struct mc_rpc_who **out)
{
    struct mc_rpc_who *who = mc_calloc(1, sizeof(*who));
    mooncake_err err;

    if (who == NULL) {
        return MOONCAKE_ENOMEM;
    }
    who->loop = loop;
    (void)snprintf(who->address, sizeof(who->address), "%s", address);
    who->timeout_ms = timeout_ms;
    who->done = done;
    who->arg = arg;
    err = ask(who);
    if (err != MOONCAKE_OK) {
        mc_free(who);
        return err;
    }
    *out = who;
    return MOONCAKE_OK;
}

void mc_rpc_who_stop(struct mc_rpc_who **who)
{
    if (*who != NULL) {
        (*who)->done = NULL;
        mc_stream_close((*who)->stream, MOONCAKE_OK);
        *who = NULL;
    }
}
