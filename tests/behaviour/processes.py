# SPDX-License-Identifier: Apache-2.0
"""Looking at processes from outside: who is there, whose child, with how much memory."""
import os
import select
import uuid

from wait import until as wait_for

GONE_S = 20.0


def mark():
    """A word that no other process has, to put into command lines."""
    return f'reigen-mark-{uuid.uuid4().hex}'


def _read(path):
    try:
        with open(path, 'rb') as f:
            return f.read()
    except OSError:
        return b''


def with_word(word):
    """The pids of all processes, zombies excluded, that have this word among their arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        if word.encode() in _read(f'/proc/{pid}/cmdline') and state(int(pid)) not in 'ZX':
            found.append(int(pid))
    return found


def state(pid):
    stat = _read(f'/proc/{pid}/stat')
    return stat.rpartition(b')')[2].split()[0].decode() if stat else 'X'


def parent(pid):
    return int(_read(f'/proc/{pid}/stat').rpartition(b')')[2].split()[1])


def children(pid):
    return [int(p) for p in filter(str.isdigit, os.listdir('/proc'))
            if (s := _read(f'/proc/{p}/stat').rpartition(b')')[2].split()) and int(s[1]) == pid]


def agent_of(launcher):
    """The agent that this launcher has started, once it is there: its guard's child."""
    return wait_for(lambda: [p for guard in children(launcher) if name(guard) == 'rg-guard'
                             for p in children(guard) if name(p) == 'rg-agent'], 'an agent')[0]


def environment(pid):
    """The variables with which its program was started."""
    words = _read(f'/proc/{pid}/environ').decode(errors='replace').split('\0')
    return dict(word.split('=', 1) for word in words if '=' in word)


def name(pid):
    """What pkill and ps call it."""
    return _read(f'/proc/{pid}/comm').decode().rstrip()


def peak_kib(pid):
    """The most memory that a process has had so far."""
    for line in _read(f'/proc/{pid}/status').decode().splitlines():
        if line.startswith('VmHWM:'):
            return int(line.split()[1])
    return 0


def wait_count(word, count, seconds=20.0):
    """The pids with this word, once there are count of them."""
    return wait_for(lambda: (p := with_word(word)) if len(with_word(word)) == count else None,
                    f'{count} processes with {word}', seconds)


def assert_gone(word, seconds=GONE_S):
    wait_for(lambda: not with_word(word), f'the end of what has {word}', seconds,
             lambda: [(p, _read(f'/proc/{p}/cmdline')) for p in with_word(word)])


def wait_until_full(pipe):
    """Until nothing more can be written to a pipe that nobody reads."""
    def is_full():
        end = os.open(f'/proc/self/fd/{pipe.fileno()}', os.O_WRONLY | os.O_NONBLOCK)
        try:
            return not select.select([], [end], [], 0)[1]
        finally:
            os.close(end)
    wait_for(is_full, 'a full pipe')
