# SPDX-License-Identifier: Apache-2.0
"""A host whose network is cut while a job runs on it: a trial (tests/behaviour/trials.py) on
simulated hosts with sshd, whose cables can be pulled. A seed draws the job, the phase and what
comes after:

    sudo python3 tests/hosts/cuts.py SEED [COUNT [FILE]]

The cut host must be named within 10 s. An elastic job goes on without it when its lease is over,
and the agent over there ends its ranks by itself, while the line is still cut. When the line is
back, the host comes again, where its cooldown permits it. A fixed job goes on if the line comes
back within the lease, and ends if it does not. Where the launcher's host is cut, it is all others
that are lost.
"""
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / 'behaviour')]

from bed import Cluster  # noqa: E402 (needs the path above)
from bed.cluster import BED, build_init  # noqa: E402
from built import PROGRAMS  # noqa: E402
from trials import AFTER_S, GONE_S, NAMED_S, PHASES, PROGRAM, Draw, Trial, main  # noqa: E402
from wait import crowd, until  # noqa: E402

#: Seconds: from the cut to the next step of an elastic job; the lease of such a job, which is the
#: default, and that of a fixed job which is to end soon.
NEXT_S, LEASE_S, SHORT_LEASE_S = 10, 7, 8
AGENT = 'reigen-agent'
#: What hosts need is compiled by one of the trials that begin at the same time.
COMPILING = threading.Lock()


class CutDraw(Draw):
    """Any job of several hosts, of which one is cut; the launcher is on host a. comes_back: the
    line does so, and in an elastic job the host may."""

    def draw(self, dice):
        super().draw(dice)
        self.comes_back = None

    def settle(self, dice):
        super().settle(dice)
        if self.comes_back is None:
            self.comes_back = self.phase != 'reforming' and dice.random() < 0.5

    def possible(self):
        return len(self.hosts) > 1 and self.phase in PHASES[self.kind] and self.phase != 'end' and \
            super().possible()


class Cut(Trial):
    """One job and its cut. run() returns what was seen and how long it took."""

    program, draws = 'tests/hosts/cuts.py', CutDraw

    def __init__(self, seed, **said):
        kind = random.Random(seed).choice(['elastic', 'elastic', 'elastic', 'restart', 'fixed'])
        super().__init__(seed, **{'kind': kind, 'injury': 'cut host', **said})
        # The hosts have one in common only where the bed is.
        shutil.rmtree(self.folder)
        BED.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix='reigen-cut-', dir=BED))
        self.folder.chmod(0o777)
        self.cluster = None

    # ------------------------------------------------------------------------ the job

    def is_elastic(self):
        return self.draw.kind in ('elastic', 'restart')

    def node(self, name):
        return self.cluster['abc'.index(name) + 1]

    def options(self):
        hosts = [f'{self.node(name[0]).name}{name[1:]}' for name in self.draw.hosts]
        more = ['-np', '1', '--min-np', '1', '--elastic-timeout', '60'] if self.is_elastic() else []
        if self.draw.comes_back:
            more += ['--blacklist-cooldown-range', '1:2'] if self.is_elastic() else []
        elif not self.is_elastic():
            more += ['--lease', str(SHORT_LEASE_S)]
        return ['-H', ','.join(hosts), *more]

    def begin(self):
        with COMPILING:
            build_init()
        self.cluster = Cluster(len(self.draw.hosts))
        kind = {'fixed': 'plain', 'restart': 'plain'}.get(self.draw.kind, self.draw.kind)
        argv = [PROGRAMS.reigen, 'run', *self.options(), '--', PROGRAMS.python, PROGRAM,
                self.folder, kind, *self.strikes()]
        self.child = self.cluster[1].popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={'REIGEN_PLANES': self.draw.planes, 'OMP_NUM_THREADS': 1})
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def lost(self):
        """The nodes of which the launcher hears nothing any more."""
        return [self.node(name) for name in 'abc'[:len(self.draw.hosts)]
                if (name == self.draw.host) != (self.draw.host == 'a')]

    def cause(self):
        hosts = '|'.join(node.name for node in self.lost())
        return rf'reigen: .*(host|on) ({hosts})\b.*silent.*'

    # ------------------------------------------------------------------------ what must follow

    def go(self):
        self.begin()
        phase, place = self.draw.phase, self.draw.place
        self.see(rf'struck {phase} place {place} ', f'place {place} in {phase}', 40)
        self.crowd = crowd()
        host = self.node(self.draw.host)
        host.cut()
        self.struck_at = time.monotonic()
        when, found = self.see(self.cause(), 'the cause', NAMED_S, self.struck_at)
        seen = {'named_s': self.promised(when, self.struck_at, NAMED_S, 'named'),
                'cause': found[0][:160]}
        if self.is_elastic():
            seen['again_s'] = self.goes_on()
            host.join()
            self.ends_well()
        elif self.draw.comes_back:
            host.join()
            self.progress()
            self.finish({0})
        else:
            until(lambda: self.child.poll() is not None, 'the end of the job', AFTER_S,
                  seen=self.tail)
            self.end_their_ranks()
            host.join()
            self.finish({76})
        self.cluster.assert_clean()
        self.no_files()
        return seen

    def goes_on(self):
        """Without the lost ones: seconds until the next step."""
        lost = [self.see(rf'reigen: .*{node.name}\b.*(set aside|lost)', f'the loss of {node.name}',
                         LEASE_S + AFTER_S)[0] for node in self.lost()]
        when, _ = self.see(r'\] step \d+ size', 'a step without it', AFTER_S, max(lost))
        if self.draw.kind == 'elastic':
            self.promised(when, self.struck_at, NEXT_S, 'the next step')
        self.end_their_ranks()
        return round(when - self.struck_at, 3)

    def ends_well(self):
        if self.draw.comes_back:
            self.see(rf'\] step \d+ size {len(self.draw.host_of)}\b', 'all hosts again', 60,
                     time.monotonic())
        self.progress()
        self.finish({0})

    def end_their_ranks(self):
        """The agents do on lost nodes, whom nobody can tell anything."""
        def left():
            return [line for node in self.lost() for line in node.processes().values()
                    if AGENT in line or str(self.folder) in line]
        until(lambda: not left(), 'the end of what is on lost hosts', LEASE_S + GONE_S, seen=left)

    def no_files(self):
        for node in self.cluster.nodes:
            left = node.run(['sh', '-c', 'find .cache/reigen /run/user/* /var/tmp /tmp']).stdout
            assert not re.search(r'\.new-|reigen-r-', left), f'{node.name}: {left}'

    def close(self):
        if self.child and self.child.poll() is None:
            self.child.kill_all()
            self.child.wait()
        if self.cluster:
            self.cluster.close()
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:4], make=Cut))
