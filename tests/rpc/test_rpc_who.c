/* A client at a port where somebody else than a master listens, and says nothing to Hello. */
#include "rpc/rpc_fixture.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_somewhere(char *out_address, size_t cap)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(out_address, cap, "127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

/* Take a connection, read what it begins with, answer, and close. */
static void answer(struct fixture *f, int listen_fd, const char *begins, const char *say)
{
    char said[64];
    ssize_t got = 0;
    int fd;

    RUN_UNTIL(f, (fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    RUN_UNTIL(f, (got = recv(fd, said, sizeof(said), 0)) > 0);
    assert_true((size_t)got >= strlen(begins));
    assert_memory_equal(said, begins, strlen(begins));
    raw_send(fd, say, strlen(say));
    (void)close(fd);
}

static void expect_said(struct fixture *f, struct call *call, const char *words)
{
    run_until(f, &call->done);
    assert_int_equal(call->err, MOONCAKE_ERPC);
    if (strstr(call->sentence, words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, call->sentence);
    }
    assert_false(call->rpc.maybe_executed);
}

static int open_at_listener(struct fixture *f, struct call *call)
{
    char address[64];
    int fd = listen_somewhere(address, sizeof(address));

    fixture_init(f);
    mc_rpc_client_destroy(&f->client);
    fixture_open_client(f, address);
    call_init(call, 10000);
    call_start(f, call, FIXTURE_ECHO, "abc", 3);
    return fd;
}

static void who__admin_port_that_only_closes_is_named_and_asked_once(void **state)
{
    struct fixture f;
    struct call call;
    int fd = open_at_listener(&f, &call);

    (void)state;
    answer(&f, fd, "MCK1", "");
    answer(&f, fd, "GET / HTTP/1.0\r\n", "HTTP/1.1 200 OK\r\n\r\nGET /live  x");
    expect_said(&f, &call, "the admin HTTP port of a master or store");
    assert_non_null(strstr(call.sentence, "rpc_port"));

    call_init(&call, 10000);
    call_start(&f, &call, FIXTURE_ECHO, "abc", 3);
    answer(&f, fd, "MCK1", "");
    expect_said(&f, &call, "the admin HTTP port of a master or store");
    assert_int_equal(accept(fd, NULL, NULL), -1);
    (void)close(fd);
    fixture_fini(&f);
}

/* One connection for each answer, in the order of the questions. */
static void expect_named(const char *to_hello, const char *to_http, const char *to_data,
                         const char *words)
{
    struct fixture f;
    struct call call;
    int fd = open_at_listener(&f, &call);

    answer(&f, fd, "MCK1", to_hello);
    answer(&f, fd, "GET / HTTP/1.0\r\n", to_http);
    if (to_data != NULL) {
        answer(&f, fd, "MCDH", to_data);
    }
    expect_said(&f, &call, words);
    (void)close(fd);
    fixture_fini(&f);
}

static void who__http_server_that_answers_without_a_head_is_named(void **state)
{
    (void)state;
    expect_named("<!DOCTYPE HTML><html>400 of many a word, 24 bytes</html>",
                 "HTTP/1.0 200 OK\r\n\r\nhello", NULL, "an HTTP server, no master");
}

static void who__data_port_of_a_store_is_named(void **state)
{
    (void)state;
    expect_named("", "", "MCDH\1", "the data port of a store");
}

#define BEGINS(words) "that is no master, it begins with \"" words "\"; the master's RPC port"

static void who__server_of_text_is_shown_by_its_first_words(void **state)
{
    static const char smtp[] = "220 mail ESMTP\r\n",
                      longest[] =
                          "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";

    (void)state;
    expect_named(smtp, smtp, smtp, BEGINS("220 mail ESMTP"));
    expect_named("J\1\2\n8.0.33-0ubuntu\1", "", "", BEGINS("8.0.33-0ubuntu"));
    expect_named("say \"hello\"\33[1m", "", "", BEGINS("say 'hello'"));
    expect_named(longest, longest, longest,
                 BEGINS("0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab..."));
    /* It says nothing to Hello, and something to a question of text. */
    expect_named("", ":irc 421 GET", "", BEGINS(":irc 421 GET"));
    expect_named("", "", "what?\n", BEGINS("what?"));
}

/* Known words win, whatever came to Hello. */
static void who__known_server_is_named_rather_than_shown(void **state)
{
    (void)state;
    expect_named("hello hello\n", "SSH-2.0-x", NULL, "that is an SSH server");
}

static void who__bytes_without_words_are_not_shown(void **state)
{
    (void)state;
    expect_named("\1\2\3\4\5\6\7\1\2\3\4\5\6\7\1\2\3\4\5\6\7\1\2\3\4", "", "",
                 "does not speak the Mooncake control protocol");
}

static void who__nobody_known_leaves_the_sentence_as_it_was(void **state)
{
    (void)state;
    expect_named("", "", "", "gave no answer to Hello");
}

/* It answers nothing any more: the call ends long before its deadline, and so does the client. */
static void who__is_not_waited_for_long(void **state)
{
    struct fixture f;
    struct call call;
    int fd = open_at_listener(&f, &call);

    (void)state;
    answer(&f, fd, "MCK1", "");
    expect_said(&f, &call, "gave no answer to Hello");
    (void)close(fd);
    fixture_fini(&f);
}

static void who__client_may_go_while_it_asks(void **state)
{
    struct fixture f;
    struct call call;
    int asked = -1;
    int fd = open_at_listener(&f, &call);

    (void)state;
    answer(&f, fd, "MCK1", "");
    RUN_UNTIL(&f, (asked = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0);
    mc_rpc_client_destroy(&f.client);
    expect_said(&f, &call, "closed by this program");
    (void)close(asked);
    (void)close(fd);
    fixture_fini(&f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(who__admin_port_that_only_closes_is_named_and_asked_once),
        cmocka_unit_test(who__http_server_that_answers_without_a_head_is_named),
        cmocka_unit_test(who__data_port_of_a_store_is_named),
        cmocka_unit_test(who__server_of_text_is_shown_by_its_first_words),
        cmocka_unit_test(who__known_server_is_named_rather_than_shown),
        cmocka_unit_test(who__bytes_without_words_are_not_shown),
        cmocka_unit_test(who__nobody_known_leaves_the_sentence_as_it_was),
        cmocka_unit_test(who__is_not_waited_for_long),
        cmocka_unit_test(who__client_may_go_while_it_asks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
