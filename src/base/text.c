/* Makes text with bytes from outside safe to show on one line. */
#include "base/text.h"

#include <string.h>

#include "base/assert.h"

/* Less may stand in any binary message by chance. */
#define WORDS_LEN_MIN 4u
#define LETTERS_MIN 3u

void mc_text_hide_controls(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = '?';
        }
    }
}

static bool is_letter_or_digit(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

bool mc_text_first_words(const void *bytes, size_t len, char *out, size_t cap)
{
    const char *text = bytes;
    size_t begin = 0, letters = 0;

    MC_ASSERT(cap >= WORDS_LEN_MIN);
    for (size_t i = 0; i <= len; i++) {
        size_t words_len = i - begin;

        if (i < len && text[i] >= ' ' && text[i] < 0x7f) {
            letters += is_letter_or_digit(text[i]) ? 1 : 0;
            continue;
        }
        if (words_len >= WORDS_LEN_MIN && letters >= LETTERS_MIN) {
            bool whole = words_len < cap;

            words_len = whole ? words_len : cap - 1;
            memcpy(out, text + begin, words_len);
            out[words_len] = '\0';
            if (!whole) {
                memcpy(out + words_len - 3, "...", 3);
            }
            for (char *quote = out; (quote = strchr(quote, '"')) != NULL;) {
                *quote = '\'';
            }
            return true;
        }
        begin = i + 1;
        letters = 0;
    }
    return false;
}
