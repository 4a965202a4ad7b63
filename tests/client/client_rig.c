/* See the header. */
#include "client/client_rig.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

mooncake_client *rig_open(struct rig *rig, uint64_t segment_size, const char *transport)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;

    mooncake_client_options_init(&options);
    options.master = fake_master_address(rig->master);
    options.segment_size = segment_size;
    options.local_hostname = "127.0.0.1";
    options.data_address = "127.0.0.1:0";
    options.transport = transport;
    options.timeout_ms = 10000;
    options.program = "test";
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_OK);
    assert_non_null(client);
    return client;
}

static int setup(void **state, unsigned lenders)
{
    struct rig *rig = mc_calloc(1, sizeof(*rig));

    assert_non_null(rig);
    rig->master = fake_master_start();
    for (unsigned i = 0; i < lenders; i++) {
        rig->lenders[i] = rig_open(rig, RIG_SEGMENT_LEN, NULL);
    }
    rig->client = rig_open(rig, 0, "tcp");
    *state = rig;
    return 0;
}

int rig_setup(void **state)
{
    return setup(state, 1);
}

int rig_setup_two(void **state)
{
    return setup(state, 2);
}

void rig_close_lender(struct rig *rig, unsigned index)
{
    mooncake_client_close(rig->lenders[index]);
    rig->lenders[index] = NULL;
}

int rig_teardown(void **state)
{
    struct rig *rig = *state;

    mooncake_client_close(rig->client);
    rig_close_lender(rig, 0);
    rig_close_lender(rig, 1);
    fake_master_stop(rig->master);
    mc_free(rig);
    return 0;
}

static uint8_t pattern(size_t at, uint32_t seed)
{
    uint64_t x = (at + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;

    return (uint8_t)(x >> 56 ^ x >> 24);
}

void rig_fill(void *data, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)data)[i] = pattern(i, seed);
    }
}

bool rig_is_filled(const void *data, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++) {
        if (((const uint8_t *)data)[i] != pattern(i, seed)) {
            return false;
        }
    }
    return true;
}

uint64_t rig_ms_since(uint64_t since_ns)
{
    return (mc_monotonic_ns() - since_ns) / MC_NS_PER_MS;
}
