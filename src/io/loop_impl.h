/*
 * What the other files of io/ may know of a loop's inside. Nobody else includes this.
 */
#ifndef MC_IO_LOOP_IMPL_H
#define MC_IO_LOOP_IMPL_H

#include "io/loop.h"

/** Something came from outside (bytes, a connection, a post): polling goes on. Owner thread. */
void mc_loop_note_event(struct mc_loop *loop);

#endif
