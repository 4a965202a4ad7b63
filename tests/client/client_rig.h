/* A fake master with a lending client and a reading one, as most tests of the client need. */
#ifndef MC_TESTS_CLIENT_CLIENT_RIG_H
#define MC_TESTS_CLIENT_CLIENT_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "client/fake_master.h"
#include "mooncake/observe.h"

#define RIG_SEGMENT_LEN ((uint64_t)64 << 20)

struct rig {
    struct fake_master *master;
    mooncake_client *lenders[2]; /* each lends RIG_SEGMENT_LEN */
    mooncake_client *client;     /* lends nothing, reads and writes over TCP only */
};

/** cmocka's set-up and tear-down: one lender. */
int rig_setup(void **state);
int rig_teardown(void **state);
/** As rig_setup() with two lenders. */
int rig_setup_two(void **state);

/** A client of the rig's master; @p transport NULL: all. Asserts that it opens. */
mooncake_client *rig_open(struct rig *rig, uint64_t segment_size, const char *transport);
/** Take a lender away: it leaves, its segment is gone. */
void rig_close_lender(struct rig *rig, unsigned index);

/** Bytes that differ from place to place and from seed to seed. */
void rig_fill(void *data, size_t len, uint32_t seed);
bool rig_is_filled(const void *data, size_t len, uint32_t seed);

/** Milliseconds that have passed since @p since_ns. */
uint64_t rig_ms_since(uint64_t since_ns);

#endif
