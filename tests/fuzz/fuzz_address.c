/*
 * Socket addresses from options and from mounts. Laws: what is refused has a sentence; a numeric
 * address is printed as text that is read as the same address.
 */
#include <stdlib.h>
#include <string.h>

#include "io/address.h"

#include "law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_numeric(const struct sockaddr_storage *address)
{
    struct sockaddr_storage again;
    struct mc_address_parts parts;
    char text[MC_ADDR_LEN_MAX];

    law(address->ss_family == AF_INET || address->ss_family == AF_INET6);
    mc_address_print(address, text, sizeof(text));
    law(mc_address_split(text, &parts) == MOONCAKE_OK);
    law(mc_address_numeric(&parts, &again));
    law(mc_address_len(address) == mc_address_len(&again));
    if (address->ss_family == AF_INET) {
        law(memcmp(address, &again, sizeof(struct sockaddr_in)) == 0);
    } else {
        struct sockaddr_in6 one, two;

        memcpy(&one, address, sizeof(one)); /* what is printed has no scope */
        memcpy(&two, &again, sizeof(two));
        law(memcmp(&one.sin6_addr, &two.sin6_addr, sizeof(one.sin6_addr)) == 0);
        law(one.sin6_port == two.sin6_port);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = strndup((const char *)data, len);
    struct sockaddr_storage address;
    struct mc_address_parts parts;

    law(text != NULL);
    mc_err_clear();
    if (mc_address_split(text, &parts) != MOONCAKE_OK) {
        law(mooncake_last_error()[0] != '\0');
    } else if (mc_address_numeric(&parts, &address)) {
        check_numeric(&address);
    }
    free(text);
    return 0;
}
