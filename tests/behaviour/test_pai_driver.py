# SPDX-License-Identifier: Apache-2.0
"""reigen run --on openpai against the OpenPAI server of the tests (tests/bed/pai.py), which really
runs the jobs, as processes. Where a test says so, a few lines of shell take the place of the agent
in the tasks, so that tasks end as a test wants them to."""
import base64
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

from built import PROGRAMS, ROOT, environment
from wait import until

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bed.pai import PaiServer, Processes  # noqa: E402 (needs the path above)

LIMIT = 60
BOTH = pytest.mark.parametrize('version', ['v0.14', 'v1.8'])
ON = ('run', '--on', 'openpai', '--image', 'registry.example/train:1')
# What a task runs in the place of reigen-agent: $HEAD or $REST, by its role.
PLAYED = '''#!/bin/bash
[ "$1" = version ] && exit 0
[ "$1" = pod ] || exit 99
if [ "$PAI_CURRENT_TASK_ROLE_NAME" = master ]; then eval "$HEAD"; else eval "$REST"; fi
'''
STAYS = 'exec sleep 1000'


class Pai:
    """A server, and reigen on this side of it."""

    def __init__(self, folder, version='v1.8', head='exit 0', rest=STAYS, **more):
        self.folder, self.children = folder, []
        self.tasks = folder / 'tasks'
        self.tasks.mkdir()
        self.play(PLAYED)
        self.runner = Processes(path=[self.tasks], env={'HEAD': head, 'REST': rest})
        self.server = PaiServer(version, runner=self.runner, **more)
        self.env = environment(XDG_STATE_HOME=folder / 'state', REIGEN_PAI_SERVER=self.server.url,
                               REIGEN_PAI_TOKEN=self.server.token('alice'),
                               REIGEN_PAI_USER='alice')

    def play(self, text):
        (self.tasks / 'reigen-agent').write_text(text)
        (self.tasks / 'reigen-agent').chmod(0o755)

    def reigen(self, *words, **env):
        return subprocess.run([PROGRAMS.reigen, *words], env={**self.env, **env}, text=True,
                              capture_output=True, timeout=LIMIT, check=False,
                              stdin=subprocess.DEVNULL)

    def run(self, *words, command=('true',), **env):
        return self.reigen(*ON, '--name', 'job', '-np', '2', *words, '--', *command, **env)

    def start(self, *words, **env):
        """reigen, which the test need not wait for."""
        self.children.append(subprocess.Popen(
            [PROGRAMS.reigen, *words], env={**self.env, **env}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return self.children[-1]

    def begin(self, *words, command=('true',)):
        return self.start(*ON, '--name', 'job', '-np', '2', *words, '--', *command)

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.communicate()
        self.server.close()

    def job(self):
        name = 'alice~job'
        return self.server.jobs[name if name in self.server.jobs else 'job']

    def elsewhere(self):
        """As on another computer, which has no note of the job."""
        return {'XDG_STATE_HOME': str(self.folder / 'elsewhere')}

    def submitted(self):
        """How often a job was sent."""
        return sum(r.method in ('POST', 'PUT') and r.path.endswith(('jobs', 'jobs/job'))
                   for r in self.server.requests)


@pytest.fixture(name='pai')
def make_pai(tmp_path):
    made = []

    def make(*args, **kwargs):
        made.append(Pai(tmp_path, *args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.close()
        assert not each.server.errors and not each.runner.errors


def own(text):
    """A job's lines without those that API v1 puts around a command's."""
    return [line for line in text.splitlines() if line and 'USER COMMAND' not in line]


def read_own(run):
    """The next line of that kind."""
    while not (found := own(run.stdout.readline())):
        assert run.poll() is None
    return found[0]


def wait_until(what, seconds=LIMIT):
    until(what, 'this state of the job', seconds)


# ---------------------------------------------------------------------------- the file

def described(reigen, *words, version='v2', **env):
    done = reigen(*ON, '--pai-version', version, '--name', 'job', '--dry-run', *words, '--',
                  'python', 'train.py', env=environment(**env))
    assert done.returncode == 0, done.stderr
    return done.stdout


def checked(reigen, tmp_path, text):
    (tmp_path / 'job').write_text(text)
    done = reigen('pai', 'check', '--json', tmp_path / 'job')
    return json.loads(done.stdout)['findings']


WISHES = ('-np', '8', '--gpus', '2', '--cpu', '6', '--memory', '32Gi', '--shm-size', '8g',
          '--virtual-cluster', 'research', '--ibdevices', '--max-restarts', '3')


def test_the_file_of_protocol_v2_has_all_wishes_and_no_secret(reigen, tmp_path):
    text = described(reigen, *WISHES, '--share-env', 'TOKEN', TOKEN='it is secret')
    job = yaml.safe_load(text)
    plan = re.search('REIGEN_PLAN=(\\S+)', text).group(1)
    command = job['taskRoles']['master']['commands'][0]
    role = {'instances': 1, 'dockerImage': 'image', 'commands': [command],
            'completion': {'minFailedInstances': 1, 'minSucceededInstances': 1},
            'extraContainerOptions': {'infiniband': True, 'shmMB': 8192},
            'resourcePerInstance': {'cpu': 6, 'gpu': 2, 'memoryMB': 32768, 'ports': {'reigen': 1}}}
    assert job == {
        'protocolVersion': 2, 'name': 'job', 'type': 'job', 'jobRetryCount': 3,
        'prerequisites': [{'type': 'dockerimage', 'name': 'image',
                           'uri': 'registry.example/train:1'}],
        'secrets': {'reigenKey': '64 hexadecimal digits',
                    'TOKEN': 'the value of TOKEN, between apostrophes'},
        'defaults': {'virtualCluster': 'research'},
        'taskRoles': {'master': role, 'worker': {
            **role, 'instances': 3,
            'completion': {'minFailedInstances': 1, 'minSucceededInstances': -1}}}}
    assert command.startswith(f'export REIGEN_PLAN={plan} REIGEN_KEY=<% $secrets.reigenKey %> '
                              'TOKEN=<% $secrets.TOKEN %>; ')
    assert command.endswith('exec "$AGENT" pod') and '\n' not in command
    assert 'it is secret' not in text and b'it is secret' not in base64.b64decode(plan)
    assert b'worker-2' in base64.b64decode(plan) and b'train.py' in base64.b64decode(plan)
    assert "tr -d ' \\n'" in text and checked(reigen, tmp_path, text) == []


def test_the_file_of_api_v1_has_all_wishes_and_no_key(reigen, tmp_path):
    text = described(reigen, *WISHES, version='v1')
    job = json.loads(text)
    command = job['taskRoles'][0]['command']
    role = {'taskNumber': 1, 'cpuNumber': 6, 'gpuNumber': 2, 'memoryMB': 32768, 'shmMB': 8192,
            'portList': [{'label': 'reigen', 'beginAt': 0, 'portNumber': 1}],
            'minFailedTaskCount': 1, 'minSucceededTaskCount': 1, 'command': command}
    assert job == {
        'jobName': 'job', 'image': 'registry.example/train:1', 'virtualCluster': 'research',
        'retryCount': 3, 'jobEnvs': {'paiAzRDMA': True},
        'taskRoles': [{'name': 'master', **role},
                      {'name': 'worker', **role, 'taskNumber': 3, 'minSucceededTaskCount': None}]}
    assert 'REIGEN_KEY' not in text and command.endswith('exec "$AGENT" pod')
    assert checked(reigen, tmp_path, text) == []


def test_what_is_not_said_has_defaults(reigen, tmp_path):
    text = described(reigen, '-np', '3', '-N', '3')
    job = yaml.safe_load(text)
    assert list(job['taskRoles']) == ['master']
    assert job['taskRoles']['master']['resourcePerInstance'] == {
        'cpu': 3, 'gpu': 0, 'memoryMB': 3 * 4096, 'ports': {'reigen': 1}}
    assert job['taskRoles']['master']['extraContainerOptions'] == {'shmMB': 3 * 2048}
    assert 'defaults' not in job and 'jobRetryCount' not in job
    assert checked(reigen, tmp_path, text) == []
    for version, rdma in ('v1', 'paiAzRDMA'), ('v2', 'infiniband'):
        assert rdma in described(reigen, '--rdma', rdma, version=version)


def test_the_agent_may_come_from_elsewhere(reigen, tmp_path):
    digest = hashlib.sha256(b'').hexdigest()
    url = f'https://files.example/reigen-agent#sha256={digest}'
    for words, part in ((('--agent-url', url), 'https://files.example/reigen-agent'),
                        (('--agent-path', '/mnt/tools/reigen-agent'), '/mnt/tools/reigen-agent')):
        for version in ('v1', 'v2'):
            text = described(reigen, *words, version=version)
            assert part in text and checked(reigen, tmp_path, text) == []


REFUSED = [
    (('-H', 'a'), '-H: not on OpenPAI; it chooses the nodes'),
    (('--stdin', 'all'), '--stdin: not on OpenPAI'),
    (('--pty',), '--pty: not on OpenPAI'),
    (('--port-range', '7000'), '--port-range of a single port: not on OpenPAI'),
    (('--mount', '/data'), '--mount: not on OpenPAI; it mounts nothing of yours'),
    (('--container-option', '--read-only'), '--container-option: not on OpenPAI'),
    (('--network', 'bridge'), '--network: not on OpenPAI'),
    (('--user', '12'), '--user: not on OpenPAI; all tasks run as root'),
    (('--privileged',), '--privileged: not on OpenPAI'),
    (('--container-runtime', 'podman'), '--container-runtime: not on OpenPAI'),
    (('--pull', 'always'), '--pull: not on OpenPAI'),
    (('--inject-runtime',), '--inject-runtime: not on OpenPAI'),
    (('--gpus', 'all'), '--gpus all: on OpenPAI give the number of GPUs of each task'),
    (('--cpu', '500m'), '--cpu 500m: on OpenPAI give the number of cpus of each task, 1 to 1024'),
    (('--memory', '2x'), '--memory 2x: not a size'),
    (('--memory', '1g', '--shm-size', '2g'), '--shm-size of 2048 MiB: OpenPAI counts it as memory'),
    (('--name', 'My_Job'), '--name My_Job: a job\'s name has at most 52 lower-case letters'),
    (('--rdma', 'rdma/hca'), '--rdma rdma/hca: OpenPAI knows infiniband'),
    (('--rdma', 'paiAzRDMA'), '--rdma paiAzRDMA: this server takes protocol v2, which has'),
    (('--pai-version', 'v3'), '--pai-version v3: give v1 or v2'),
    (('--agent-url', 'https://files.example/agent'), '#sha256='),
    (('--agent-path', 'bin/agent'), '--agent-path bin/agent: write the absolute path'),
    (('--agent-path', '/a', '--agent-url', 'https://a/b#sha256=' + 64 * '0'),
     '--agent-url with --agent-path'),
    (('--namespace', 'n'), '--namespace is for Kubernetes; say --on kubernetes, too'),
    (('--nodes', '2'), '--nodes is for Slurm'),
    (('--env', 'BIG=' + 100000 * 'x'), 'the job\'s plan has'),
]


@pytest.mark.parametrize('words, why', REFUSED, ids=[' '.join(w)[:40] for w, _ in REFUSED])
def test_what_openpai_cannot_do_is_refused(reigen, words, why):
    version = () if '--pai-version' in words else ('--pai-version', 'v2')
    done = reigen(*ON, *version, '--dry-run', '-np', '2', *words, '--', 'true')
    assert done.returncode == 2 and why in done.stderr, done


def test_more_is_refused(reigen):
    done = reigen('run', '--on', 'openpai', '--dry-run', '--', 'true')
    assert done.returncode == 2 and 'name the tasks\' image with --image' in done.stderr
    done = reigen(*ON, '--pai-version', 'v1', '--dry-run', '--share-env', 'HOME', '--', 'true')
    assert done.returncode == 2 and '--share-env HOME: this server takes API v1' in done.stderr
    done = reigen('run', '--pai-server', 'https://a', '--', 'true')
    assert done.returncode == 2 and '--pai-server is for OpenPAI; say --on openpai' in done.stderr
    done = reigen(*ON, '--share-env', 'ODD', '--dry-run', '--', 'true', env=environment(ODD='<%'))
    assert done.returncode == 2 and '--share-env ODD: the value of ODD' in done.stderr
    for words in (('status', '--pai-server', 'https://a', '--namespace', 'b', 'job'),
                  ('attach', '--pai-user', 'a', '--context', 'b', 'job')):
        done = reigen(*words)
        assert done.returncode == 2 and 'on Kubernetes or on OpenPAI, not on both' in done.stderr


# ---------------------------------------------------------------------------- a job

@BOTH
def test_a_job_is_run_to_its_end_and_found_again(pai, version):
    there = pai(version, head='echo "from the head"; echo "to stderr" >&2; sleep 0.2; printf last')
    done = there.run('-v')
    assert done.returncode == 0, done
    assert sorted(own(done.stdout)) == ['from the head', 'last', 'to stderr']
    assert 'reigen: job job; it goes on if this reigen goes away' in done.stderr
    job = there.job()
    assert job.state == 'SUCCEEDED' and [t.show() for t in job.tasks] == ['master-0', 'worker-0']
    assert there.submitted() == 1
    done = there.reigen('status', 'job')
    assert done.returncode == 0 and 'job job: ended with exit code 0\n  true\n' in done.stdout
    assert 'from the head' in there.reigen('logs', 'job').stdout
    assert there.reigen('jobs', '--all').stdout.count('exit 0') == 1


@BOTH
@pytest.mark.parametrize('head, rest, code, words', [
    ('exit 7', STAYS, 7, None),
    ('kill -9 $$', STAYS, 137, None),
    (STAYS, 'exit 5', 5, 'OpenPAI has ended the job for worker-0'),
])
def test_a_job_that_fails_says_so(pai, version, head, rest, code, words):
    # pylint: disable=too-many-arguments,too-many-positional-arguments
    there = pai(version, head=head, rest=rest)
    done = there.run()
    assert done.returncode == code, done
    assert words is None or words in done.stderr
    told = there.reigen('status', '--json', 'job')
    assert json.loads(told.stdout)['exit_code'] == done.returncode
    assert there.reigen('attach', 'job').returncode == done.returncode


@BOTH
def test_ctrl_c_ends_the_job(pai, version):
    there = pai(version, head=f'echo up; {STAYS}')
    run = there.begin()
    assert read_own(run) == 'up'
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=LIMIT)
    assert run.returncode == 130, said
    assert 'reigen: ending job job\n' in said
    assert 'reigen: job job was ended, and nothing of it is left' in said
    assert there.job().state == 'STOPPED'


@BOTH
def test_a_submitted_job_is_followed_and_stopped_from_elsewhere(pai, version):
    there = pai(version, head='for i in 1 2 3; do echo line $i; done; ' + STAYS)
    done = there.run('--submit')
    assert done.returncode == 0 and 'job' in done.stdout, done
    at = ('--pai-server', there.server.url)
    wait_until(lambda: there.job().state == 'RUNNING')
    wait_until(lambda: 'line 3' in there.server.log(there.job(), 'master', 0))
    done = there.reigen('status', *at, 'job', **there.elsewhere())
    assert done.returncode == 0 and 'job job: RUNNING on 127.0.0.1 for 0:' in done.stdout, done
    done = there.reigen('logs', *at, 'job', **there.elsewhere())
    assert 'line 1\nline 2\nline 3\n' in done.stdout, done
    attach = there.start('attach', '--tail', '1', *at, 'job', **there.elsewhere())
    assert attach.stdout.readline() == 'line 3\n'
    done = there.reigen('stop', *at, '--pai-user', 'alice', 'job', **there.elsewhere())
    assert done.returncode == 0 and done.stdout == 'stopped job\n', done
    assert there.job().state == 'STOPPED'
    _, said = attach.communicate(timeout=LIMIT)
    assert attach.returncode == 75 and 'was stopped on OpenPAI, by reigen stop or' in said
    done = there.reigen('status', 'job')
    assert 'ended with exit code 75' in done.stdout, done
    done = there.reigen('status', *at, 'other', **there.elsewhere())
    assert done.returncode != 0 and 'other' in done.stderr


@BOTH
@pytest.mark.parametrize('how', ['502', 'reset', 'html'])
def test_a_server_that_is_away_for_a_while_is_asked_again(pai, version, how):
    there = pai(version, head='echo begun; until [ -e "$GO" ]; do sleep 0.1; done; echo ended; '
                              'exit 3')
    go = there.runner.env['GO'] = there.folder / 'go'
    run = there.begin()
    assert read_own(run) == 'begun'
    bad = there.server.misbehave(how, method='GET', path='*/job*', times=2 if how == 'html' else 4)
    go.touch()
    out, said = run.communicate(timeout=LIMIT)
    assert run.returncode == 3 and 'ended\n' in out and bad.done == bad.times, said


@BOTH
def test_a_log_that_cannot_be_read_is_told_once_and_asked_for_again(pai, version):
    there = pai(version, head='echo begun; sleep 8; echo ended')
    there.server.misbehave('500', method='GET', path='*/logs*', times=4)
    done = there.run()
    assert done.returncode == 0 and 'begun\n' in done.stdout and 'ended\n' in done.stdout, done
    assert done.stderr.count('the log of job job cannot be read now') == 1, done


def test_a_job_whose_answer_is_lost_is_sent_once(pai):
    there = pai()
    there.server.misbehave('lost', method='POST', path='*/jobs')
    done = there.run()
    assert done.returncode == 0 and there.submitted() == 1, done


def test_a_job_that_may_be_there_or_not_is_named_and_noted(pai):
    there = pai()
    there.server.misbehave('reset', method='POST', path='*/jobs', times=None)
    done = there.run()
    assert done.returncode == 69 and 'reigen: job job: ' in done.stderr, done
    assert 'reigen status NAME before you submit it again' in done.stderr
    assert (there.folder / 'state/reigen/openpai/job').exists()


@BOTH
def test_a_name_that_is_taken_is_refused(pai, version):
    there = pai(version)
    assert there.run().returncode == 0
    done = there.run()
    assert done.returncode == 2 and len(there.server.jobs) == 1, done
    assert 'reigen: job job: OpenPAI ' in done.stderr
    assert 'give the job another one with --name' in done.stderr


@BOTH
def test_a_job_that_is_started_again_is_followed(pai, version):
    """What the first attempt wrote last is read before the second one."""
    there = pai(version, head='[ -e "$MARK" ] && exec echo second; touch "$MARK"; echo first; '
                              'sleep 1; echo last words; exit 1')
    there.runner.env['MARK'] = there.folder / 'mark'
    done = there.run('--max-restarts', '1')
    said = [line for line in done.stdout.splitlines() if line and '[INFO]' not in line]
    assert done.returncode == 0 and said == ['first', 'last words', 'second'], done
    assert 'OpenPAI starts job job again: retry 1' in done.stderr
    assert there.job().attempt == 1


@BOTH
def test_a_job_waits_for_its_turn_and_says_so(pai, version):
    there = pai(version, head='echo up', waiting=1.5)
    run = there.begin('--json')
    out, said = run.communicate(timeout=LIMIT)
    phases = [json.loads(line) for line in out.splitlines() if line.startswith('{')]
    waits = [p for p in phases if p.get('phase') == 'pending']
    assert run.returncode == 0 and waits and waits[0]['host'] in ('master-0', 'worker-0'), said


def test_a_secret_reaches_the_head_and_the_file_that_is_shown_has_none(pai):
    value = "it's a $SECRET \"word\"\nof two lines"
    there = pai(head='printf "%s" "$WORD" >"$AT"; echo "${#REIGEN_KEY}"')
    there.runner.env['AT'] = there.folder / 'word'
    done = there.run('--share-env', 'WORD', WORD=value)
    assert done.returncode == 0 and done.stdout == '64\n', done
    assert (there.folder / 'word').read_text() == value
    assert not [path for path in (there.folder / 'state').rglob('plan.*')]


def test_an_image_without_the_agent_is_named(pai):
    there = pai()
    (there.tasks / 'reigen-agent').unlink()
    done = there.run()
    assert done.returncode == 127 and 'the image has no reigen-agent in PATH' in done.stdout, done


def test_who_is_not_known_is_told_what_to_do(pai):
    there = pai()
    done = there.run(REIGEN_PAI_TOKEN='wrong')
    assert done.returncode == 77 and not there.server.jobs, done
    done = there.run('--pai-server', 'http://127.0.0.1:1')
    assert done.returncode == 69 and '127.0.0.1:1' in done.stderr, done
    done = there.run('--virtual-cluster', 'research')
    assert done.returncode == 77 and 'research' in done.stderr, done


@BOTH
def test_a_password_and_a_certificate_are_taken_from_files(pai, version):
    there = pai(version, head='echo up', tls=True)
    there.env.pop('REIGEN_PAI_TOKEN')
    password = there.folder / 'password'
    password.write_text('alice-secret\n')
    password.chmod(0o644)
    files = {'REIGEN_PAI_CA': str(there.server.ca), 'REIGEN_PAI_PASSWORD_FILE': str(password)}
    done = there.run(**files)
    assert done.returncode == 77 and str(password) in done.stderr, done
    password.chmod(0o600)
    done = there.run(REIGEN_PAI_PASSWORD_FILE=str(password))
    assert done.returncode == 77 and 'REIGEN_PAI_CA' in done.stderr, done
    done = there.run(**files)
    assert done.returncode == 0 and own(done.stdout) == ['up'], done


def test_somebodys_own_job_is_found_and_stopped(pai):
    there = pai('v0.14')
    role = {'name': 'ps', 'taskNumber': 2, 'command': 'echo from $PAI_TASK_INDEX; sleep 1000'}
    body = {'jobName': 'own', 'image': 'i', 'taskRoles': [role]}
    asked = urllib.request.Request(
        f'{there.server.url}/api/v1/user/alice/jobs', json.dumps(body).encode(),
        {'Content-Type': 'application/json',
         'Authorization': f'Bearer {there.server.token("alice")}'})
    with urllib.request.urlopen(asked, timeout=LIMIT) as answer:
        assert answer.status == 201
    job, at = there.server.job('alice~own'), ('--pai-server', there.server.url)
    wait_until(lambda: job.state == 'RUNNING' and 'from 0' in there.server.log(job, 'ps', 0))
    assert 'job own: RUNNING on 127.0.0.1' in there.reigen('status', *at, 'own').stdout
    assert 'from 0' in own(there.reigen('logs', *at, 'own').stdout)
    for words, said in ((('top',), 'leads nobody to its launcher, which has the numbers; reigen '
                                   'status own tells the state, and reigen logs -f own shows'),
                        (('report',), 'leads nobody there; let --record DIR be on storage')):
        away = there.reigen(*words, *at, 'own')
        assert away.returncode == 69 and 'job own: ' in away.stderr and said in away.stderr, away
    assert there.reigen('stop', *at, 'own').returncode == 0
    assert job.wait(LIMIT) and job.state == 'STOPPED'


# ---------------------------------------------------------------------------- a file of one's own

EXAMPLE = Path(__file__).resolve().parents[1] / 'hosts' / 'pai' / 'horovod-job.json'


def own_file(folder, command, **more):
    roles = [{'name': name, 'taskNumber': count, 'command': text, 'minFailedTaskCount': 1,
              'minSucceededTaskCount': 1}
             for name, count, text in (('ps_server', 1, STAYS), ('master', 1, command))]
    path = folder / 'own.json'
    path.write_text(json.dumps({'jobName': 'My_Job', 'image': 'i', 'taskRoles': roles, **more},
                               indent=1))
    return path


def sent(there):
    return [r.body for r in there.server.requests if r.method in ('POST', 'PUT')][-1].decode()


@pytest.mark.parametrize('version', ['v1', 'v2'])
def test_the_originals_own_file_is_submitted_repaired(reigen, version):
    told = reigen('run', '--on', 'openpai', '--config', EXAMPLE, '--pai-version', version,
                  '--dry-run')
    converted = reigen('pai', 'convert', '--to', version, EXAMPLE)
    assert told.returncode == 0 and told.stdout == converted.stdout, told
    assert 'jobEnvs' in told.stdout or 'parameters:' in told.stdout
    assert 'sleep 1000' in told.stderr and 'Your code' in told.stdout
    assert 'REIGEN_PLAN' not in told.stdout and 'left out: tasks start' not in told.stderr


@BOTH
def test_a_file_of_ones_own_is_run_to_its_end(pai, version):
    there = pai(version)
    path = own_file(there.folder, 'echo "trained by $WHO"; exit 4', jobEnvs={'WHO': 'me'})
    done = there.reigen('run', '--on', 'openpai', '--config', path)
    assert done.returncode == 4 and 'trained by me' in own(done.stdout), done
    job = there.server.jobs['alice~My_Job']
    assert sorted(t.show() for t in job.tasks)[0] == 'master-0'
    assert (sent(there) == path.read_text()) == (version == 'v0.14')
    assert 'ended with exit code 4' in there.reigen('status', 'My_Job').stdout
    assert 'trained by me' in there.reigen('logs', 'My_Job').stdout
    assert 'the role ps_server becomes psserver' in done.stderr or version == 'v0.14'


def test_options_stand_above_a_file_of_ones_own(pai):
    there = pai('v0.14')
    path = own_file(there.folder, 'echo up', retryCount=3)
    done = there.reigen('run', '--on', 'openpai', '--config', path, '--name', 'job', '--submit',
                        '--virtual-cluster', 'default', '--max-restarts', '1')
    assert done.returncode == 0 and done.stdout == 'job\n', done
    body = json.loads(sent(there))
    assert (body['jobName'], body['virtualCluster'], body['retryCount']) == ('job', 'default', 1)


@pytest.mark.parametrize('words, why', [
    (('--image', 'other'), '--image: '), (('--gpus', '1'), '--gpus: '), (('--cpu', '1'), '--cpu: '),
    (('--memory', '1g'), '--memory: '), (('--env', 'A=b'), '--env: '),
    (('--share-env', 'HOME'), '--share-env: '), (('--timeout', '9'), '--timeout: ')])
def test_what_would_change_a_file_of_ones_own_is_refused(reigen, words, why):
    done = reigen('run', '--on', 'openpai', '--config', EXAMPLE, '--dry-run', *words)
    assert done.returncode == 2 and why in done.stderr, done
    assert "is OpenPAI's own, and is submitted as it is" in done.stderr


def test_a_name_by_which_no_job_is_found_again_is_refused(reigen, tmp_path):
    path = own_file(tmp_path, 'true', jobName='a.b')
    done = reigen('run', '--on', 'openpai', '--config', path, '--dry-run')
    assert done.returncode == 2 and 'a.b' in done.stderr and '--name' in done.stderr, done
    done = reigen('run', '--on', 'openpai', '--config', path, '--dry-run', '--name', 'a-b')
    assert done.returncode == 0, done


def test_secrets_of_a_file_of_ones_own_are_sent_and_not_shown(pai):
    there = pai('v1.8')
    path = there.folder / 'job.yaml'
    path.write_text(yaml.safe_dump({
        'protocolVersion': 2, 'name': 'job', 'type': 'job', 'secrets': {'word': 'hush'},
        'prerequisites': [{'type': 'dockerimage', 'name': 'i', 'uri': 'i'}],
        'taskRoles': {'main': {
            'instances': 1, 'dockerImage': 'i', 'commands': ['echo <% $secrets.word %> | wc -c'],
            'completion': {'minFailedInstances': 1, 'minSucceededInstances': 1},
            'resourcePerInstance': {'cpu': 1, 'gpu': 0, 'memoryMB': 1024}}}}))
    run = ('run', '--on', 'openpai', '--config', path)
    done = there.reigen(*run, '--dry-run')
    assert done.returncode == 0 and 'hush' not in done.stdout and '******' in done.stdout, done
    done = there.reigen(*run)
    assert done.returncode == 0 and done.stdout == '5\n', done
    assert sent(there) == path.read_text()
    done = there.reigen('run', '--config', path, '--image', 'none')
    assert done.returncode == 2 and 'a secret is not written into a command' in done.stderr


# ---------------------------------------------------------------------------- several jobs

@BOTH
def test_a_job_that_cannot_be_asked_after_hides_no_other(pai, version):
    there = pai(version, head=STAYS)
    for name in ('a', 'b', 'c'):
        done = there.reigen(*ON, '--name', name, '--submit', '--', 'true')
        assert done.returncode == 0, done
    wait_until(lambda: all(j.state == 'RUNNING' for j in there.server.jobs.values()))
    there.server.misbehave('html', method='GET', path='*[~/]a', times=None)
    listed = there.reigen('jobs').stdout
    assert listed.count('running') == 2 and listed.count('unknown') == 1, listed


def test_notes_are_told_whatever_becomes_of_the_job(pai):
    there = pai(head='exit 0')
    note = '--env GONE_: not set here, so nothing is handed on'
    for words in (), ('--submit', '--name', 'second'), ('--dry-run',):
        done = there.run('--env', 'GONE_', *words)
        assert done.returncode == 0 and done.stderr.count(note) == 1, done


def test_names_of_ours_are_no_secrets_of_the_users(reigen):
    for name in 'reigenKey', 'REIGEN_KEY', 'REIGEN_PLAN':
        done = reigen(*ON, '--share-env', name, '--dry-run', '--', 'true',
                      env=environment(**{name: 'x'}))
        assert done.returncode == 2 and f'--share-env {name}: Reigen itself' in done.stderr, done


def test_no_gpu_may_be_said(reigen):
    job = yaml.safe_load(described(reigen, '--gpus', '0', '-np', '2'))
    assert job['taskRoles']['worker']['resourcePerInstance']['gpu'] == 0


# ---------------------------------------------------------------------------- with the real agent

SAY = 'echo "rank $REIGEN_RANK of $REIGEN_SIZE on host $REIGEN_CROSS_RANK"'


@pytest.fixture(name='real')
def make_real(pai):
    def make(version):
        there = pai(version)
        (there.tasks / 'reigen-agent').unlink()
        (there.tasks / 'reigen-agent').symlink_to(PROGRAMS.agent)
        return there

    return make


@BOTH
def test_ranks_run_in_tasks(real, version):
    there = real(version)
    done = there.run('-np', '4', '--ranks-per-host', '2', '--env', 'COLOUR=red', command=(
        'sh', '-c', f'{SAY}; echo "$COLOUR ${{REIGEN_KEY-none}} ${{REIGEN_PLAN-none}}"'))
    assert done.returncode == 0, done
    said = sorted(own(done.stdout))
    assert [line for line in said if 'rank' in line] == [
        f'[{rank}] rank {rank} of 4 on host {rank // 2}' for rank in range(4)], done
    assert sum('red none none' in line for line in said) == 4
    job = there.job()
    assert [(t.show(), t.state) for t in job.tasks][0] == ('master-0', 'SUCCEEDED')


@BOTH
def test_a_rank_that_fails_gives_the_job_its_code(real, version):
    there = real(version)
    done = there.run(command=('sh', '-c', '[ $REIGEN_RANK = 0 ] && exec sleep 100; exit 9'))
    assert done.returncode == 9, done
    assert 'rank 1' in done.stdout and 'worker-0' in done.stdout
    # Whichever task ends first is the job's end to OpenPAI, and has the job's code.
    assert there.job().trigger.code == 9


def test_a_worker_that_never_calls_is_named(real):
    there = real('v1.8')
    real_agent = (there.tasks / 'reigen-agent').readlink()
    (there.tasks / 'reigen-agent').unlink()
    there.play('#!/bin/bash\n[ "$1" = version ] && exit 0\n'
               '[ $PAI_CURRENT_TASK_ROLE_NAME = worker ] && exec sleep 1000\n'
               f'exec {real_agent} "$@"\n')
    done = there.run('--start-timeout', '2')
    assert done.returncode == 124 and 'worker-0' in done.stdout, done


@BOTH
def test_ctrl_c_ends_ranks(real, version):
    there = real(version)
    run = there.begin(command=('sh', '-c', f'{SAY}; exec sleep 1000'))
    assert 'rank' in read_own(run)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=LIMIT)
    assert run.returncode == 130 and there.job().state == 'STOPPED', said


@BOTH
def test_an_elastic_job_loses_a_task_and_protocol_v2_begins_it_again(real, version):
    """API v1 has nothing of that kind, and goes on without the task."""
    there = real(version)
    stop = there.folder / 'stop'
    run = there.begin('--min-np', '1', '--max-np', '3', command=(
        str(PROGRAMS.python), str(ROOT / 'tests/programs/elastic_steps.py'), str(stop)))

    def read_until(text):
        while text not in read_own(run):
            pass
    read_until(' size 3')
    task, = [each for each in there.job().tasks if each.show() == 'worker-1']
    task.run.remove()
    if version != 'v0.14':
        read_until('place 3 ')  # it may be there before the others have met without it
        read_until(' size 3')
    else:
        read_until(' size 2')
        # On a busy machine a line of the start's comes first.
        assert any('task worker-1 is lost' in run.stderr.readline() for _ in range(9))
    stop.touch()
    out, err = run.communicate(timeout=LIMIT)
    assert run.returncode == 0, (out, err)
    assert task.attempt == (0 if version == 'v0.14' else 1)
