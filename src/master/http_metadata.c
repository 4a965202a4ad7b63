/* Keys and values of the HTTP metadata service, bounded in number and in bytes. */
#include "master/http_metadata.h"

#include <string.h>

#include "base/htab.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/mem.h"
#include "io/admin_http.h"

#define KEYS_MAX 100000u                /* a few for each process of the largest cluster */
#define BYTES_MAX ((uint64_t)256 << 20) /* of keys and values together */
#define TIMEOUT_MS 5000u
#define HTTP_INSUFFICIENT_STORAGE 507u

struct entry {
    struct mc_list node; /* in metadata->entries */
    struct mc_buf value;
    size_t key_len;
    char key[]; /* not terminated */
};

struct mc_http_metadata {
    struct mc_admin_http *http;
    struct mc_htab *table;  /* of struct entry, by key */
    struct mc_list entries; /* owned */
    uint64_t bytes;
};

static bool match(const void *element, const void *key, size_t key_len)
{
    const struct entry *entry = element;

    return entry->key_len == key_len && memcmp(entry->key, key, key_len) == 0;
}

static uint64_t rehash(const void *element)
{
    const struct entry *entry = element;

    return mc_htab_hash(entry->key, entry->key_len);
}

static struct entry *find(const struct mc_http_metadata *metadata, const char *key)
{
    size_t len = strlen(key);

    return mc_htab_find(metadata->table, mc_htab_hash(key, len), key, len);
}

static uint64_t entry_bytes(const struct entry *entry)
{
    return entry->key_len + mc_buf_len(&entry->value);
}

static void free_entry(struct mc_http_metadata *metadata, struct entry *entry)
{
    metadata->bytes -= entry_bytes(entry);
    mc_list_drop(&entry->node);
    mc_buf_fini(&entry->value);
    mc_free(entry);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void reply_text(struct mc_admin_reply *reply, unsigned status, const char *text)
{
    reply->status = status;
    if (mc_buf_append(&reply->body, text, strlen(text)) != MOONCAKE_OK) {
        mc_admin_reply_error(reply, MOONCAKE_ENOMEM, NULL);
    }
}

/* The query's key, or NULL with the answer made. */
static const char *key_of(const struct mc_admin_request *request, struct mc_admin_reply *reply)
{
    const char *key = mc_admin_param(request, "key");

    if (key == NULL || key[0] == '\0' || strnlen(key, MC_KEY_LEN_MAX + 1) > MC_KEY_LEN_MAX) {
        mc_admin_reply_error(reply, MOONCAKE_EBADKEY, "key: write ?key=KEY, of 1 to 4096 bytes");
        return NULL;
    }
    return key;
}

static void get_health(void *arg, const struct mc_admin_request *request,
                       struct mc_admin_reply *reply)
{
    (void)arg;
    (void)request;
    reply_text(reply, 200, "OK");
}

static void get_value(void *arg, const struct mc_admin_request *request,
                      struct mc_admin_reply *reply)
{
    const char *key = key_of(request, reply);
    const struct entry *entry;

    if (key == NULL) {
        return;
    }
    entry = find(arg, key);
    if (entry == NULL) {
        reply_text(reply, 404, "metadata not found");
        return;
    }
    reply->content_type = "application/json";
    if (mc_buf_append(&reply->body, mc_buf_bytes(&entry->value), mc_buf_len(&entry->value)) !=
        MOONCAKE_OK) {
        mc_admin_reply_error(reply, MOONCAKE_ENOMEM, NULL);
    }
}

/* The entry of @p key, made if it is not there. ENOSPACE: there are too many; ENOMEM. */
static mooncake_err entry_for(struct mc_http_metadata *metadata, const char *key,
                              struct entry **out)
{
    size_t len = strlen(key);
    struct entry *entry = find(metadata, key);
    mooncake_err err;

    if (entry != NULL) {
        *out = entry;
        return MOONCAKE_OK;
    }
    if (mc_htab_count(metadata->table) >= KEYS_MAX) {
        return MOONCAKE_ENOSPACE;
    }
    entry = mc_calloc(1, sizeof(*entry) + len);
    if (entry == NULL) {
        return MOONCAKE_ENOMEM;
    }
    entry->key_len = len;
    memcpy(entry->key, key, len);
    mc_buf_init(&entry->value);
    err = mc_htab_add(metadata->table, mc_htab_hash(key, len), entry);
    if (err != MOONCAKE_OK) {
        mc_free(entry);
        return err;
    }
    mc_list_add_tail(&metadata->entries, &entry->node);
    metadata->bytes += len;
    *out = entry;
    return MOONCAKE_OK;
}

static void put_value(void *arg, const struct mc_admin_request *request,
                      struct mc_admin_reply *reply)
{
    struct mc_http_metadata *metadata = arg;
    const struct mc_buf *body = mc_admin_body(request);
    const char *key = key_of(request, reply);
    struct entry *entry;
    struct mc_buf fresh;
    mooncake_err err;

    if (key == NULL) {
        return;
    }
    if (metadata->bytes + strlen(key) + mc_buf_len(body) > BYTES_MAX) {
        reply_text(reply, HTTP_INSUFFICIENT_STORAGE, "the metadata service is full");
        return;
    }
    mc_buf_init(&fresh);
    err = mc_buf_append(&fresh, mc_buf_bytes(body), mc_buf_len(body));
    if (err == MOONCAKE_OK) {
        err = entry_for(metadata, key, &entry);
    }
    if (err != MOONCAKE_OK) {
        mc_buf_fini(&fresh);
        reply_text(reply, HTTP_INSUFFICIENT_STORAGE, "the metadata service is full");
        return;
    }
    metadata->bytes += mc_buf_len(&fresh);
    metadata->bytes -= mc_buf_len(&entry->value);
    mc_buf_fini(&entry->value);
    entry->value = fresh;
    reply_text(reply, 200, "metadata updated");
}

static void delete_value(void *arg, const struct mc_admin_request *request,
                         struct mc_admin_reply *reply)
{
    struct mc_http_metadata *metadata = arg;
    const char *key = key_of(request, reply);
    struct entry *entry;

    if (key == NULL) {
        return;
    }
    entry = find(metadata, key);
    if (entry == NULL) {
        reply_text(reply, 404, "metadata not found");
        return;
    }
    mc_htab_drop(metadata->table, rehash(entry), entry);
    free_entry(metadata, entry);
    reply_text(reply, 200, "metadata deleted");
}

static const struct mc_admin_route routes[] = {
    {.method = "GET", .path = "/health", .help = "Is the service alive?", .handle = get_health},
    {.method = "GET", .path = "/metadata", .help = "The value of ?key=KEY", .handle = get_value},
    {.method = "PUT",
     .path = "/metadata",
     .help = "Store the body under ?key=KEY",
     .handle = put_value},
    {.method = "DELETE", .path = "/metadata", .help = "Forget ?key=KEY", .handle = delete_value},
};

/* ---- life ---------------------------------------------------------------------------------- */

mooncake_err mc_http_metadata_open(struct mc_loop *loop, const char *host, uint16_t port,
                                   struct mc_http_metadata **out)
{
    struct mc_http_metadata *metadata = mc_calloc(1, sizeof(*metadata));
    mooncake_err err;

    if (metadata == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_list_init(&metadata->entries);
    err = mc_htab_create(0, match, rehash, &metadata->table);
    if (err != MOONCAKE_OK) {
        goto free_metadata;
    }
    err = mc_admin_http_open(loop, host, port, routes, MC_ARRAY_LEN(routes), metadata, TIMEOUT_MS,
                             &metadata->http);
    if (err != MOONCAKE_OK) {
        goto destroy_table;
    }
    *out = metadata;
    return MOONCAKE_OK;

destroy_table:
    mc_htab_destroy(&metadata->table);
free_metadata:
    mc_free(metadata);
    return err;
}

uint16_t mc_http_metadata_port(const struct mc_http_metadata *metadata)
{
    return mc_admin_http_port(metadata->http);
}

void mc_http_metadata_close(struct mc_http_metadata **metadata_ptr)
{
    struct mc_http_metadata *metadata = *metadata_ptr;

    if (metadata == NULL) {
        return;
    }
    mc_admin_http_close(&metadata->http); /* first: its handlers read what follows */
    mc_htab_destroy(&metadata->table);
    while (!mc_list_empty(&metadata->entries)) {
        free_entry(metadata, mc_list_first(&metadata->entries, struct entry, node));
    }
    mc_free(metadata);
    *metadata_ptr = NULL;
}
