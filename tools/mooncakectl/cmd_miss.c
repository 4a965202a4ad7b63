/* why-miss: what became of a key. */
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

struct asked {
    const struct mc_ctl *ctl;
    bool readable;
};

static void print_miss_json(const char *key, const mooncake_miss *m)
{
    json_t *object = mc_json_object();

    mc_json_set(object, "key", mc_json_text(key));
    mc_json_set(object, "fate", json_string(m->fate));
    mc_json_set(object, "store", mc_json_text(m->store));
    mc_json_set(object, "ago_ms", mc_json_number(m->ago_ms));
    mc_json_set(object, "age_ms", mc_json_number(m->age_ms));
    mc_json_set(object, "idle_ms", mc_json_number(m->idle_ms));
    mc_json_set(object, "owner_client_id", mc_json_id(m->owner_client_id));
    mc_json_set(object, "master_uptime_ms", mc_json_number(m->uptime_ms));
    mc_json_set(object, "history_ms", mc_json_number(m->reach_ms));
    mc_json_set(object, "history_entries", mc_json_number(m->entries));
    mc_json_print(object);
}

/* Nothing is known: the reasons that are left depend on how much is remembered. */
static void print_unknown(const mooncake_miss *m)
{
    char text[2][MC_NUMBER_CAP];

    if (m->entries == 0) {
        (void)printf("not there, and the master remembers nothing of keys that went: its option "
                     "miss_history is 0\n");
        return;
    }
    /* The history begins with the master; where it does not reach back so far it has come round. */
    if (m->reach_ms + 1000 >= m->uptime_ms) {
        (void)printf("never written since the master started %s ago; nothing older is known\n",
                     mc_format_duration(m->uptime_ms, text[0]));
        return;
    }
    (void)printf("nothing is known: never written, or gone more than %s ago. The master remembers "
                 "the last\n%s keys that went (option miss_history)\n",
                 mc_format_duration(m->reach_ms, text[0]), mc_format_count(m->entries, text[1]));
}

static void print_fate(const mooncake_miss *m)
{
    static const struct {
        const char *fate, *text;
    } fates[] = {
        {"evicted", "evicted to make room"},
        {"removed", "removed on request"},
        {"lost", "lost with its store"},
        {"damaged", "dropped: a reader found its last copy damaged"},
        {"abandoned", "its put failed or was given up before it could be read"},
    };
    char text[3][MC_NUMBER_CAP];
    const char *what = m->fate;

    for (size_t i = 0; i < sizeof(fates) / sizeof(fates[0]); i++) {
        what = strcmp(fates[i].fate, m->fate) == 0 ? fates[i].text : what;
    }
    (void)fputs(what, stdout);
    if (m->store[0] != '\0') {
        (void)fputs(" (segment ", stdout);
        mc_print_text(stdout, m->store);
        (void)fputs(")", stdout);
    }
    (void)printf(", %s ago; it was %s old then", mc_format_duration(m->ago_ms, text[0]),
                 mc_format_duration(m->age_ms, text[1]));
    if (strcmp(m->fate, "abandoned") != 0) {
        (void)printf(", and unread for %s", mc_format_duration(m->idle_ms, text[2]));
    }
    (void)fputc('\n', stdout);
}

static void print_miss(void *arg, const mooncake_miss *m)
{
    struct asked *asked = arg;
    char text[2][MC_NUMBER_CAP];

    asked->readable = strcmp(m->fate, "readable") == 0;
    if (asked->ctl->json) {
        print_miss_json(asked->ctl->words[0], m);
    } else if (asked->readable) {
        (void)printf("no miss: it can be read, and could for %s\n",
                     mc_format_duration(m->age_ms, text[0]));
    } else if (strcmp(m->fate, "writing") == 0) {
        (void)printf("being written for %s by client %s: it can be read when that put has ended\n",
                     mc_format_duration(m->age_ms, text[0]),
                     mc_format_id(m->owner_client_id, text[1]));
    } else if (strcmp(m->fate, "unknown") == 0) {
        print_unknown(m);
    } else {
        print_fate(m);
    }
}

enum mc_exit mc_cmd_why_miss(struct mc_ctl *ctl)
{
    struct asked asked = {.ctl = ctl};
    mooncake_err err =
        mooncake_admin_why_miss(ctl->client, ctl->words[0], ctl->timeout_ms, print_miss, &asked);

    if (err != MOONCAKE_OK) {
        return mc_fail(ctl, err, "cannot ask why \"%.80s\" is a miss", ctl->words[0]);
    }
    return asked.readable ? MC_EXIT_OK : MC_EXIT_NO;
}
