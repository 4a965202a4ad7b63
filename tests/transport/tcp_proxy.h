/*
 * A proxy between a tcp transport and a store, on a thread of its own: counts the connections and
 * the bytes that each brings, and resets one where a test says.
 */
#ifndef MC_TESTS_TRANSPORT_TCP_PROXY_H
#define MC_TESTS_TRANSPORT_TCP_PROXY_H

#include <stdint.h>

#define TCP_PROXY_CONNECTIONS_MAX 32u

struct tcp_proxy;

/* How much a connection may carry: it is reset when so many bytes have come from this end. */
struct tcp_proxy_limit {
    uint64_t from_client, from_store; /* 0: no limit */
};

/* @p limits of the first connections, one by one; the last one's is that of all further ones. */
struct tcp_proxy *tcp_proxy_open(uint16_t store_port, const struct tcp_proxy_limit *limits,
                                 unsigned limits_count);
void tcp_proxy_close(struct tcp_proxy *proxy);
uint16_t tcp_proxy_port(const struct tcp_proxy *proxy);

unsigned tcp_proxy_accepted(const struct tcp_proxy *proxy);
unsigned tcp_proxy_open_most(const struct tcp_proxy *proxy); /* at a time */
/* Bytes that connection @p n has brought from the client and from the store. */
uint64_t tcp_proxy_from_client(const struct tcp_proxy *proxy, unsigned n);
uint64_t tcp_proxy_from_store(const struct tcp_proxy *proxy, unsigned n);

#endif
