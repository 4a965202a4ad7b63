/* Makes text with bytes from outside safe to show on one line. */
#include "base/text.h"

void mc_text_hide_controls(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = '?';
        }
    }
}
