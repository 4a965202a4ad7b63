/*
 * Text that holds bytes from outside: what a parser quotes, what a peer says.
 */
#ifndef MC_BASE_TEXT_H
#define MC_BASE_TEXT_H

/**
 * Make control characters of @p text '?', in place: bytes from outside must not begin a line of
 * their own or move the reader's cursor. UTF-8 stays as it is.
 */
void mc_text_hide_controls(char *text);

#endif
