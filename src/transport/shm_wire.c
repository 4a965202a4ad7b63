/* Address and messages of same-host sharing. */
#include "transport/shm_wire.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"

#define SCHEME "shm://"
#define SCHEME_LEN (sizeof(SCHEME) - 1)

static char boot_id[MC_SHM_BOOT_ID_LEN + 1]; /* "" if the kernel does not tell */
static pthread_once_t boot_id_once = PTHREAD_ONCE_INIT;

static void read_boot_id(void)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0) {
        return;
    }
    n = read(fd, boot_id, MC_SHM_BOOT_ID_LEN);
    (void)close(fd);
    if (n != (ssize_t)MC_SHM_BOOT_ID_LEN) {
        boot_id[0] = '\0';
    }
}

static const char *this_boot(void)
{
    (void)pthread_once(&boot_id_once, read_boot_id);
    return boot_id;
}

void mc_shm_request_encode(const struct mc_shm_request *request, uint8_t out[MC_SHM_MESSAGE_LEN])
{
    mc_store_u32(out, MC_SHM_MAGIC);
    mc_store_u16(out + 4, MC_SHM_VERSION);
    mc_store_u16(out + 6, 0);
    mc_store_u64(out + 8, request->mount_id);
}

mooncake_err mc_shm_request_decode(const uint8_t *bytes, size_t len, struct mc_shm_request *out)
{
    if (len != MC_SHM_MESSAGE_LEN || mc_load_u32(bytes) != MC_SHM_MAGIC ||
        mc_load_u16(bytes + 4) != MC_SHM_VERSION || mc_load_u16(bytes + 6) != 0) {
        return MOONCAKE_ERPC;
    }
    out->mount_id = mc_load_u64(bytes + 8);
    return MOONCAKE_OK;
}

void mc_shm_reply_encode(const struct mc_shm_reply *reply, uint8_t out[MC_SHM_MESSAGE_LEN])
{
    mc_store_u32(out, MC_SHM_MAGIC);
    mc_store_u32(out + 4, (uint32_t)reply->status);
    mc_store_u64(out + 8, reply->len);
}

mooncake_err mc_shm_reply_decode(const uint8_t *bytes, size_t len, struct mc_shm_reply *out)
{
    if (len != MC_SHM_MESSAGE_LEN || mc_load_u32(bytes) != MC_SHM_MAGIC) {
        return MOONCAKE_ERPC;
    }
    out->status = (int32_t)mc_load_u32(bytes + 4);
    out->len = mc_load_u64(bytes + 8);
    return MOONCAKE_OK;
}

mooncake_err mc_shm_address_format(const char *path, char out[MC_SHM_ADDRESS_LEN_MAX])
{
    const struct sockaddr_un *const un = NULL;

    if (path[0] != '/' || strchr(path, ' ') != NULL || strlen(path) >= sizeof(un->sun_path)) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "shm_dir: a socket cannot be at %s: the path must be absolute, without "
                          "spaces and shorter than %zu bytes",
                          path, sizeof(un->sun_path));
    }
    if (this_boot()[0] == '\0') {
        return mc_err_set(MOONCAKE_EINTERNAL,
                          "cannot read /proc/sys/kernel/random/boot_id: sharing memory on this "
                          "host needs it");
    }
    (void)snprintf(out, MC_SHM_ADDRESS_LEN_MAX, SCHEME "%s%s", this_boot(), path);
    return MOONCAKE_OK;
}

bool mc_shm_address_find(const char *addresses, struct sockaddr_un *out)
{
    for (const char *at = addresses; *at != '\0';) {
        size_t len = strcspn(at, " ");
        size_t prefix_len = SCHEME_LEN + MC_SHM_BOOT_ID_LEN;

        if (len > prefix_len && memcmp(at, SCHEME, SCHEME_LEN) == 0 &&
            len - prefix_len < sizeof(out->sun_path) && this_boot()[0] != '\0' &&
            memcmp(at + SCHEME_LEN, this_boot(), MC_SHM_BOOT_ID_LEN) == 0) {
            memset(out, 0, sizeof(*out));
            out->sun_family = AF_UNIX;
            memcpy(out->sun_path, at + prefix_len, len - prefix_len);
            return true;
        }
        at += len;
        at += strspn(at, " ");
    }
    return false;
}
