/*
 * Same-host sharing: the two messages of the handshake and the list of addresses in which a client
 * looks for a socket. The first byte chooses. In a list, 0x01 stands for this machine's boot id,
 * which no fuzzer guesses. Laws: what decodes encodes to the same bytes; what is refused leaves the
 * result untouched; a socket's name is found exactly if an address of this machine is in the list.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/limits.h"
#include "transport/shm_wire.h"

#include "law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_request(const uint8_t *bytes, size_t len)
{
    struct mc_shm_request request = {.mount_id = 77};
    uint8_t again[MC_SHM_MESSAGE_LEN];

    if (mc_shm_request_decode(bytes, len, &request) != MOONCAKE_OK) {
        law(request.mount_id == 77);
        return;
    }
    law(len == sizeof(again));
    mc_shm_request_encode(&request, again);
    law(memcmp(again, bytes, len) == 0);
}

static void check_reply(const uint8_t *bytes, size_t len)
{
    struct mc_shm_reply reply = {.status = 77, .len = 78};
    uint8_t again[MC_SHM_MESSAGE_LEN];

    if (mc_shm_reply_decode(bytes, len, &reply) != MOONCAKE_OK) {
        law(reply.status == 77 && reply.len == 78);
        return;
    }
    law(len == sizeof(again));
    mc_shm_reply_encode(&reply, again);
    law(memcmp(again, bytes, len) == 0);
}

/* "shm://<boot id>" of this machine. */
static const char *prefix(void)
{
    static char text[MC_SHM_ADDRESS_LEN_MAX];

    if (text[0] == '\0') {
        law(mc_shm_address_format("/", text) == MOONCAKE_OK);
        text[strlen(text) - 1] = '\0';
    }
    return text;
}

/* The list with each 0x01 made to this machine's boot id. Freed by the caller. */
static char *expand(const uint8_t *bytes, size_t len)
{
    const char *boot_id = prefix() + sizeof("shm://") - 1;
    char *list = malloc(len * MC_SHM_BOOT_ID_LEN + 1);
    char *exact;
    size_t at = 0;

    law(list != NULL && strlen(boot_id) == MC_SHM_BOOT_ID_LEN);
    for (size_t i = 0; i < len && bytes[i] != '\0'; i++) {
        if (bytes[i] == 1) {
            memcpy(list + at, boot_id, MC_SHM_BOOT_ID_LEN);
            at += MC_SHM_BOOT_ID_LEN;
        } else {
            list[at++] = (char)bytes[i];
        }
    }
    list[at] = '\0';
    exact = strdup(list); /* of exactly its length, for the sanitizer */
    law(exact != NULL);
    free(list);
    return exact;
}

/* The same question, asked word by word. */
static bool find_slowly(const char *list, struct sockaddr_un *out)
{
    char *words = strdup(list);
    char *rest = words;
    bool found = false;
    const char *word;

    law(words != NULL);
    while (!found && (word = strsep(&rest, " ")) != NULL) {
        if (strncmp(word, prefix(), strlen(prefix())) == 0) {
            const char *path = word + strlen(prefix());

            found = path[0] != '\0' && strlen(path) < sizeof(out->sun_path);
            if (found) {
                *out = (struct sockaddr_un){.sun_family = AF_UNIX};
                memcpy(out->sun_path, path, strlen(path));
            }
        }
    }
    free(words);
    return found;
}

static void check_list(const uint8_t *bytes, size_t len)
{
    char *list = expand(bytes, len);
    struct sockaddr_un wanted = {.sun_family = 77};
    struct sockaddr_un got = {.sun_family = 77};
    bool found = mc_shm_address_find(list, &got);

    law(found == find_slowly(list, &wanted));
    law(memcmp(&got, &wanted, sizeof(got)) == 0);
    free(list);
}

static void check_path(const uint8_t *bytes, size_t len)
{
    char *path = strndup((const char *)bytes, len);
    char address[MC_SHM_ADDRESS_LEN_MAX] = "untouched";
    struct sockaddr_un got;

    law(path != NULL);
    if (mc_shm_address_format(path, address) != MOONCAKE_OK) {
        law(strcmp(address, "untouched") == 0 && mooncake_last_error()[0] != '\0');
    } else {
        law(mc_shm_address_find(address, &got) && strcmp(got.sun_path, path) == 0);
    }
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void (*const checks[])(const uint8_t *bytes, size_t len) = {check_request, check_reply,
                                                                       check_list, check_path};

    law_choose(data, len, checks, sizeof(checks) / sizeof(checks[0]));
    return 0;
}
