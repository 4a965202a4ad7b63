"""A real pool for tests: daemons on ports that the kernel picks, gone at the end whatever happens."""

import ctypes
import os
import signal
import subprocess
import tempfile
import time

START_SECONDS = 30
STOP_SECONDS = 30
PR_SET_PDEATHSIG = 1

LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """Runs in the child: the kernel kills it when this test dies, however it dies."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Daemon:
    """One process that writes a port file when it serves."""

    def __init__(self, folder, name, command, preexec_fn=die_with_parent):
        self.name = name
        self.port_file = os.path.join(folder, name + ".ports")
        self.log = os.path.join(folder, name + ".log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*command, "--port_file=" + self.port_file], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, preexec_fn=preexec_fn)

    def ports(self):
        """name -> port, once the daemon serves."""
        deadline = time.monotonic() + START_SECONDS
        while not os.path.exists(self.port_file):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not serve:\n" + self.log_text())
            try:
                status = self.process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"{self.name} ended with {status}:\n" + self.log_text())
        with open(self.port_file, encoding="ascii") as file:
            lines = [line.strip().split("=") for line in file if "=" in line]
        return {name: int(port) for name, port in lines}

    def log_text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def stop(self, signum=signal.SIGTERM):
        """Exit status; negative if a signal ended it."""
        if self.process.poll() is None:
            self.process.send_signal(signum)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"{self.name} did not end:\n" + self.log_text()) from None


class Pool:
    """A master and its stores. Use as a context manager, or call close()."""

    def __init__(self, programs, segments=(), master_options=()):
        self.scratch = tempfile.TemporaryDirectory()
        self.programs = programs
        self.daemons = []
        try:
            self.master = self._start("master", [os.path.join(programs, "mooncake_master"),
                                                 "--rpc_port=0", "--metrics_port=0",
                                                 *master_options])
            ports = self.master.ports()
            self.address = f"127.0.0.1:{ports['rpc_port']}"
            self.metrics_address = f"127.0.0.1:{ports['metrics_port']}"
            self.stores = [self.add_store(segment) for segment in segments]
            for store in self.stores:
                store.ports()
        except BaseException:
            self.close()
            raise

    def _start(self, name, command, **how):
        daemon = Daemon(self.scratch.name, name, command, **how)
        self.daemons.append(daemon)
        return daemon

    def add_store(self, segment, *options, **how):
        return self._start(f"store{len(self.daemons)}",
                           [os.path.join(self.programs, "mooncake_store"),
                            "--master=" + self.address, "--segment=" + segment, "--grace=0",
                            "--advertise_host=127.0.0.1", *options], **how)

    def close(self):
        for daemon in reversed(self.daemons):
            if daemon.process.poll() is None:
                daemon.process.kill()
            daemon.process.wait()
        self.scratch.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
