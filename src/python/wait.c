/*
 * Calls that wait, with the interpreter lock free.
 *
 * Python notes a signal and handles it when the main thread next runs Python code, which a thread
 * that waits in here does not. So the library asks, while it waits, whether SIGINT has come; then
 * the call ends early, and the note is put back for the interpreter to find as soon as the method
 * returns: KeyboardInterrupt, or whatever the program's own handler does. No handler runs inside a
 * call: it could close the store that the call uses.
 */
#include <unistd.h>

#include "py_store.h"

static bool sigint_has_come(void *arg)
{
    struct py_wait *wait = arg;

    if (gettid() != getpid()) { /* signals are the main thread's business */
        return false;
    }
    PyEval_RestoreThread(wait->state);
    wait->interrupted = PyOS_InterruptOccurred() != 0;
    wait->state = PyEval_SaveThread();
    return wait->interrupted;
}

void py_wait_begin(struct py_wait *wait)
{
    wait->interrupted = false;
    wait->state = PyEval_SaveThread();
    mooncake_set_interrupt(sigint_has_come, wait);
}

void py_wait_end(struct py_wait *wait)
{
    mooncake_set_interrupt(NULL, NULL);
    PyEval_RestoreThread(wait->state);
    if (wait->interrupted) {
        PyErr_SetInterrupt();
    }
}
