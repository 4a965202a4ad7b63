/* Tables that fit a terminal of 100 columns, numbers on the right of their column. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "output.h"

#define WIDTH_MAX 100
#define COLUMNS_MAX 10
#define GAP 2
#define WIDTH_MIN 8 /* of a column that loses the middle of its texts */

struct mc_table {
    const char *const *heads; /* borrowed */
    size_t columns;
    char **cells; /* rows * columns; owned */
    size_t rows, rows_cap;
};

struct mc_table *mc_table_create(const char *const *heads, size_t columns)
{
    struct mc_table *table = mc_need(calloc(1, sizeof(*table)));

    table->heads = heads;
    table->columns = columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
    return table;
}

/* Characters, not bytes: continuation bytes of UTF-8 take no room of their own. */
static size_t width_of(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return width;
}

static bool is_right(const struct mc_table *table, size_t column)
{
    return table->heads[column][0] == '>';
}

static bool is_sentence(const struct mc_table *table, size_t column)
{
    return table->heads[column][0] == '=';
}

static const char *head_of(const struct mc_table *table, size_t column)
{
    return table->heads[column] + (is_right(table, column) || is_sentence(table, column) ? 1 : 0);
}

/* Odd bytes escaped; freed by the caller. */
static char *escape(const char *bytes)
{
    char *escaped = NULL;
    size_t len = 0;
    FILE *memory = mc_need(open_memstream(&escaped, &len));

    mc_print_bytes(memory, bytes, strlen(bytes));
    (void)fclose(memory);
    return mc_need(escaped);
}

void mc_table_add(struct mc_table *table, const char *const *cells)
{
    if (table->rows == table->rows_cap) {
        table->rows_cap = table->rows_cap == 0 ? 16 : 2 * table->rows_cap;
        table->cells = mc_need(
            reallocarray(table->cells, table->rows_cap * table->columns, sizeof(*table->cells)));
    }
    for (size_t c = 0; c < table->columns; c++) {
        table->cells[table->rows * table->columns + c] = escape(cells[c]);
    }
    table->rows++;
}

/* ---- colours: only where a person looks, and never more than what the word says anyway ---- */

bool mc_is_terminal(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) != 0 && term != NULL && strcmp(term, "dumb") != 0;
}

static bool wants_colour(void)
{
    const char *no_colour = getenv("NO_COLOR");

    return mc_is_terminal() && (no_colour == NULL || no_colour[0] == '\0');
}

const char *mc_colour_of(const char *word)
{
    static const struct {
        const char *word, *code;
    } colours[] = {
        {"ok", "\x1b[32m"},      {"draining", "\x1b[33m"}, {"suspect", "\x1b[33m"},
        {"gone", "\x1b[31m"},    {"failed", "\x1b[31m"},   {"writing", "\x1b[33m"},
        {"unknown", "\x1b[33m"},
    };

    for (size_t i = 0; wants_colour() && i < sizeof(colours) / sizeof(colours[0]); i++) {
        if (strcmp(colours[i].word, word) == 0) {
            return colours[i].code;
        }
    }
    return "";
}

/* Take from the widest text columns until the table fits or nothing is left to take. */
static void fit(const struct mc_table *table, size_t *widths)
{
    size_t total = GAP * (table->columns - 1);

    for (size_t c = 0; c < table->columns; c++) {
        total += widths[c];
    }
    while (total > WIDTH_MAX) {
        size_t widest = table->columns;

        for (size_t c = 0; c < table->columns; c++) {
            if (!is_right(table, c) && !is_sentence(table, c) && widths[c] > WIDTH_MIN &&
                (widest == table->columns || widths[c] > widths[widest])) {
                widest = c;
            }
        }
        if (widest == table->columns) {
            return;
        }
        widths[widest]--;
        total--;
    }
}

static const char *after(const char *text, size_t characters)
{
    while (*text != '\0' && characters > 0) {
        do {
            text++;
        } while (((unsigned char)*text & 0xC0) == 0x80);
        characters--;
    }
    return text;
}

static void print_cell(const char *text, size_t width, bool right, bool last)
{
    size_t has = width_of(text);

    if (has > width) {
        size_t head = (width - 2) / 2;
        size_t tail = width - 2 - head;

        (void)printf("%.*s..%s", (int)(after(text, head) - text), text, after(text, has - tail));
    } else {
        const char *colour = mc_colour_of(text);

        (void)printf("%*s", right ? (int)(width - has) : 0, "");
        (void)printf("%s%s%s", colour, text, colour[0] != '\0' ? "\x1b[0m" : "");
        (void)printf("%*s", right || last ? 0 : (int)(width - has), "");
    }
    (void)printf("%*s", last ? 0 : GAP, "");
}

void mc_print_short(const char *bytes, size_t width)
{
    char *escaped = escape(bytes);
    size_t const has = width_of(escaped);

    print_cell(escaped, has < width ? has : width, false, true);
    free(escaped);
}

void mc_table_print(const struct mc_table *table)
{
    size_t widths[COLUMNS_MAX];

    for (size_t c = 0; c < table->columns; c++) {
        widths[c] = width_of(head_of(table, c));
        for (size_t r = 0; r < table->rows; r++) {
            size_t width = width_of(table->cells[r * table->columns + c]);

            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    fit(table, widths);
    for (size_t r = 0; r <= table->rows; r++) {
        for (size_t c = 0; c < table->columns; c++) {
            const char *text =
                r == 0 ? head_of(table, c) : table->cells[(r - 1) * table->columns + c];

            print_cell(text, widths[c], is_right(table, c), c + 1 == table->columns);
        }
        (void)fputc('\n', stdout);
    }
}

void mc_table_destroy(struct mc_table **table)
{
    struct mc_table *t = *table;

    if (t == NULL) {
        return;
    }
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
    free(t);
    *table = NULL;
}
