/* A rival's server: started in a directory of its own, on a port that was free a moment ago. */
#include "rival.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rival_impl.h"
#include "timing.h"

#define START_NS 10000000000u
#define LOOK_AGAIN_MS 5
#define SOCKET_TIMEOUT_S 20
#define NOT_FOUND 127

const char *const mc_rival_names[MC_RIVALS_COUNT] = {
#define NAME(name, program, way) way,
    MC_RIVAL_LIST(NAME)
#undef NAME
};

static const char *const programs[MC_RIVALS_COUNT] = {
#define PROGRAM(name, program, way) program,
    MC_RIVAL_LIST(PROGRAM)
#undef PROGRAM
};

static bool fail(char *why, size_t why_len, const char *what)
{
    (void)snprintf(why, why_len, "%s: %s", what, strerror(errno));
    return false;
}

/* A port that the kernel gives, and nobody else while *out_fd is open. The server may listen there
 * all the same, because both sockets allow it. 0: there is none. */
static uint16_t hold_port(int *out_fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    const int yes = 1;

    *out_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (*out_fd < 0 || setsockopt(*out_fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        bind(*out_fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        getsockname(*out_fd, (struct sockaddr *)&address, &len) != 0) {
        return 0;
    }
    return ntohs(address.sin_port);
}

struct command {
    char port[8], path[96], memory[24], memory_mib[24];
};

static void exec_redis(const struct command *c)
{
    (void)execlp("redis-server", "redis-server", "--port", c->port, "--bind", "127.0.0.1",
                 "--unixsocket", c->path, "--save", "", "--appendonly", "no", "--maxmemory",
                 c->memory, (char *)NULL);
}

/* Memcached listens on one kind of socket only. */
static void exec_memcached(const struct command *c, bool unix_socket)
{
    const char *user = getuid() == 0 ? "root" : "";

    if (unix_socket) {
        (void)execlp("memcached", "memcached", "-s", c->path, "-m", c->memory_mib, "-I", "128m",
                     "-u", user, (char *)NULL);
    } else {
        (void)execlp("memcached", "memcached", "-l", "127.0.0.1", "-p", c->port, "-U", "0", "-m",
                     c->memory_mib, "-I", "128m", "-u", user, (char *)NULL);
    }
}

/* In the child: silent, and gone with us. */
static void become_server(enum mc_rival_kind kind, const char *dir, const struct command *command)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
        (void)dup2(null, STDERR_FILENO);
    }
    if (chdir(dir) == 0) {
        if (strcmp(programs[kind], "redis-server") == 0) {
            exec_redis(command);
        } else {
            exec_memcached(command, mc_rival_is_unix(kind));
        }
    }
    _exit(errno == ENOENT ? NOT_FOUND : 1);
}

static int try_connect(enum mc_rival_kind kind, const struct command *command)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = SOCKET_TIMEOUT_S};
    const int on = 1;
    bool local = mc_rival_is_unix(kind);
    int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int status;

    if (fd < 0) {
        return -1;
    }
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons((uint16_t)strtoul(command->port, NULL, 10));
    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", command->path);
    status = local ? connect(fd, (const struct sockaddr *)&un, sizeof(un))
                   : connect(fd, (const struct sockaddr *)&in, sizeof(in));
    if (status != 0) {
        (void)close(fd);
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (!local) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    return fd;
}

static bool await_server(struct mc_rival *rival, const struct command *command, bool *out_missing,
                         char *why, size_t why_len)
{
    uint64_t deadline = mc_now_ns() + START_NS;

    for (;;) {
        struct pollfd nothing = {.fd = -1};
        int status;

        rival->fd = try_connect(rival->kind, command);
        if (rival->fd >= 0) {
            return true;
        }
        if (waitpid(rival->pid, &status, WNOHANG) == rival->pid) {
            rival->pid = 0;
            *out_missing = WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND;
            (void)snprintf(why, why_len, *out_missing ? "%s is not installed" : "%s did not start",
                           programs[rival->kind]);
            return false;
        }
        if (mc_now_ns() > deadline) {
            (void)snprintf(why, why_len, "%s does not answer", programs[rival->kind]);
            return false;
        }
        (void)poll(&nothing, 1, LOOK_AGAIN_MS);
    }
}

bool mc_rival_start(enum mc_rival_kind kind, uint64_t memory, struct mc_rival *out,
                    bool *out_missing, char *why, size_t why_len)
{
    struct mc_rival rival = {
        .kind = kind, .fd = -1, .port_fd = -1, .dir = "/tmp/mooncake-bench-XXXXXX"};
    struct command command;

    *out_missing = false;
    rival.buffer = malloc(MC_RIVAL_BUFFER_LEN);
    if (rival.buffer == NULL || mkdtemp(rival.dir) == NULL) {
        free(rival.buffer);
        return fail(why, why_len, "a directory for the server's socket");
    }
    (void)snprintf(command.port, sizeof(command.port), "%u", (unsigned)hold_port(&rival.port_fd));
    (void)snprintf(command.path, sizeof(command.path), "%s/s", rival.dir);
    (void)snprintf(command.memory, sizeof(command.memory), "%llu", (unsigned long long)memory);
    (void)snprintf(command.memory_mib, sizeof(command.memory_mib), "%llu",
                   (unsigned long long)(memory >> 20));
    (void)fflush(NULL); /* what is buffered must not be written twice */
    rival.pid = fork();
    if (rival.pid == 0) {
        become_server(kind, rival.dir, &command);
    }
    if (rival.pid < 0) {
        rival.pid = 0;
        (void)fail(why, why_len, "fork");
        mc_rival_stop(&rival);
        return false;
    }
    if (!await_server(&rival, &command, out_missing, why, why_len)) {
        mc_rival_stop(&rival);
        return false;
    }
    *out = rival;
    return true;
}

void mc_rival_stop(struct mc_rival *rival)
{
    char path[96];

    if (rival->fd >= 0) {
        (void)close(rival->fd);
    }
    if (rival->port_fd >= 0) {
        (void)close(rival->port_fd);
    }
    if (rival->pid > 0) {
        (void)kill(rival->pid, SIGKILL);
        (void)waitpid(rival->pid, NULL, 0);
    }
    (void)snprintf(path, sizeof(path), "%s/s", rival->dir);
    (void)unlink(path);
    (void)rmdir(rival->dir);
    free(rival->buffer);
    *rival = (struct mc_rival){.fd = -1, .port_fd = -1};
}
