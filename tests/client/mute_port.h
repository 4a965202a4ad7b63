/* A port that takes connections and bytes and never says a word, as a store that is stopped. */
#ifndef MC_TESTS_CLIENT_MUTE_PORT_H
#define MC_TESTS_CLIENT_MUTE_PORT_H

struct mute_port {
    int fd;
    char address[40]; /* "tcp://127.0.0.1:PORT" */
};

void mute_port_open(struct mute_port *port);
void mute_port_close(struct mute_port *port);

#endif
