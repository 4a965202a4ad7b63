/* Admin HTTP over real sockets: bad peers, bodies, and what works. */
#include "admin_fixture.h"

#include "base/bytes.h"

#define BODY_MAX ((size_t)1 << 20)

/* ---- opening -------------------------------------------------------------------------------- */

static void admin_http__port_in_use_is_named(void **state)
{
    struct mc_admin_http *const before = (struct mc_admin_http *)0x1;
    struct mc_admin_http *second = before;
    char port[8];

    (void)state;
    assert_int_equal(mc_admin_http_open(f.loop, "127.0.0.1", f.port, routes, 1, NULL, 1, &second),
                     MOONCAKE_ERPC);
    assert_ptr_equal(second, before);
    (void)snprintf(port, sizeof(port), "%u", f.port);
    assert_non_null(strstr(mooncake_last_error(), port));
    assert_non_null(strstr(mooncake_last_error(), "in use"));
}

static void admin_http__host_that_is_no_address_is_refused(void **state)
{
    struct mc_admin_http *second = NULL;

    (void)state;
    assert_int_equal(mc_admin_http_open(f.loop, "nowhere", 0, routes, 1, NULL, 1, &second),
                     MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "nowhere"));
    assert_null(second);
}

/* ---- bad peers ------------------------------------------------------------------------------ */

static void admin_http__unknown_path_gets_404(void **state)
{
    (void)state;
    http_expect(f.port, "GET", "/nothing", 404, "\"error_code\":-704");
    http_expect(f.port, "GET", "/hello/", 404, NULL);
    http_expect(f.port, "POST", "/nothing", 404, "GET /");
}

static void admin_http__wrong_method_gets_405_and_what_is_allowed(void **state)
{
    struct http_answer answer = http_fetch(f.port, "DELETE", "/length");

    (void)state;
    assert_int_equal(answer.status, 405);
    assert_non_null(strstr(answer.text, "Allow: POST, PUT\r\n"));
    free(answer.text);
    answer = http_fetch(f.port, "FROB", "/hello");
    assert_int_equal(answer.status, 405);
    assert_non_null(strstr(answer.text, "Allow: GET, HEAD\r\n"));
    free(answer.text);
    http_expect(f.port, "POST", "/", 405, NULL);
    http_expect(f.port, "HEAD", "/length", 405, NULL);
    assert_int_equal(atomic_load(&f.calls), 0);
}

static void admin_http__parameter_with_nul_or_too_many_get_400(void **state)
{
    char path[1000] = "/hello?";

    (void)state;
    http_expect(f.port, "GET", "/hello?name=a%00b", 400, "NUL");
    http_expect(f.port, "GET", "/hello?na%00me=a", 400, "NUL");
    for (int i = 0; i < 65; i++) {
        (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "k%d=v&", i);
    }
    http_expect(f.port, "GET", path, 400, "64");
    assert_int_equal(atomic_load(&f.calls), 0);
}

static void admin_http__garbage_is_survived(void **state)
{
    static const char *const bad[] = {
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /hello HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "POST /length HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        "POST /length HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1"
        "\r\nabc",
        "GET /%zz%?%=%&&&==& HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", /* somebody speaks TLS */
        "GET /hello HTTP/1.1\r\nHost: x\r\n: \r\n\r\n",
    };
    char noise[4096];

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        int fd = http_connect(f.port);

        assert_true(fd >= 0);
        (void)http_send(fd, bad[i], strlen(bad[i]));
        (void)shutdown(fd, SHUT_WR);
        (void)http_read(fd, noise, sizeof(noise)); /* an answer or a close, but an end */
        (void)close(fd);
    }
    for (int i = 0; i < 100; i++) {
        int fd = http_connect(f.port);

        assert_true(fd >= 0);
        mc_random_bytes(noise, sizeof(noise));
        (void)http_send(fd, noise, sizeof(noise));
        (void)close(fd);
    }
    http_expect(f.port, "GET", "/hello?name=a", 200, "hello a");
}

static void admin_http__endless_header_is_refused(void **state)
{
    size_t len = (size_t)1 << 20;
    char *bytes = malloc(len);
    struct http_answer answer;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 'x', len);
    memcpy(bytes, "GET /hello HTTP/1.1\r\nHost: ", 27);
    answer = http_exchange(f.port, bytes, len);
    assert_true(answer.status == 0 || answer.status >= 400);
    free(answer.text);
    memset(bytes, 'x', len);
    memcpy(bytes, "GET /", 5);
    answer = http_exchange(f.port, bytes, len);
    assert_true(answer.status == 0 || answer.status >= 400);
    free(answer.text);
    free(bytes);
    assert_int_equal(atomic_load(&f.calls), 0);
}

/* ---- bodies --------------------------------------------------------------------------------- */

/* POST @p len bytes, in one piece or chunked. */
static struct http_answer post(size_t len, bool chunked, const char *extra)
{
    char *bytes = malloc(len + 1024);
    struct http_answer answer;
    size_t at;

    assert_non_null(bytes);
    at = chunked ? (size_t)snprintf(bytes, 512,
                                    "POST /length HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s"
                                    "Transfer-Encoding: chunked\r\n\r\n%zx\r\n",
                                    extra, len)
                 : (size_t)snprintf(bytes, 512,
                                    "POST /length HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s"
                                    "Content-Length: %zu\r\n\r\n",
                                    extra, len);
    memset(bytes + at, 1, len);
    at += len;
    if (chunked) {
        memcpy(bytes + at, "\r\n0\r\n\r\n", 7);
        at += 7;
    }
    answer = http_exchange(f.port, bytes, at);
    free(bytes);
    return answer;
}

static void admin_http__body_up_to_a_mebibyte_arrives_whole(void **state)
{
    static const size_t lens[] = {0, 1, 100000, BODY_MAX};

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(lens); i++) {
        for (int chunked = 0; chunked <= (lens[i] > 0 ? 1 : 0); chunked++) {
            struct http_answer answer = post(lens[i], chunked != 0, "");
            char expected[64];

            (void)snprintf(expected, sizeof(expected), "len=%zu sum=%zu", lens[i], lens[i]);
            assert_int_equal(answer.status, 200);
            assert_string_equal(answer.body, expected);
            free(answer.text);
        }
    }
}

static void admin_http__larger_body_gets_413_and_no_handler(void **state)
{
    (void)state;
    for (int chunked = 0; chunked <= 1; chunked++) {
        struct http_answer answer = post(BODY_MAX + 1, chunked != 0, "");

        assert_int_equal(answer.status, 413);
        assert_non_null(strstr(answer.body, "1048576"));
        free(answer.text);
    }
    assert_int_equal(atomic_load(&f.calls), 0);
}

static void admin_http__huge_body_is_refused_before_it_is_sent(void **state)
{
    static const char claim[] = "POST /length HTTP/1.1\r\nHost: x\r\n"
                                "Content-Length: 1099511627776\r\n\r\n";
    static const char polite[] = "POST /length HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                                 "Content-Length: 1048577\r\n\r\n";
    struct http_answer answer = http_exchange(f.port, claim, sizeof(claim) - 1);

    (void)state;
    assert_int_equal(answer.status, 413);
    free(answer.text);
    answer = http_exchange(f.port, polite, sizeof(polite) - 1);
    assert_int_equal(answer.status, 413); /* and not 100 */
    free(answer.text);
}

static void admin_http__endless_body_is_cut_off(void **state)
{
    struct http_answer answer = post((size_t)9 << 20, true, "");

    (void)state;
    assert_int_equal(answer.status, 0); /* closed before all of it was read */
    free(answer.text);
    http_expect(f.port, "GET", "/hello", 200, "hello ?");
    assert_int_equal(atomic_load(&f.calls), 1);
}

/* ---- what works ----------------------------------------------------------------------------- */

static void admin_http__root_lists_the_routes(void **state)
{
    struct http_answer answer = http_fetch(f.port, "GET", "/");

    (void)state;
    assert_int_equal(answer.status, 200);
    for (size_t i = 0; i < ROUTES_COUNT; i++) {
        assert_non_null(strstr(answer.body, routes[i].path));
        assert_non_null(strstr(answer.body, routes[i].help));
    }
    free(answer.text);
    assert_int_equal(atomic_load(&f.calls), 0);
}

static void admin_http__head_has_the_length_and_no_body(void **state)
{
    struct http_answer answer = http_fetch(f.port, "HEAD", "/hello?name=abc");

    (void)state;
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body_len, 0);
    assert_non_null(strstr(answer.text, "Content-Length: 9\r\n"));
    free(answer.text);
}

static void admin_http__parameters_are_percent_decoded(void **state)
{
    (void)state;
    http_expect(f.port, "GET", "/hello?x=1&name=a%2Fb%20c%C3%B6+d%26&name=second", 200,
                "hello a/b c\xc3\xb6 d&");
    http_expect(f.port, "GET", "/hello?name", 200, "hello ");
    http_expect(f.port, "GET", "/hello?Name=x", 200, "hello ?");
}

static void admin_http__errors_map_to_their_status(void **state)
{
    static const struct {
        int code, status;
    } map[] = {{-600, 400},  {-400, 400},  {-101, 404},  {-704, 404},  {-1402, 404},
               {-1701, 404}, {-1010, 409}, {-1011, 409}, {-1702, 409}, {-1, 500},
               {-200, 500},  {-901, 500},  {-1012, 501}};

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(map); i++) {
        char path[64];
        char code[64];

        (void)snprintf(path, sizeof(path), "/error?code=%d&text=a%%22b", map[i].code);
        (void)snprintf(code, sizeof(code),
                       "{\"success\":false,\"error_code\":%d,\"error_message\":\"a\\\"b\"}",
                       map[i].code);
        http_expect(f.port, "GET", path, map[i].status, code);
    }
    http_expect(f.port, "GET", "/error?code=-704", 404, "no such object");
    http_expect(f.port, "GET", "/error?code=-704&text=%ff", 404, "no such object");
}

static void admin_http__answer_names_its_type(void **state)
{
    struct http_answer answer = http_fetch(f.port, "GET", "/hello");

    (void)state;
    assert_non_null(strstr(answer.text, "Content-Type: text/plain; charset=utf-8\r\n"));
    free(answer.text);
    answer = http_fetch(f.port, "GET", "/error?code=-600");
    assert_non_null(strstr(answer.text, "Content-Type: application/json\r\n"));
    free(answer.text);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, admin_setup, admin_teardown)
    const struct CMUnitTest tests[] = {
        T(admin_http__port_in_use_is_named),
        T(admin_http__host_that_is_no_address_is_refused),
        T(admin_http__unknown_path_gets_404),
        T(admin_http__wrong_method_gets_405_and_what_is_allowed),
        T(admin_http__parameter_with_nul_or_too_many_get_400),
        T(admin_http__garbage_is_survived),
        T(admin_http__endless_header_is_refused),
        T(admin_http__body_up_to_a_mebibyte_arrives_whole),
        T(admin_http__larger_body_gets_413_and_no_handler),
        T(admin_http__huge_body_is_refused_before_it_is_sent),
        T(admin_http__endless_body_is_cut_off),
        T(admin_http__root_lists_the_routes),
        T(admin_http__head_has_the_length_and_no_body),
        T(admin_http__parameters_are_percent_decoded),
        T(admin_http__errors_map_to_their_status),
        T(admin_http__answer_names_its_type),
    };
#undef T

    return cmocka_run_group_tests_name("admin_http", tests, NULL, NULL);
}
