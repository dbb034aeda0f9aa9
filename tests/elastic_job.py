# SPDX-License-Identifier: Apache-2.0
"""An elastic job of a real framework: horovodrun on hosts that are homes on this computer, behind a
program in the place of ssh."""
import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from wait import until

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / 'tests/behaviour'))
from processes import assert_gone, environment, name, parent, with_word  # noqa: E402

SSH = '''#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$2 command=$3
export HOME={folder}/home/$host LOGIN=$host
unset XDG_RUNTIME_DIR
mkdir -p "$HOME"
cd "$HOME" || exit
exec sh -c "$command"
'''


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


class ElasticJob:
    """A running job. Its ranks say 'place P on HOST pid N' when they begin."""

    def __init__(self, folder, options, command, launcher=('horovodrun',), **env):
        self.folder, self.out = folder, folder / 'out'
        env = {**os.environ, 'OMP_NUM_THREADS': '1', 'HOME': str(folder),
               'REIGEN_SSH': str(program(folder / 'ssh', SSH.format(folder=folder))),
               'REIGEN_DISCOVERY_MS': '100', **env}
        with self.out.open('w') as file:
            self.child = subprocess.Popen(
                [ROOT / '.venv/bin' / launcher[0], *launcher[1:], *options, *command],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env)

    def wait(self, pattern, count=1):
        """The last of at least so many matches in the output."""
        def find():
            found = list(re.finditer(pattern, self.out.read_text(), re.M))
            assert len(found) >= count or self.child.poll() is None, self.out.read_text()
            return found[-1] if len(found) >= count else None
        return until(find, f'{count} x {pattern}', 60, seen=lambda: self.out.read_text()[-3000:])

    def lose(self, host, whole=False):
        """Kill a rank of this host; or its agent, and so the host."""
        pid = int(self.wait(rf'place \d+ on {host} pid (\d+)').group(1))
        os.kill(self.agent(host) if whole else pid, signal.SIGKILL)

    def agent(self, host):
        """The parent of what has been started there as ranks; a fork has another one."""
        def find():
            with contextlib.suppress(IndexError):  # one of them has just ended
                return next((above for pid in with_word(str(self.folder))
                             if environment(pid).get('LOGIN') == host and
                             name(above := parent(pid)) == 'rg-agent'), None)
        return until(find, f'the agent of {host}')

    def end(self):
        """The output of a job that ends well."""
        assert self.child.wait(300) == 0, self.out.read_text()
        assert_gone(str(self.folder))
        return self.out.read_text()

    def kill(self):
        """Whatever is left of it."""
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()


class Script:
    """A discovery script whose answer changes: tell()."""

    def __init__(self, folder, *hosts):
        self.hosts = folder / 'hosts'
        self.path = program(folder / 'discover.sh', f'#!/bin/sh\ncat {self.hosts}\n')
        self.tell(*hosts)

    def tell(self, *hosts):
        new = self.hosts.with_suffix('.new')
        new.write_text('\n'.join(hosts) + '\n')
        new.rename(self.hosts)
