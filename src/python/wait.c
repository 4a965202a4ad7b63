/*
 * Calls that wait, with the interpreter lock free.
 *
 * Python notes a signal and handles it when the main thread next runs Python code, which a thread
 * that waits in here does not. So the library asks, while it waits, whether SIGINT has come; then
 * the call ends early, and the note is put back for the interpreter to find as soon as the method
 * returns: KeyboardInterrupt, or whatever the program's own handler does. No handler runs inside a
 * call: it could close the store that the call uses.
 *
 * SIGTERM, where mooncake.store handles it, ends the calls of all threads: its handler closes the
 * stores, which waits for the calls, and then the process.
 */
#include <signal.h>
#include <unistd.h>

#include "py_store.h"

static volatile sig_atomic_t term_has_come;
static struct sigaction term_before; /* Python's own, which notes the signal for its handler */

static void on_term(int signum)
{
    term_has_come = 1;
    term_before.sa_handler(signum);
}

static PyObject *watch_term(PyObject *self, PyObject *unused)
{
    struct sigaction now;

    (void)self;
    (void)unused;
    if (sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler != SIG_DFL &&
        now.sa_handler != SIG_IGN && now.sa_handler != on_term &&
        (now.sa_flags & SA_SIGINFO) == 0) {
        term_before = now;
        now.sa_handler = on_term;
        (void)sigaction(SIGTERM, &now, NULL);
    }
    Py_RETURN_NONE;
}

PyMethodDef py_wait_methods[] = {
    {"_watch_term", watch_term, METH_NOARGS,
     "Let SIGTERM end calls that wait. After signal.signal(), on the main thread."},
    {NULL, NULL, 0, NULL},
};

static bool signal_has_come(void *arg)
{
    struct py_wait *wait = arg;

    if (wait->stop != NULL && *wait->stop) {
        return true;
    }
    if (term_has_come && !wait->closing) { /* of any thread: the process ends, soon */
        return true;
    }
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
    wait->closing = false;
    wait->stop = NULL;
    wait->state = PyEval_SaveThread();
    mooncake_set_interrupt(signal_has_come, wait);
}

void py_wait_begin_closing(struct py_wait *wait)
{
    py_wait_begin(wait);
    wait->closing = true;
}

bool py_wait_asked(struct py_wait *wait)
{
    return signal_has_come(wait);
}

void py_wait_end(struct py_wait *wait)
{
    mooncake_set_interrupt(NULL, NULL);
    PyEval_RestoreThread(wait->state);
    if (wait->interrupted) {
        PyErr_SetInterrupt();
    }
}
