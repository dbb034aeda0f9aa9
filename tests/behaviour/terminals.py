# SPDX-License-Identifier: Apache-2.0
"""A program on a terminal, whose bytes a test looks at."""
import errno
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

from built import environment


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *argv, rows=24, columns=80, **variables):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
            os.execve(str(argv[0]), [str(a) for a in argv],
                      environment(**{'TERM': 'xterm', **variables}))
        self.seen = b''

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def send(self, data):
        os.write(self.fd, data)

    def read_until(self, wanted, timeout=15):
        deadline = time.monotonic() + timeout
        while wanted not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f'{wanted} is not in {self.seen}'
            if select.select([self.fd], [], [], left)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError as e:
                    assert e.errno == errno.EIO and wanted in self.seen, self.seen
        return self.seen

    def echo_is_on(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def wait(self, timeout=15):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if select.select([self.fd], [], [], 0.02)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f'still running: {self.seen}')

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
