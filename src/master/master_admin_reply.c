/* Ways to answer an admin request: JSON, text, an error. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "master/master_admin.h"

static int append_json(const char *bytes, size_t len, void *out)
{
    return mc_buf_append(out, bytes, len) == MOONCAKE_OK ? 0 : -1;
}

mooncake_err mc_page_json_append(struct mc_buf *out, json_t *json)
{
    bool done = json != NULL &&
                json_dump_callback(json, append_json, out, JSON_COMPACT | JSON_ENCODE_ANY) == 0;

    json_decref(json);
    return done ? MOONCAKE_OK : MOONCAKE_ENOMEM;
}

void mc_page_json(struct mc_admin_reply *reply, json_t *json)
{
    reply->content_type = "application/json; charset=utf-8";
    if (mc_page_json_append(&reply->body, json) != MOONCAKE_OK ||
        mc_buf_append(&reply->body, "\n", 1) != MOONCAKE_OK) {
        mc_err_clear();
        mc_page_error(reply, MOONCAKE_ENOMEM);
    }
}

void mc_page_text(struct mc_admin_reply *reply, const char *text)
{
    if (mc_buf_append(&reply->body, text, strlen(text)) != MOONCAKE_OK) {
        mc_err_clear();
        mc_page_error(reply, MOONCAKE_ENOMEM);
    }
}

void mc_page_error(struct mc_admin_reply *reply, mooncake_err err)
{
    const char *sentence = mooncake_last_error();

    mc_buf_clear(&reply->body, 0);
    mc_admin_reply_error(reply, err, sentence[0] == '\0' ? mooncake_err_text(err) : sentence);
}

/* ---- keys ----------------------------------------------------------------------------------- */

typedef bool (*escapes)(unsigned char byte);

static bool ends_line(unsigned char byte)
{
    return byte == '\n' || byte == '\r' || byte == '\\';
}

static bool is_not_ascii(unsigned char byte)
{
    return byte >= 0x80 || byte == '\\';
}

static mooncake_err append_escaped(struct mc_buf *out, const char *bytes, size_t len,
                                   escapes wants_escape)
{
    static const char hex[] = "0123456789abcdef";
    size_t i, from = 0;

    for (i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)bytes[i];

        if (wants_escape(byte)) {
            const char escape[4] = {'\\', 'x', hex[byte >> 4], hex[byte & 15u]};

            MC_TRY(mc_buf_append(out, bytes + from, i - from));
            MC_TRY(mc_buf_append(out, escape, sizeof(escape)));
            from = i + 1;
        }
    }
    return mc_buf_append(out, bytes + from, len - from);
}

mooncake_err mc_page_key_line(struct mc_buf *out, const struct mc_key *key)
{
    MC_TRY(append_escaped(out, key->bytes, key->len, ends_line));
    return mc_buf_append(out, "\n", 1);
}

json_t *mc_page_key_json(const char *key)
{
    json_t *json = json_string(key);
    struct mc_buf escaped;

    if (json != NULL) {
        return json;
    }
    mc_buf_init(&escaped);
    if (append_escaped(&escaped, key, strlen(key), is_not_ascii) == MOONCAKE_OK) {
        json = json_stringn((const char *)mc_buf_bytes(&escaped), mc_buf_len(&escaped));
    }
    mc_buf_fini(&escaped);
    return json;
}

/* ---- parameters ----------------------------------------------------------------------------- */

const char *mc_page_param(const struct mc_admin_request *request, struct mc_admin_reply *reply,
                          const char *name, const char *example)
{
    const char *value = mc_admin_param(request, name);

    if (value == NULL || value[0] == '\0') {
        mc_page_error(reply,
                      mc_err_set(MOONCAKE_EINVAL, "%s: is missing; write %s", name, example));
        return NULL;
    }
    return value;
}

bool mc_page_tenant_ok(const struct mc_admin_request *request, struct mc_admin_reply *reply)
{
    const char *tenant = mc_admin_param(request, "tenant_id");

    if (tenant == NULL || tenant[0] == '\0' || strcmp(tenant, "default") == 0) {
        return true;
    }
    mc_page_error(reply, mc_err_set(MOONCAKE_ENOTENANT,
                                    "tenant_id: there are no tenants but \"default\" here"));
    return false;
}

/* ---- lists, in parts ------------------------------------------------------------------------ */

struct list {
    struct mc_core *core;
    const char *name; /* NULL: plain text */
    mc_page_items items;
    uint64_t cursor;
    size_t count;
    bool begun;
};

static mooncake_err begin_list(const struct list *list, struct mc_buf *out)
{
    char text[128];
    int const len = snprintf(text, sizeof(text), "{\"%s\":[", list->name);

    return mc_buf_append(out, text, (size_t)len);
}

static mooncake_err end_list(const struct list *list, struct mc_buf *out)
{
    char text[128];
    int const len = snprintf(text, sizeof(text), "],\"total_%s\":%zu}\n", list->name, list->count);

    return mc_buf_append(out, text, (size_t)len);
}

static mooncake_err next_items(void *state, struct mc_buf *out, bool *more)
{
    struct list *list = state;
    struct mc_arena arena;
    mooncake_err err;

    if (list->name != NULL && !list->begun) {
        MC_TRY(begin_list(list, out));
    }
    list->begun = true;
    mc_arena_init(&arena, 0);
    err = list->items(list->core, &arena, &list->cursor, &list->count, out);
    mc_arena_fini(&arena);
    *more = list->cursor != 0;
    return err == MOONCAKE_OK && !*more && list->name != NULL ? end_list(list, out) : err;
}

void mc_page_list(struct mc_master *master, struct mc_admin_reply *reply, const char *name,
                  mc_page_items items)
{
    struct list *list = mc_calloc(1, sizeof(*list));

    if (list == NULL) {
        mc_page_error(reply, MOONCAKE_ENOMEM);
        return;
    }
    *list = (struct list){.core = master->core, .name = name, .items = items};
    if (name != NULL) {
        reply->content_type = "application/json; charset=utf-8";
    }
    reply->part = next_items;
    reply->part_state = list;
    reply->part_free = mc_free;
}
