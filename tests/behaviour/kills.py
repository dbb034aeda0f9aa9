# SPDX-License-Identifier: Apache-2.0
"""Jobs that are killed as people kill them: by name. It is process 1 of a pid name space of its
own (test_kills.py), where a name hits nothing else and where whatever is left is seen.

    kills.py REIGEN PATTERN TRIES SEED
"""
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from wait import until  # noqa: E402 (needs the path above)

# One child in its rank's group, one in a session of its own, one daemon that has forgotten its
# environment and its descriptors.
RANK = ('sleep 300 & setsid sleep 301 & '
        "(setsid env -i sh -c 'sleep 302 & exec sleep 303' </dev/null >/dev/null 2>&1 &); "
        'echo up; wait; sleep 304')
NP = 3
PER_RANK = 5
GONE_S = 30.0

reigen, pattern, tries, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rng = random.Random(seed)


def processes():
    """pid: (name, parent), without this process and zombies."""
    found = {}
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/stat') as f:
                head, _, tail = f.read().rpartition(')')
        except OSError:
            continue
        state, parent = tail.split()[:2]
        if state not in 'ZX' and int(pid) != os.getpid():
            found[int(pid)] = head.partition('(')[2], int(parent)
    return found


def reap():
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def wait_for(condition, what):
    def reached():
        reap()
        return condition()
    until(reached, f'{pattern}: {what}', GONE_S, processes, SystemExit)


def run(*argv):
    """True when it has hit something."""
    pid = os.posix_spawnp(argv[0], argv, os.environ,
                          file_actions=[(os.POSIX_SPAWN_OPEN, 1, '/dev/null', os.O_WRONLY, 0),
                                        (os.POSIX_SPAWN_OPEN, 2, '/dev/null', os.O_WRONLY, 0)])
    return os.waitpid(pid, 0)[1] == 0


def kill_pids(*names):
    """These, in any order, with a moment between them or none. True when there were any."""
    pids = [pid for pid, (name, _) in processes().items() if name in names]
    rng.shuffle(pids)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if rng.random() < 0.5:
            time.sleep(rng.uniform(0, 0.004))  # patient: any moment
    return bool(pids)


PATTERNS = {
    'pkill': lambda: run('pkill', '-9', 'reigen'),
    'killall': lambda: run('killall', '-9', 'reigen', 'reigen-agent'),
    'command-line': lambda: run('pkill', '-9', '-f', 'reigen'),
    'launcher-and-agent': lambda: kill_pids('reigen', 'rg-agent', 'reigen-agent'),
    'launcher-and-guard': lambda: kill_pids('reigen', 'rg-guard'),
    'agent-and-guard': lambda: kill_pids('rg-agent', 'rg-guard'),
}


def try_once(options, early):
    with open(os.devnull, 'w') as null:
        child = subprocess.Popen([reigen, 'run', '-np', str(NP), *options, '--', 'sh', '-c', RANK],
                                 stdin=subprocess.DEVNULL, stdout=null, stderr=null,
                                 start_new_session=True)
    if early:
        time.sleep(rng.uniform(0, 0.03))  # patient: any moment
    else:
        wait_for(lambda: sum(name == 'sleep' for name, _ in processes().values()) >= 4 * NP,
                 'the ranks did not come')
    if not PATTERNS[pattern]():  # before there was anything of that name
        os.kill(child.pid, signal.SIGKILL)
    wait_for(lambda: not processes(), 'still there')
    reap()
    child.returncode = 0


for i in range(tries):
    # The driver for hosts behind ssh serves this computer too.
    try_once(['--on', 'ssh', '-H', 'localhost:9'] if i % 3 == 2 else [], early=i % 4 == 3)
print('nothing left')
