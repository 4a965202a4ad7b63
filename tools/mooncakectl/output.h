/*
 * How things look: text with odd bytes escaped, numbers for people, tables, and JSON with exact
 * numbers. Everything goes to stdout unless a FILE is given; main.c asks at the end whether all of
 * it could be written.
 */
#ifndef MC_CTL_OUTPUT_H
#define MC_CTL_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Big enough for every number that is formatted here. */
#define MC_NUMBER_CAP 40

/** Print bytes so that a terminal shows them and nothing else happens: control bytes and bytes
 * that are not UTF-8 as \xNN, a backslash as two. */
void mc_print_bytes(FILE *out, const char *bytes, size_t len);
/** The same up to the NUL, but spaces and line feeds stay: for sentences. */
void mc_print_text(FILE *out, const char *text);

/* Each writes into out (MC_NUMBER_CAP bytes) and returns it. */
char *mc_format_size(uint64_t bytes, char *out);                 /* "1.5 GiB" */
char *mc_format_count(uint64_t count, char *out);                /* "1,234,567" */
char *mc_format_duration(uint64_t ms, char *out);                /* "9.8 s", "2 h 5 min" */
char *mc_format_share(uint64_t part, uint64_t whole, char *out); /* "12.3 %"; "-" of nothing */
char *mc_format_id(uint64_t id, char *out);                      /* "0123456789abcdef" */

/* ---- tables ------------------------------------------------------------------------------- */

/** A table of text. Rows are kept until it is printed, because widths depend on all of them. */
struct mc_table;

/** @p heads has a column each; one that starts with '>' is aligned right, one with '=' is a
 * sentence that is not shortened. Borrowed. */
struct mc_table *mc_table_create(const char *const *heads, size_t columns);
/** Add a row, one text a column; copied, odd bytes escaped. */
void mc_table_add(struct mc_table *table, const char *const *cells);
/** Print it, at most 100 columns wide: the widest texts lose their middle. */
void mc_table_print(const struct mc_table *table);
void mc_table_destroy(struct mc_table **table);
/** Print bytes as a cell of a table, at most @p width columns: longer ones lose their middle. */
void mc_print_short(const char *bytes, size_t width);

/** Is the standard output a terminal that can be drawn on? */
bool mc_is_terminal(void);
/** What makes a state's word ("ok", "gone") coloured; "" for other words, and where nobody sees it
 * or NO_COLOR is set. */
const char *mc_colour_of(const char *word);

/* ---- JSON --------------------------------------------------------------------------------- */

json_t *mc_json_object(void);
json_t *mc_json_array(void);
/** Takes value. */
void mc_json_set(json_t *object, const char *name, json_t *value);
/** Takes value. */
void mc_json_append(json_t *array, json_t *value);
/** A string, or {"hex": "..."} where the bytes are not UTF-8. */
json_t *mc_json_bytes(const char *bytes, size_t len);
json_t *mc_json_text(const char *text);
json_t *mc_json_number(uint64_t number);
/** Ids use all 64 bits, which JSON readers lose: 16 hex digits. */
json_t *mc_json_id(uint64_t id);
/** Print and free. */
void mc_json_print(json_t *value);
/** The same in one line, for documents that follow one another. */
void mc_json_print_line(json_t *value);

/*
 * The one document that a run prints may be begun before its end is known (ls): then an error must
 * become a field of it, not a second document.
 */

/** Print `{"name": [` ; elements follow with mc_json_list_item(), then mc_json_list_end(). */
void mc_json_list_begin(const char *name);
/** Takes value. */
void mc_json_list_item(json_t *value);
/** Close the list and go on with one more field; the document stays open. Takes value. */
void mc_json_list_end(const char *name, json_t *value);
/** Print one field: of the open document if there is one, else as a document. Takes value. */
void mc_json_print_field(const char *name, json_t *value);
/** End the open document, if there is one. */
void mc_json_finish(void);

#endif
