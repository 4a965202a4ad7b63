"""A real pool for tests: daemons on ports that the kernel picks, gone at the end whatever happens."""

import ctypes
import os
import signal
import socket
import subprocess
import tempfile
import time

from wait import wait_for

START_SECONDS = 60
STOP_SECONDS = 60
PR_SET_PDEATHSIG = 1

LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """Runs in the child: the kernel kills it when this test dies, however it dies."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class HeldPort:
    """A port of this host that stays ours, and at which nobody listens but a daemon that is started
    there; the kernel gives it to no one else, also while that daemon is down."""

    def __init__(self):
        self.socket = socket.socket()
        # Both have it: the daemon may listen where this socket only is.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("0.0.0.0", 0))  # a daemon may listen at all addresses
        self.port = self.socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def states(pid, tasks):
    """Of threads of a process, as the kernel shows them: {"S"}: all sleep."""
    found = set()
    for task in tasks:
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as stat:
            found.add(stat.read().rpartition(")")[2].split()[0])
    return found


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

    def freeze(self):
        """Stop it, and return when each of its threads has stopped."""
        pid = self.process.pid
        os.kill(pid, signal.SIGSTOP)
        wait_for(f"{self.name} has stopped",
                 lambda: states(pid, os.listdir(f"/proc/{pid}/task")) == {"T"})

    def wake(self):
        os.kill(self.process.pid, signal.SIGCONT)

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
    """A master and its stores. Use as a context manager, or call close(). Of a @lasting one the
    master can be started again at its ports."""

    def __init__(self, programs, segments=(), master_options=(), lasting=False):
        self.scratch = tempfile.TemporaryDirectory()
        self.programs = programs
        self.daemons = []
        self.held = [HeldPort(), HeldPort()] if lasting else []
        self.master_options = master_options
        try:
            self.start_master()
            ports = self.master.ports()
            self.address = f"127.0.0.1:{ports['rpc_port']}"
            self.metrics_address = f"127.0.0.1:{ports['metrics_port']}"
            self.stores = [self.add_store(segment) for segment in segments]
            for store in self.stores:
                store.ports()
        except BaseException:
            self.close()
            raise

    def start_master(self):
        """The first one, or another after that has gone."""
        rpc, metrics = (held.port for held in self.held) if self.held else (0, 0)
        self.master = self._start(f"master{len(self.daemons)}",
                                  [os.path.join(self.programs, "mooncake_master"),
                                   f"--rpc_port={rpc}", f"--metrics_port={metrics}",
                                   *self.master_options])

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
        for held in self.held:
            held.close()
        self.scratch.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
