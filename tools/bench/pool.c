/* From our options to the client's. */
#include "pool.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "requests.h"
#include "tally.h"

static bool verify_of(const char *text, mooncake_verify *out)
{
    static const struct {
        const char *name;
        mooncake_verify verify;
    } words[] = {{"full", MOONCAKE_VERIFY_FULL},
                 {"header", MOONCAKE_VERIFY_HEADER},
                 {"none", MOONCAKE_VERIFY_NONE}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i].name) == 0) {
            *out = words[i].verify;
            return true;
        }
    }
    return false;
}

bool mc_pool_options_check(const struct mc_bench_options *options)
{
    mooncake_verify verify;

    if (!verify_of(options->verify, &verify)) {
        (void)fprintf(stderr, "mooncake_bench: --verify: \"%.80s\" is not full, header or none\n",
                      options->verify);
        return false;
    }
    return true;
}

bool mc_pool_open(const struct mc_bench_options *options, mooncake_client **out_client, char *why,
                  size_t why_len)
{
    mooncake_client_options client;
    mooncake_err err;

    mooncake_client_options_init(&client);
    client.master = options->master;
    client.transport = options->transport;
    client.timeout_ms = (uint32_t)options->timeout_ms;
    client.poll_us = (uint32_t)options->poll_us;
    client.tcp_connections = (uint32_t)options->tcp_connections;
    client.copy_threads = (uint32_t)options->copy_threads;
    if (client.connect_timeout_ms > client.timeout_ms) {
        client.connect_timeout_ms = client.timeout_ms;
    }
    if (options->threads > client.engines_max) {
        client.engines_max = (uint32_t)options->threads;
    }
    client.program = "mooncake_bench";
    if (!verify_of(options->verify, &client.verify)) {
        client.verify = MOONCAKE_VERIFY_FULL;
    }
    err = mooncake_client_open(&client, out_client);
    if (err != MOONCAKE_OK) {
        const char *detail = mooncake_last_error();

        (void)snprintf(why, why_len, "cannot open the pool: %s: %s", mooncake_err_name(err),
                       detail[0] == '\0' ? mooncake_err_text(err) : detail);
        return false;
    }
    return true;
}

bool mc_pool_try(const struct mc_bench_options *options, const char *command)
{
    mooncake_client *client = NULL;
    char why[MC_SENTENCE_LEN];

    if (!mc_pool_open(options, &client, why, sizeof(why))) {
        (void)fprintf(stderr, "mooncake_bench %s: %s\n", command, why);
        return false;
    }
    mooncake_client_close(client); /* children open their own */
    return true;
}

uint64_t mc_pool_run_id(void)
{
    struct timespec now;
    uint64_t state;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    state = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return mc_random(&state) ^ (uint64_t)getpid();
}
