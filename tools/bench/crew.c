/* The gate and the tallies lie in memory that all processes share. */
#include "crew.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool.h"
#include "requests.h"
#include "timing.h"

#define GATE_POLL_NS 500000
/* Rarely: waking takes a processor from those who are measured. */
#define WATCH_POLL_NS 20000000
#define PROCESSES_MAX 256
#define THREADS_MAX 256
/* Beyond the calls' own deadlines: for filling and clearing the pool. */
#define GRACE_NS 300000000000u

enum gate { GATE_SHUT, GATE_OPEN, GATE_OFF };

struct shared {
    _Atomic uint32_t ready, failed;
    _Atomic int gate;
    struct mc_tally tallies[];
};

struct crew {
    const struct mc_bench_options *options;
    const struct mc_job *job;
    const void *job_case;
    struct shared *shared;
    uint32_t workers;
    pid_t pids[PROCESSES_MAX];
};

static void pause_ns(long ns)
{
    const struct timespec time = {0, ns};

    (void)nanosleep(&time, NULL);
}

/* ---- one worker -------------------------------------------------------------------------- */

static uint64_t daemons_cpu_ns(const struct mc_bench_options *options)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < options->pids.count; i++) {
        sum += mc_process_cpu_ns((pid_t)options->pids.items[i]);
    }
    return sum;
}

static void work(struct crew *crew, struct mc_worker *worker)
{
    uint64_t daemons_ns, end;

    if (!crew->job->prepare(worker)) {
        (void)atomic_fetch_add(&crew->shared->failed, 1);
        return;
    }
    (void)atomic_fetch_add(&crew->shared->ready, 1);
    while (atomic_load(&crew->shared->gate) == GATE_SHUT) {
        pause_ns(GATE_POLL_NS);
    }
    if (atomic_load(&crew->shared->gate) == GATE_OFF) {
        return;
    }
    daemons_ns = daemons_cpu_ns(crew->options);
    end = mc_now_ns() + crew->options->time_ms * 1000000u;
    while (crew->job->step(worker) && mc_now_ns() < end) {
        continue;
    }
    worker->tally->daemons_cpu_ns = daemons_cpu_ns(crew->options) - daemons_ns;
    mc_tally_finish(worker->tally);
}

struct thread {
    pthread_t id;
    struct crew *crew;
    struct mc_worker worker;
};

static void *thread_main(void *arg)
{
    struct thread *thread = arg;

    work(thread->crew, &thread->worker);
    thread->crew->job->finish(&thread->worker);
    return NULL;
}

static void run_threads(struct crew *crew, uint32_t process, mooncake_client *client)
{
    static struct thread threads[THREADS_MAX];
    uint32_t count = (uint32_t)crew->options->threads;
    uint32_t started = 0;

    for (; started < count; started++) {
        struct thread *t = &threads[started];
        uint32_t index = process * count + started;

        t->crew = crew;
        t->worker.options = crew->options;
        t->worker.job_case = crew->job_case;
        t->worker.client = client;
        t->worker.tally = &crew->shared->tallies[index];
        t->worker.rnd = crew->options->seed + index * 0x9e3779b97f4a7c15u;
        t->worker.index = index;
        t->worker.count = crew->workers;
        if (pthread_create(&t->id, NULL, thread_main, t) != 0) {
            (void)atomic_fetch_add(&crew->shared->failed, count - started);
            break;
        }
    }
    for (uint32_t i = 0; i < started; i++) {
        (void)pthread_join(threads[i].id, NULL);
    }
}

static _Noreturn void process_main(struct crew *crew, uint32_t process)
{
    struct mc_tally *tally = &crew->shared->tallies[process * crew->options->threads];
    mooncake_client *client = NULL;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mc_pool_open(crew->options, &client, tally->sentence, sizeof(tally->sentence))) {
        run_threads(crew, process, client);
        mooncake_client_close(client);
    } else {
        tally->errors++;
        (void)atomic_fetch_add(&crew->shared->failed, (uint32_t)crew->options->threads);
    }
    (void)fflush(NULL);
    _exit(0);
}

/* ---- the crew ---------------------------------------------------------------------------- */

/* Collect processes that have ended. False: one died. */
static bool collect(struct crew *crew, uint32_t *out_left)
{
    uint32_t left = 0;
    bool fine = true;

    for (uint32_t i = 0; i < crew->options->processes; i++) {
        int status = 0;

        if (crew->pids[i] <= 0) {
            continue;
        }
        if (waitpid(crew->pids[i], &status, WNOHANG) == crew->pids[i]) {
            crew->pids[i] = 0;
            fine = fine && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        } else {
            left++;
        }
    }
    *out_left = left;
    return fine;
}

static void kill_all(struct crew *crew)
{
    for (uint32_t i = 0; i < crew->options->processes; i++) {
        if (crew->pids[i] > 0) {
            (void)kill(crew->pids[i], SIGKILL);
            (void)waitpid(crew->pids[i], NULL, 0);
            crew->pids[i] = 0;
        }
    }
}

/* Open the gate when all are ready; wait until all have ended. */
static bool conduct(struct crew *crew, const char **out_why)
{
    uint64_t limit = mc_now_ns() + GRACE_NS + crew->options->time_ms * 1000000u +
                     4 * crew->options->timeout_ms * 1000000u;
    bool fine = true;
    uint32_t left;

    do {
        uint32_t failed = atomic_load(&crew->shared->failed);

        if (atomic_load(&crew->shared->gate) == GATE_SHUT &&
            failed + atomic_load(&crew->shared->ready) == crew->workers) {
            atomic_store(&crew->shared->gate, failed == 0 ? GATE_OPEN : GATE_OFF);
        }
        pause_ns(atomic_load(&crew->shared->gate) == GATE_SHUT ? GATE_POLL_NS : WATCH_POLL_NS);
        if (!collect(crew, &left)) {
            *out_why = "a worker process died";
            fine = false;
        } else if (mc_now_ns() > limit) {
            *out_why = "a worker did not end";
            fine = false;
        }
    } while (fine && left > 0);
    return fine && atomic_load(&crew->shared->failed) == 0;
}

static bool start(struct crew *crew)
{
    (void)fflush(NULL); /* else each child writes it again */
    for (uint32_t i = 0; i < crew->options->processes; i++) {
        crew->pids[i] = fork();
        if (crew->pids[i] == 0) {
            process_main(crew, i);
        }
        if (crew->pids[i] < 0) {
            return false;
        }
    }
    return true;
}

bool mc_crew_run(const struct mc_bench_options *options, const struct mc_job *job,
                 const void *job_case, struct mc_tally *out_sum)
{
    struct crew crew = {.options = options, .job = job, .job_case = job_case};
    const char *why = "a worker could not start";
    size_t len;
    bool fine;

    memset(out_sum, 0, sizeof(*out_sum));
    crew.workers = (uint32_t)(options->processes * options->threads);
    len = sizeof(*crew.shared) + crew.workers * sizeof(struct mc_tally);
    crew.shared = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (crew.shared == MAP_FAILED) {
        (void)snprintf(out_sum->sentence, sizeof(out_sum->sentence), "memory for the workers: %s",
                       strerror(errno));
        return false;
    }
    fine = start(&crew) && conduct(&crew, &why);
    kill_all(&crew);
    for (uint32_t i = 0; i < crew.workers; i++) {
        mc_tally_merge(out_sum, &crew.shared->tallies[i]);
    }
    if (!fine && out_sum->sentence[0] == '\0') {
        (void)snprintf(out_sum->sentence, sizeof(out_sum->sentence), "%s", why);
    }
    (void)munmap(crew.shared, len);
    return fine;
}
