/*
 * Requests in and answers out: decode, encode, count. See master_front.h.
 */
#include "master/master_front.h"

#include <string.h>

#include "base/log.h"
#include "io/spent.h"
#include "master/master_impl.h"

/* A request that the core does for a front. In its request's arena. */
struct job {
    struct mc_rpc_task task;
    union mc_master_message message, reply;
    mooncake_err err;     /* not OK: there is no reply, but */
    const char *sentence; /* this one, to go along; NULL: there was no memory for it */
};

/* ---- replies: on the thread of the request's connection -------------------------------------- */

static void send_error(struct mc_master_front *front, struct mc_rpc_request *request,
                       mooncake_err err)
{
    if (mc_method_codec(request->method) != NULL) {
        mc_master_tally(&front->metrics, request,
                        (struct mc_master_outcome){.err = err, .items = 1, .failed_items = 1});
        mc_log_debug("rpc.refused", "method=%s err=%s why=\"%s\"", mc_method_name(request->method),
                     mooncake_err_name(err), mooncake_last_error());
    }
    mc_rpc_reply(request, err, NULL, 0);
}

static void send_message(struct mc_master_front *front, struct mc_rpc_request *request,
                         const union mc_master_message *reply)
{
    enum mc_spent_kind was = mc_spend(request->spent, MC_SPENT_CODEC);
    struct mc_spent *spent = request->spent;
    const struct mc_method_codec *codec = mc_method_codec(request->method);
    struct mc_buf *out = mc_rpc_request_reply_buf(request);
    mooncake_err err = codec->encode_reply(reply, out);

    (void)mc_spend(spent, MC_SPENT_FRAMES);
    if (err != MOONCAKE_OK) {
        mc_log_error("rpc.encode", "method=%s err=%s why=\"%s\"", codec->name,
                     mooncake_err_name(err), mooncake_last_error());
        send_error(front, request, err);
    } else {
        mc_master_tally(&front->metrics, request,
                        mc_master_outcome((enum mc_method)codec->method, reply));
        mc_rpc_reply(request, MOONCAKE_OK, mc_buf_bytes(out), mc_buf_len(out));
    }
    (void)mc_spend(spent, was);
}

void mc_master_answer(struct mc_master *master, struct mc_rpc_request *request,
                      const union mc_master_message *reply)
{
    struct job *job = request->data;

    if (job == NULL) {
        send_message(&master->front, request, reply);
        return;
    }
    job->reply = *reply;
    job->err = MOONCAKE_OK;
    mc_rpc_task_done(&job->task);
}

/* Keep the thread's sentence for another thread. */
static void keep_sentence(struct job *job, mooncake_err err)
{
    const char *sentence = mooncake_last_error();
    size_t const len = strlen(sentence);
    char *copy = mc_arena_alloc(job->task.request->arena, len + 1);

    if (copy != NULL) {
        memcpy(copy, sentence, len + 1);
    }
    job->err = err;
    job->sentence = copy;
}

void mc_master_refuse(struct mc_master *master, struct mc_rpc_request *request, mooncake_err err)
{
    struct job *job = request->data;

    if (job == NULL) {
        send_error(&master->front, request, err);
        return;
    }
    keep_sentence(job, err);
    mc_rpc_task_done(&job->task);
}

/* ---- requests: on the thread of their connection --------------------------------------------- */

static mooncake_err decode(struct mc_master_front *front, struct mc_rpc_request *request,
                           union mc_master_message *message)
{
    const struct mc_method_codec *codec = mc_method_codec(request->method);
    enum mc_spent_kind was;
    mooncake_err err;

    if (codec == NULL) {
        mc_counter_add_owner(&front->metrics.unknown_methods, 1);
        return mc_err_set(MOONCAKE_ENOTSUP, MC_MASTER_PROGRAM " does not know method %u",
                          (unsigned)request->method);
    }
    was = mc_spend(request->spent, MC_SPENT_CODEC);
    err = codec->decode_request(request->body, request->body_len, request->arena, message);
    (void)mc_spend(request->spent, was);
    if (err != MOONCAKE_OK) {
        mc_counter_add_owner(&front->metrics.undecodable, 1);
    }
    return err;
}

/* Without threads: all of it here. */
static void handle_here(void *arg, struct mc_rpc_request *request)
{
    struct mc_master_front *front = arg;
    union mc_master_message message;
    mooncake_err err = decode(front, request, &message);

    if (err == MOONCAKE_OK) {
        mc_master_do(front->master, request, &message);
    } else {
        send_error(front, request, err);
    }
}

/* Errors take the way through the core too, so that answers keep the order of the requests. */
static void handle_away(void *arg, struct mc_rpc_request *request)
{
    struct mc_master_front *front = arg;
    struct job *job = mc_arena_alloc(request->arena, sizeof(*job));
    mooncake_err err;

    if (job == NULL) {
        send_error(front, request, MOONCAKE_ENOMEM);
        return;
    }
    request->data = job;
    job->err = MOONCAKE_OK;
    job->task.request = request;
    err = decode(front, request, &job->message);
    if (err != MOONCAKE_OK) {
        keep_sentence(job, err);
    }
    mc_rpc_task_give(&job->task, request);
}

/* On the core. */
static void run(void *arg, struct mc_rpc_task *task)
{
    struct job *job = MC_CONTAINER_OF(task, struct job, task);

    if (job->err != MOONCAKE_OK) {
        mc_rpc_task_done(task);
        return;
    }
    mc_master_do(arg, task->request, &job->message);
}

static void finish(void *arg, struct mc_rpc_task *task)
{
    struct mc_master_front *front = arg;
    struct job *job = MC_CONTAINER_OF(task, struct job, task);
    struct mc_spent *spent = task->request->spent;
    enum mc_spent_kind was = mc_spend(spent, MC_SPENT_FRAMES);

    if (job->err == MOONCAKE_OK) {
        send_message(front, task->request, &job->reply);
    } else {
        if (job->sentence != NULL && job->sentence[0] != '\0') {
            (void)mc_err_set(job->err, "%s", job->sentence);
        }
        send_error(front, task->request, job->err);
    }
    (void)mc_spend(spent, was);
}

const struct mc_rpc_server_ops mc_master_rpc_ops = {
    .hello_method = MC_METHOD_HELLO,
    .on_hello = mc_master_on_hello,
    .handle = handle_here,
};

/* ---- threads --------------------------------------------------------------------------------- */

mooncake_err mc_master_fronts_open(struct mc_master *master, const char *address, unsigned count,
                                   uint32_t poll_us)
{
    static const struct mc_rpc_server_ops server_ops = {
        .hello_method = MC_METHOD_HELLO,
        .on_hello = mc_master_on_hello,
        .handle = handle_away,
    };
    static const struct mc_rpc_fronts_ops ops = {
        .server = &server_ops, .run = run, .finish = finish};
    void *front_arg[MC_IO_THREADS_MAX];
    struct mc_rpc_fronts_options options = {
        .address = address,
        .count = count,
        .poll_us = poll_us,
        .spent_turns = MC_MASTER_SPENT_TURNS,
        .arg = master,
        .front_arg = front_arg,
    };
    mooncake_err err;

    master->away = mc_calloc(count, sizeof(*master->away));
    if (master->away == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (unsigned i = 0; i < count; i++) {
        mc_master_front_init(&master->away[i], master);
        front_arg[i] = &master->away[i];
    }
    err = mc_rpc_fronts_open(master->loop, &options, &ops, &master->fronts);
    if (err != MOONCAKE_OK) {
        mc_free(master->away);
        master->away = NULL;
    }
    return err;
}

void mc_master_front_init(struct mc_master_front *front, struct mc_master *master)
{
    front->master = master;
    mc_master_rpc_metrics_init(&front->metrics);
}
