"""Waiting for what can be asked for: of a page, a file, the kernel."""

import time

SECONDS = 60
PULSE = 0.05  # between two questions


def wait_for(what, ask, seconds=SECONDS, dead=lambda: False, tell=lambda: ""):
    """The first answer of @ask that is true. Fails, naming @what and with what @tell knows, after
    @seconds or when who is waited for is @dead."""
    deadline = time.monotonic() + seconds
    while True:
        over = time.monotonic() > deadline or dead()
        answer = ask()
        if answer:
            return answer
        assert not over, f"it never came true: {what}\n{tell()}"
        time.sleep(PULSE)
