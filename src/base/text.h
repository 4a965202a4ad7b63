/*
 * Text that holds bytes from outside: what a parser quotes, what a peer says.
 */
#ifndef MC_BASE_TEXT_H
#define MC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Make control characters of @p text '?', in place: bytes from outside must not begin a line of
 * their own or move the reader's cursor. UTF-8 stays as it is.
 */
void mc_text_hide_controls(char *text);

/**
 * The first printable words among @p bytes: what a person would recognize a peer by. One line of
 * ASCII, of four bytes at least, without quotation marks; longer than @p cap - 1 it ends in "...".
 *
 * @param cap  4 and more
 * @return false if there are none; *out is untouched then
 */
bool mc_text_first_words(const void *bytes, size_t len, char *out, size_t cap);

#endif
