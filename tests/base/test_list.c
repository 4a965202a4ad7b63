/* The intrusive list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/list.h"

struct item {
    int number;
    struct mc_list node;
};

static struct item items[6];
static struct mc_list head;

static int setup(void **state)
{
    (void)state;
    mc_list_init(&head);
    for (int i = 0; i < 6; i++) {
        items[i].number = i;
        mc_list_init(&items[i].node);
    }
    return 0;
}

/* The numbers in the list, forwards and backwards, are exactly @p expected. */
static void assert_list(struct mc_list *list, const char *expected)
{
    char forward[16] = {0};
    size_t len = 0;
    size_t back;

    mc_list_for_each (pos, list) {
        assert_true(len < sizeof(forward) - 1);
        forward[len++] = (char)('0' + MC_CONTAINER_OF(pos, struct item, node)->number);
    }
    assert_string_equal(forward, expected);
    back = len;
    for (struct mc_list *pos = list->prev; pos != list; pos = pos->prev) {
        assert_true(back > 0);
        back--;
        assert_int_equal(forward[back], '0' + MC_CONTAINER_OF(pos, struct item, node)->number);
    }
    assert_int_equal(back, 0);
}

static void list__drop_twice_is_harmless(void **state)
{
    (void)state;
    mc_list_add_tail(&head, &items[0].node);
    mc_list_add_tail(&head, &items[1].node);
    mc_list_drop(&items[0].node);
    mc_list_drop(&items[0].node);
    assert_false(mc_list_linked(&items[0].node));
    assert_true(mc_list_linked(&items[1].node));
    assert_list(&head, "1");
}

static void list__order_is_kept(void **state)
{
    (void)state;
    assert_true(mc_list_empty(&head));
    mc_list_add_tail(&head, &items[1].node);
    mc_list_add_tail(&head, &items[2].node);
    mc_list_add_head(&head, &items[0].node);
    assert_list(&head, "012");
    assert_int_equal(mc_list_first(&head, struct item, node)->number, 0);
    assert_int_equal(mc_list_last(&head, struct item, node)->number, 2);
    mc_list_move_tail(&head, &items[0].node);
    assert_list(&head, "120");
    mc_list_move_tail(&head, &items[0].node); /* the last one already */
    assert_list(&head, "120");
}

static void list__splice_moves_everything(void **state)
{
    struct mc_list other;

    (void)state;
    mc_list_init(&other);
    mc_list_splice_tail(&head, &other); /* nothing into nothing */
    assert_list(&head, "");
    mc_list_add_tail(&other, &items[2].node);
    mc_list_add_tail(&other, &items[3].node);
    mc_list_splice_tail(&head, &other); /* into an empty one */
    assert_list(&head, "23");
    assert_true(mc_list_empty(&other));
    mc_list_add_tail(&other, &items[4].node);
    mc_list_splice_tail(&head, &other);
    assert_list(&head, "234");
    mc_list_splice_tail(&head, &other); /* from an empty one */
    assert_list(&head, "234");
}

static void list__walk_survives_dropping_the_element(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        mc_list_add_tail(&head, &items[i].node);
    }
    mc_list_for_each_safe (pos, tmp, &head) {
        if (MC_CONTAINER_OF(pos, struct item, node)->number % 2 == 0) {
            mc_list_drop(pos);
        }
    }
    assert_list(&head, "135");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(list__drop_twice_is_harmless, setup),
        cmocka_unit_test_setup(list__order_is_kept, setup),
        cmocka_unit_test_setup(list__splice_moves_everything, setup),
        cmocka_unit_test_setup(list__walk_survives_dropping_the_element, setup),
    };

    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
