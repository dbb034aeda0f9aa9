# SPDX-License-Identifier: Apache-2.0
"""reigen-agent head: a job from a plan's file, with no terminal and no command line of its own."""
import json
import os
import signal
import subprocess

import pytest

from built import PROGRAMS, environment

LIMIT = 60


class Desk:
    def __init__(self, folder):
        self.plan = folder / 'job.plan'
        self.folder = folder
        self.env = environment(XDG_STATE_HOME=folder / 'state')

    def write(self, *words):
        return subprocess.run([PROGRAMS.reigen, 'run', '--write-plan', self.plan, *map(str, words)],
                              env=self.env, cwd=self.folder, capture_output=True, text=True,
                              timeout=LIMIT, check=False, stdin=subprocess.DEVNULL)

    def head(self, **more):
        return subprocess.Popen([PROGRAMS.agent, 'head', '--plan', self.plan], cwd=self.folder,
                                env={**self.env, **more}, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)

    def run(self, **more):
        with self.head(**more) as head:
            out, err = head.communicate(timeout=LIMIT)
            return head.returncode, out, err


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.mark.sanitize
def test_it_runs_what_was_planned_and_says_how_it_ended(desk):
    """The ranks' environment is the head's, and the file can be run again."""
    done = desk.write('-np', 2, '--', 'sh', '-c',
                      'echo $REIGEN_RANK of $REIGEN_SIZE sees $SEEN; exit $((REIGEN_RANK * 3))')
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
    assert desk.plan.stat().st_mode & 0o777 == 0o600
    for word in ('this', 'that'):
        code, out, err = desk.run(SEEN=word)
        assert code == 3, err
        assert sorted(out.splitlines()) == [f'[0] 0 of 2 sees {word}', f'[1] 1 of 2 sees {word}']
        assert 'reigen: rank 1 on localhost failed first: exit code 3' in err
        assert "exit code 3, the rank's own" in err
    assert b'this' not in desk.plan.read_bytes()


def test_a_plan_that_others_could_have_written_is_not_run(desk):
    assert desk.write('-np', 1, '--', 'echo', 'ran').returncode == 0
    desk.plan.chmod(0o666)
    code, out, err = desk.run()
    assert (code, out) == (77, '') and 'others can write it (mode 666): chmod go-w' in err, err
    desk.plan.chmod(0o644)
    assert desk.run()[:2] == (0, 'ran\n')
    if os.geteuid() == 0:
        os.chown(desk.plan, 54321, 54321)
        code, out, err = desk.run()
        assert (code, out) == (77, '') and 'belongs to somebody else (uid 54321)' in err, err


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can make files of somebody else')
@pytest.mark.parametrize('words', [['--write-plan', '{}/link'], ['--output-dir', '{}'],
                                   ['--metrics', '{}/link']])
def test_a_strangers_link_is_not_followed(desk, words):
    """In a folder that all can write, such as /tmp."""
    shared, mine = desk.folder / 'shared', desk.folder / 'mine'
    mine.write_text('precious')
    (shared / 'rank.0').mkdir(parents=True)
    for folder, name in ((shared, 'link'), (shared / 'rank.0', 'stdout')):
        folder.chmod(0o1777)
        (folder / name).symlink_to(mine)
        os.chown(folder / name, 54321, 54321, follow_symlinks=False)
    done = subprocess.run([PROGRAMS.reigen, 'run', *(w.format(shared) for w in words), '--',
                           'true'], env=desk.env, capture_output=True, text=True, timeout=LIMIT,
                          check=False)
    assert done.returncode in (2, 77) and "somebody else's file or link" in done.stderr, done
    assert mine.read_text() == 'precious'


def test_a_home_that_is_not_there_is_not_made(desk):
    """Debian's system users have such ones, and root may be called with theirs."""
    home = desk.folder / 'none' / 'home'
    env = {**desk.env, 'HOME': home}
    del env['XDG_STATE_HOME']
    done = subprocess.run([PROGRAMS.reigen, 'run', '-v', '-np', '1', '--', 'true'], env=env,
                          capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0 and 'reigen jobs will not show this job: HOME' in done.stderr, done
    assert 'HOME' not in subprocess.run([PROGRAMS.reigen, 'run', '--', 'true'], env=env, text=True,
                                        capture_output=True, timeout=LIMIT, check=True).stderr
    assert subprocess.run([PROGRAMS.reigen, 'jobs'], env=env, timeout=LIMIT, check=True)
    assert not home.parent.exists()


def test_sigterm_gives_the_ranks_their_grace(desk):
    desk.write('--json', '-np', 1, '--', 'sh', '-c',
               'trap "echo saved; exit 5" TERM; echo up; while :; do sleep 0.05; done')
    with desk.head() as head:
        events = []
        for line in head.stdout:
            events.append(json.loads(line))
            if events[-1].get('text') == 'up':
                head.send_signal(signal.SIGTERM)
        assert head.wait(LIMIT) == 128 + signal.SIGTERM, head.stderr.read()
    said = [e['text'] for e in events if e['event'] == 'output']
    assert said[0] == 'up' and 'saved' in said
    assert events[-1]['event'] == 'verdict' and events[-1]['exit_code'] == 143
    state = desk.folder / 'state/reigen'
    assert not list((state / 'jobs').iterdir()) and len(list((state / 'ended').iterdir())) == 1


@pytest.mark.parametrize('always', [False, True])
def test_the_same_failure_twice_is_started_again_always_alone(desk, always):
    desk.write('--json', '-np', 2, '--max-restarts', 2, *['--restart-always'] * always, '--', 'sh',
               '-c', '[ $RANK = 1 ] || exec sleep 300; echo "no data in /tmp/x$$" >&2; exit 3')
    code, out, err = desk.run()
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 3 and events[-1]['exit_code'] == 3, err
    assert [e['event'] for e in events].count('restart') == (2 if always else 1)
    twice = events[-1].get('twice', [])
    assert [(f['rank'], f['value'], f['error'][:12]) for f in twice] == (
        [] if always else [(1, 3, 'no data in /')] * 2), events[-1]


def test_a_plan_that_cannot_be_run_is_refused_and_reigen_itself_runs_every_one(desk):
    assert desk.run()[0] == 2
    desk.write('-np', 1, '--', 'true')
    whole = desk.plan.read_bytes()
    for bytes_, said in [(whole[:-1], 'job.plan: the plan is cut short'),
                         (whole[:8] + b'\x07' + whole[9:], 'another version of Reigen'),
                         (b'#!/bin/sh\n', 'no plan of Reigen')]:
        desk.plan.write_bytes(bytes_)
        code, out, err = desk.run()
        assert (code, out) == (2, '') and said in err, err
    desk.write('-np', 1, '--on', 'ssh', '-H', 'elsewhere', '--', 'true')
    code, _, err = desk.run()
    assert code == 2 and 'not the driver' in err
    desk.write('-np', 1, '--on', 'local', '--', 'true')
    desk.plan.write_bytes(desk.plan.read_bytes().replace(b'\6\0\0\0local', b'\6\0\0\0slurm'))
    code, _, err = desk.run()
    assert code == 2 and 'the plan names hosts (localhost), but Slurm gives' in err, err
    desk.write('-np', 1, '--on', 'slurm', '--', 'true')
    code, _, err = desk.run()
    assert code == 69 and "no allocation of Slurm's; reigen head asks for one" in err, err
    desk.write('-np', 1, '--', 'sh', '-c', 'exit 4')
    done = subprocess.run([PROGRAMS.reigen, 'head', '--plan', desk.plan], env=desk.env, text=True,
                          capture_output=True, timeout=LIMIT, check=False)
    assert done.returncode == 4, done.stderr
