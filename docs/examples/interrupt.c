/*
 * End a call early, when something asks for it: a signal handler's flag, say. Here the master is a
 * port that never answers, and the flag is set already.
 *
 * Shows: mooncake_set_interrupt mooncake_err_text
 *
 * Prints:
 *     interrupted by the caller
 */
#include <arpa/inet.h>
#include <mooncake/client.h>
#include <stdio.h>
#include <sys/socket.h>

static bool should_stop(void *arg)
{
    const bool *stop = arg;

    return *stop;
}

int main(void)
{
    struct sockaddr_in mute = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(mute);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    mooncake_client_options options;
    mooncake_client *client = NULL;
    char address[32];
    bool stop = true;
    mooncake_err err;

    if (bind(fd, (struct sockaddr *)&mute, len) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, (struct sockaddr *)&mute, &len) != 0) {
        perror("socket");
        return 1;
    }
    snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)ntohs(mute.sin_port));
    mooncake_client_options_init(&options);
    options.master = address;
    options.connect_timeout_ms = 20000;
    mooncake_set_interrupt(should_stop, &stop); /* of this thread's calls, until set again */
    err = mooncake_client_open(&options, &client);
    mooncake_set_interrupt(NULL, NULL);
    puts(mooncake_err_text(err));
    mooncake_client_close(client);
    return err == MOONCAKE_ECANCELED ? 0 : 1;
}
