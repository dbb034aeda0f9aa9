# SPDX-License-Identifier: Apache-2.0
"""The command of a rank whose modules are imported already, for whoever starts processes by a
command (preloaded.command()): a server's fork has the program, the variables, the folder and the
standard streams of this process, which hands on signals and ends as that one does.

usage: forked.py SERVER PROGRAM [ARGUMENT...]
"""
import json
import os
import signal
import socket
import sys

MESSAGE_MAX = 1 << 20
HANDED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
             signal.SIGUSR2)


def follow(server, argv):
    """The exit status of what the server makes; it ends when this process does."""
    job = {'argv': argv, 'env': dict(os.environ), 'cwd': os.getcwd()}
    socket.send_fds(server, [json.dumps(job).encode()], [0, 1, 2])
    pid, _ = json.loads(server.recv(MESSAGE_MAX))
    for number in HANDED_ON:
        signal.signal(number, lambda signo, _: os.kill(pid, signo))
    return json.loads(server.recv(MESSAGE_MAX))[1]


if __name__ == '__main__':
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as to:
        to.connect('\0' + sys.argv[1])
        code = os.waitstatus_to_exitcode(follow(to, sys.argv[2:]))
    if code < 0:
        if -code in HANDED_ON:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
