# SPDX-License-Identifier: Apache-2.0
"""reigen run --on kubernetes, and what comes after it, on a real cluster: from the user's computer,
where there is nothing but kubectl and Reigen."""
import json
import os
import re
import select
import signal
import subprocess

import pytest

import everywhere
from bed.node import wait_until
from built import PROGRAMS
from openmetrics import by_rank, read

LIMIT = 120
SILENCE_S = 600  # until what a job shows next, on the slowest machine
IMAGE = 'localhost/base:1'
HEAD = '--selector=batch.kubernetes.io/job-completion-index=0'
KINDS = ('jobs', 'pods', 'configmaps', 'secrets', 'services')


def lines(text):
    """What ranks wrote: a container's log has the head's own words among it, on a slow start."""
    return [line for line in text.splitlines() if not line.startswith('reigen: ')]


def read_line(child):
    """Its next line, and not a byte more: communicate() does not know what readline() has read."""
    line = b''
    while not line.endswith(b'\n'):
        assert select.select([child.stdout], [], [], SILENCE_S)[0], f'no end of {line}'
        if not (byte := os.read(child.stdout.fileno(), 1)):
            break
        line += byte
    return line.decode()


class Reigen:
    def __init__(self, kube):
        self.kube = kube

    def words(self, *words):
        return [str(PROGRAMS.reigen), *map(str, words)]

    def __call__(self, *words, **options):
        return self.kube.run(self.words(*words), **{'timeout': LIMIT, **options})

    def run(self, *words, image=IMAGE, **options):
        return self('run', '--on', 'kubernetes', '--image', image, *words, **options)

    def plan(self, *words, **options):
        """reigen plan, its text in one line's width."""
        done = self('plan', '--on', 'kubernetes', '--image', IMAGE, *words, '--', 'true', **options)
        if '--json' not in words:
            done.stdout = re.sub(r'\n {10,}', ' ', done.stdout)
        return done

    def start(self, *words, image=IMAGE):
        """A run that has shown a rank's first line: the process, and that line."""
        child = self.kube.popen(self.words('run', '--on', 'kubernetes', '--image', image, *words),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        line = read_line(child)
        while line.startswith('reigen: '):
            line = read_line(child)
        return child, line

    def left(self):
        """What is there of any job."""
        return [name for kind in KINDS
                for name in self.kube.names(kind, '--selector=app.kubernetes.io/name=reigen')]

    def wait_gone(self, limit=10):
        wait_until(lambda: not self.left(), limit, 'nothing left of the job')


@pytest.fixture
def reigen(kube):
    reigen = Reigen(kube)
    yield reigen
    kube.kubectl('delete', 'jobs', '--all', '--wait=false')


@pytest.fixture
def fake_gpus(kube):
    """Two nodes that say they have two GPUs and RDMA devices each: their names."""
    def patch(node, how):
        kube.kubectl('patch', 'node', node, '--subresource=status', '--type=json', '--patch',
                     json.dumps([{'op': how, 'value': '2', 'path': f'/status/{part}/{name}'}
                                 for part in ('capacity', 'allocatable')
                                 for name in ('nvidia.com~1gpu', 'example.com~1rdma')]))

    nodes = [node.name for node in kube.cluster.nodes[:2]]
    for node in nodes:
        patch(node, 'add')
    yield nodes
    for node in nodes:
        patch(node, 'remove')


def test_a_job_runs_in_pods_and_leaves_nothing(reigen):
    odd = '$(HOME) $$(RANK) "\'\u00fc -x'  # Kubernetes itself would put values in their place
    done = reigen.run('-np', 3, '--inject-runtime', '--env', f'ODD={odd}', '--', 'sh', '-c',
                      'echo hello from $RANK of $WORLD_SIZE "$ODD|$1"', 'sh', odd)
    assert done.returncode == 0, done
    assert sorted(lines(done.stdout)) == [f'[{i}] hello from {i} of 3 {odd}|{odd}'
                                          for i in range(3)]
    reigen.wait_gone()


PACKAGES = '''count() { ls -d /tmp/*/bundle-* /var/tmp/*/bundle-* ~/.cache/*/bundle-* \
/reigen/run/*/bundle-* 2>/dev/null | wc -l; }
echo "before $(count)"
[ -z "$1" ] || python3 -c 'import reigen, horovod
print("at", reigen.__file__ == reigen.__path__[0] + "/__init__.py", "bundle-" in horovod.__file__)'
echo "after $(count)"'''


def test_packages_are_unpacked_once_where_a_rank_imports_them(reigen):
    for imports, after, says in (('', 0, []), ('import', 1, ['at True True'] * 2)):
        words = ('bash', '-c', PACKAGES, 'bash', imports)
        done = reigen.run('-np', 2, '--no-tag-output', '--', *words, image='localhost/trainer:1')
        assert done.returncode == 0, done
        assert sorted(lines(done.stdout)) == [f'after {after}'] * 2 + says + ['before 0'] * 2, done
    reigen.wait_gone()


# Who a rank is, and that it cannot write to the root.
CONFINED = """
import errno, os
try:
    os.mkdir('/here')
except OSError as error:
    print(os.environ['RANK'], os.getuid(), os.getgid(), errno.errorcode[error.errno], flush=True)
"""
WITH_TENSORS = CONFINED + """
import torch, horovod.torch as hvd
hvd.init()
print(hvd.allreduce(torch.full((1 << 16,), hvd.rank() + 1.0), op=hvd.Sum).unique().tolist())
"""


@pytest.mark.parametrize('image, script, sums', [
    ('distroless', CONFINED, []), ('trainer', WITH_TENSORS, ['[3.0]', '[3.0]'])],
    ids=['distroless', 'slim'])
def test_restricted_namespaces_take_a_job_of_any_user_and_say_what_they_want(reigen, image, script,
                                                                             sums):
    """Images without a shell, and like python:slim; a user whom neither knows; a read-only root."""
    reigen.kube.restrict()
    template = {'spec': {'containers': [{'image': f'localhost/{image}:1', 'securityContext': {
        'readOnlyRootFilesystem': True}}]}}
    path = reigen.kube.cluster.laptop.write('read-only.json', json.dumps(template))
    done = reigen('run', '--on', 'kubernetes', '--pod-template', path, '-np', 2, '--no-tag-output',
                  '--user', '12345:54321', '--', 'python3', '-c', script)
    assert done.returncode == 0, done
    told = [f'{rank} 12345 54321 EROFS' for rank in range(2)]
    assert sorted(lines(done.stdout)) == [*told, *sums], done
    if not sums:
        done = reigen.run('-np', 1, '--', 'true')
        assert done.returncode == 2 and 'violates PodSecurity "restricted' in done.stderr, done
    reigen.wait_gone()


def test_a_failed_job_is_there_to_be_looked_at_until_it_is_stopped(reigen):
    done = reigen.run('--name', 'broken', '-np', 2, '--', 'sh', '-c',
                      'echo up; [ $RANK = 0 ] || exit 3; sleep 1000')
    assert done.returncode == 3 and 'rank 1 on broken-1 failed first' in done.stdout, done
    used = reigen.run('--name', 'broken', '-np', 1, '--', 'true')
    assert used.returncode == 2 and '"broken" already exists' in used.stderr, used
    assert 'job broken: ended with exit code 3' in reigen('status', 'broken').stdout
    assert '[1] up\n' in reigen('logs', 'broken').stdout
    job, = (job for job in json.loads(reigen('jobs', '--all', '--json').stdout)
            if job['id'] == 'broken')
    assert (job['state'], job['exit_code']) == ('ended', 3), job
    assert reigen('stop', 'broken').stdout == 'stopped broken\n'
    reigen.wait_gone()
    assert 'ended with exit code 3' in reigen('status', 'broken').stdout


def test_what_stands_in_the_way_of_a_start_is_named_and_bounded(reigen):
    for words, said in ((('--node-selector', 'no=where'), 'Unschedulable: 0/'),
                        (('--cpu', '1000'), 'Insufficient cpu'),
                        (('--volume', 'no-claim:/data'), 'no-claim')):
        done = reigen.run('-np', 2, '--start-timeout', '4', *words, '--', 'true')
        assert done.returncode == 124 and said in done.stderr, done
        assert '(--start-timeout)' in done.stderr and ' and 1 more: ' in done.stderr, done
    done = reigen.run('-np', 2, '--start-timeout', '6', '--', 'true', image='localhost/none:1')
    assert done.returncode == 124 and re.search('ErrImagePull: |ImagePullBackOff: ', done.stderr)
    done = reigen.run('-np', 1, '--', 'true', image='Not An Image')
    assert done.returncode == 125 and 'InvalidImageName: ' in done.stderr, done
    reigen.wait_gone()


def test_what_the_cluster_refuses_is_told_with_a_remedy(reigen):
    for words, code, said in (
            (('--namespace', 'nowhere'), 2, 'namespaces "nowhere" not found; name one'),
            (('--context', 'nowhere'), 2, 'kubectl config get-contexts'),
            (('--gang', 'volcano'), 2, 'the cluster has no such pod groups'),
            (('--gang', 'kubernetes'), 2, 'the cluster has no pod groups of its own')):
        done = reigen.run('-np', 1, *words, '--', 'true')
        assert done.returncode == code and said in done.stderr, done
    template = '{"spec": {"containers": [{"image": "x", "securityContxt": {}}]}}'
    path = reigen.kube.cluster.laptop.write('template.json', template)
    done = reigen.run('-np', 1, '--pod-template', path, '--', 'true')
    assert done.returncode == 2, done
    assert 'unknown field' in done.stderr and 'securityContxt' in done.stderr, done
    reigen.kube.kubectl('create', 'quota', 'small', '--hard=count/jobs.batch=0')
    done = reigen.run('-np', 1, '--', 'true')
    assert done.returncode == 69 and 'exceeded quota: small' in done.stderr, done
    assert reigen.left() == []


def test_a_plan_says_what_would_become_of_a_job_and_makes_nothing(reigen):
    done = reigen.plan('-np', 2)
    assert done.returncode == 0 and ': it would start now\n' in done.stdout, done
    done = reigen.plan('-np', 1, '--agent-image', IMAGE)  # Kubernetes 1.33 has none by itself
    assert done.returncode == 2 and 'has no image volumes; leave out' in done.stdout, done
    reigen.kube.kubectl('create', 'quota', 'small', '--hard=pods=3,count/jobs.batch=1')
    done = reigen.plan('-np', 4)
    assert done.returncode == 69 and 'small allows pods 3, and the job wants 4' in done.stdout, done
    reigen.kube.restrict()
    done = reigen.plan('-np', 1, '--volume', 'no-claim:/data', '--queue', 'none')
    assert done.returncode == 2 and 'violates PodSecurity "restricted' in done.stdout, done
    assert 'there is no claim no-claim' in done.stdout, done
    assert 'the cluster has no queues like none' in done.stdout, done
    done = reigen.plan('-np', 1, '--namespace', 'nowhere')
    assert done.returncode == 2 and 'namespaces "nowhere" not found' in done.stdout, done
    assert reigen.left() == []


def test_gpus_are_slots_and_a_plan_counts_them(reigen, fake_gpus):
    """Nodes that say they have GPUs: two of the three have two each."""
    assert fake_gpus == ['node1', 'node2']
    child, line = reigen.start('--name', 'gpus', '-np', 4, '--gpus', 2, '--user', 12345, '--rdma',
                               'example.com/rdma=2', '--', 'sh', '-c',
                               'echo $LOCAL_RANK of $LOCAL_WORLD_SIZE; sleep 1000')
    first = [line] + [child.stdout.readline() for _ in range(3)]
    assert sorted(line.split('] ')[1] for line in first) == ['0 of 2\n', '0 of 2\n', '1 of 2\n',
                                                            '1 of 2\n'], first
    nodes = reigen.kube.kubectl('get', 'pods', '--selector=batch.kubernetes.io/job-name=gpus',
                                '--output=jsonpath={.items[*].spec.nodeName}').split()
    assert sorted(nodes) == fake_gpus
    # An ordinary user has nothing of the capability that the container was given.
    facts = reigen.kube.kubectl('exec', 'job/gpus', '--', '/reigen/agent/reigen-agent', 'doctor')
    assert f'caps 0 {1 << 14}\n' in facts, facts
    waits = reigen.plan('-np', 1, '--gpus', 1)
    assert waits.returncode == 75 and 'nvidia.com/gpu: 0 of 2 free' in waits.stdout, waits
    plan = json.loads(reigen.plan('-np', 6, '--gpus', 2, '--json').stdout)
    assert (plan['outlook'], plan['exit_code'], plan['pods']) == ('refused', 69, 3), plan
    assert {node['name']: (node['pods'], node['pods_if_empty']) for node in plan['nodes']} == \
        {'node1': (0, 1), 'node2': (0, 1), 'node3': (0, 0)}, plan
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=LIMIT)
    free = reigen.plan('-np', 4, '--gpus', 2)
    assert free.returncode == 0 and 'room for all pods on 2 of 3 nodes' in free.stdout, free


def test_who_may_not_make_jobs_is_told_so(reigen):
    kube = reigen.kube
    kube.kubectl('create', 'serviceaccount', 'guest')
    token = kube.kubectl('create', 'token', 'guest').strip()
    config = json.loads(kube.kubectl('config', 'view', '--raw', '--minify', '--output=json'))
    config['users'][0]['user'] = {'token': token}
    path = kube.cluster.laptop.write('guest.json', json.dumps(config), mode=0o600)
    done = reigen.run('-np', 1, '--', 'true', env={'KUBECONFIG': str(path)})
    assert done.returncode == 77 and 'cannot create resource "jobs"' in done.stderr, done
    assert 'docs/kubernetes.md' in done.stderr
    done = reigen.plan('-np', 1, env={'KUBECONFIG': str(path)})
    assert done.returncode == 77 and 'you may not list nodes' in done.stdout, done
    assert re.search('you may not create services, .* patch jobs, ', ' '.join(done.stdout.split()))


def test_too_much_memory_and_a_lost_head_are_told_in_kubernetes_words(reigen):
    done = reigen.run('-np', 2, '--memory', '48Mi', '--', 'sh', '-c',
                      '[ $RANK = 0 ] || x=$(tr "\\0" x </dev/zero); sleep 1000')
    assert done.returncode == 137 and 'memory ran out (limit 48 MiB' in done.stdout, done
    child, line = reigen.start('--name', 'evicted', '-np', 2, '--', 'sh', '-c',
                               'echo begin; sleep 5; echo end')
    assert line.endswith('] begin\n')
    pod, = reigen.kube.names('pods', HEAD, '--selector=batch.kubernetes.io/job-name=evicted,'
                             'batch.kubernetes.io/job-completion-index=0')
    eviction = {'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': pod}}
    path = f'/api/v1/namespaces/{reigen.kube.name}/pods/{pod}/eviction'
    reigen.kube.kubectl('create', '--raw', path, '-f', '-', input=json.dumps(eviction))
    out, err = child.communicate(timeout=LIMIT)
    assert child.returncode == 0 and out.count('] end\n') == 2, (out, err)
    assert f'takes the place of {pod}, which it has ended: EvictionByEvictionAPI' in err, err


STEPS = """
import os, time
import torch, horovod.torch as hvd
hvd.init()
while True:
    hvd.allreduce(torch.ones(8), name='step')
    if hvd.rank() == 0 and not os.path.exists('/tmp/said'):
        open('/tmp/said', 'w').close()
        print('stepping', flush=True)
    time.sleep(0.02)
"""


def test_the_record_in_a_pod_is_fetched_while_the_job_runs(reigen):
    child, _ = reigen.start('--name', 'kept', '--record', '/tmp/it', '-np', 2, '--', 'sh', '-c',
                            'echo up; sleep 1000')
    done = reigen('report', 'kept')
    assert (done.returncode, done.stdout) == (0, 'kept.record/report.html\n'), done
    page = reigen.kube.run(['cat', 'kept.record/report.html']).stdout
    assert 'The job runs, and the record goes on' in page and 'kept-1' in page, page
    reigen('stop', 'kept')
    _, said = child.communicate(timeout=LIMIT)
    assert 'unless it is on a volume; reigen report JOB fetches it while the job runs' in said, said
    gone = reigen('report', 'kept')
    assert gone.returncode == 69 and 'reigen report kept.record' in gone.stderr, gone
    assert reigen('report', 'kept.record').returncode == 0
    reigen.wait_gone()


# Both ranks are in this line from before they are heard.
RESTING = """
import time, reigen
reigen.init()
def rest():
    print('here', flush=True); time.sleep(1000)
rest()
"""


def test_a_job_that_is_stopped_says_where_its_ranks_were(reigen):
    child, _ = reigen.start('--name', 'rests', '-np', 2, '--', 'python3', '-c', RESTING,
                            image='localhost/trainer:1')
    assert read_line(child).endswith('here\n')
    reigen('stop', 'rests')
    shown, said = child.communicate(timeout=LIMIT)
    assert '\n  ranks 0-1 were at <string>:5 in rest\n' in shown, (shown, said)
    reigen.wait_gone()


def test_prometheus_is_told_by_the_service_where_the_numbers_are(reigen):
    """Asked from the pod that has no head, by the Service, as Prometheus does in a cluster."""
    kube = reigen.kube
    child, line = reigen.start('--metrics', ':9100', '--name', 'told', '-np', 2, '--', 'python3',
                               '-c', STEPS, image='localhost/trainer:1')
    assert 'stepping' in line, line
    service = kube.get('service', 'told')
    said = service['metadata']['annotations']
    assert said['prometheus.io/scrape'] == 'true', said
    url = f'http://{service["spec"]["clusterIP"]}:{said["prometheus.io/port"]}' \
        f'{said["prometheus.io/path"]}'
    other, = kube.names('pods', '--selector=batch.kubernetes.io/job-name=told,'
                        'batch.kubernetes.io/job-completion-index=1')
    ask = f'import urllib.request as u; print(u.urlopen({url!r}).read().decode(), end="")'

    def steps():
        text = kube.kubectl('exec', other, '--', 'python3', '-c', ask)
        found = by_rank(read(text, False), 'reigen_steps_total') if '_steps_total' in text else {}
        return len(found) == 2 and min(found.values()) >= 5
    wait_until(steps, LIMIT, 'steps of both ranks')
    top = reigen('top', 'told')
    assert top.returncode == 0 and '2 ranks on 2 hosts' in top.stdout, top
    assert reigen('stop', 'told').returncode == 0
    child.communicate(timeout=LIMIT)
    reigen.wait_gone()


def test_ctrl_c_ends_the_job_and_waits_for_that(reigen):
    child, line = reigen.start('-np', 2, '--', 'sh', '-c', 'echo up; sleep 1000')
    assert line.endswith('] up\n')
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=LIMIT)
    assert child.returncode == 130 and 'was ended, and nothing of it is left' in err, (out, err)
    assert reigen.kube.names('jobs') == []
    reigen.wait_gone(2)


def test_the_launcher_may_go_away_and_another_one_looks_on(reigen):
    child, _ = reigen.start('--name', 'alone', '-np', 2, '--', 'sh', '-c',
                               'echo up; sleep 3; echo done')
    child.kill()
    child.communicate(timeout=LIMIT)
    followed = reigen('logs', '-f', 'alone')
    assert sorted(lines(followed.stdout)) == ['[0] done', '[0] up', '[1] done', '[1] up']
    status = reigen('status', 'alone').stdout
    assert 'job alone: ended with exit code 0\n' in status, status


def test_attach_needs_no_note_of_the_job_and_ends_with_its_code(reigen):
    space, far = reigen.kube.name, {'XDG_STATE_HOME': '/nowhere'}
    child, _ = reigen.start('--name', 'far', '-np', 2, '--', 'sh', '-c',
                            'echo up; while [ ! -e /tmp/end ]; do sleep 0.1; done; exit 5')
    leaver = reigen.kube.popen(reigen.words('attach', 'far'), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert leaver.stdout.readline()
    leaver.send_signal(signal.SIGINT)
    out, err = leaver.communicate(timeout=LIMIT)
    assert leaver.returncode == 130 and 'left; job far goes on' in err, (out, err)
    reigen.kube.kubectl('exec', 'job/far', '--', 'touch', '/tmp/end')
    done = reigen('attach', '--namespace', space, 'far', env=far)
    assert done.returncode == 5 and done.stdout.count('] up\n') == 2, done
    last = reigen('attach', '--tail', 1, '--namespace', space, 'far', env=far)
    assert last.returncode == 5 and last.stdout == done.stdout.splitlines(True)[-1], last
    elsewhere = [reigen(word, '--namespace', space, 'far', env=far)
                 for word in ('status', 'logs', 'stop', 'stop')]
    assert [seen.returncode for seen in elsewhere] == [0, 0, 0, 2], elsewhere
    assert elsewhere[0].stdout.startswith('job far: ended with exit code 5\n  output: '), elsewhere
    assert elsewhere[1].stdout == done.stdout and elsewhere[2].stdout == 'stopped far\n', elsewhere
    none = reigen('attach', '--namespace', space, 'none', env=far)
    assert none.returncode == 2 and f'no job none in namespace {space}' in none.stderr, none
    assert child.wait(LIMIT) == 5
    child.communicate()


def test_who_deletes_the_job_ends_it_and_its_follower(reigen):
    child, _ = reigen.start('--name', 'deleted', '-np', 1, '--', 'sh', '-c', 'echo up; sleep 1000')
    reigen.kube.kubectl('delete', 'job', 'deleted', '--wait=false')
    out, err = child.communicate(timeout=LIMIT)
    assert child.returncode == 75 and 'the Job deleted was deleted' in err, (out, err)
    reigen.wait_gone()


def test_what_a_dry_run_prints_is_a_job_for_kubectl(reigen):
    dry = reigen.run('--name', 'dry', '-np', 2, '--env', 'WORD=x', '--dry-run', '--', 'sh', '-c',
                     'echo $WORD')
    assert dry.returncode == 0 and 'Secret"' not in dry.stdout, dry.stderr
    command = '\n'.join(line[4:] for line in dry.stdout.splitlines() if line.startswith('#   '))
    reigen.kube.run(['sh', '-ec', command], check=True)
    reigen.kube.kubectl('apply', '--server-side', '-f', '-', input=dry.stdout)
    assert reigen.kube.end_of('dry') == 'Complete'
    assert sorted(lines(reigen.kube.kubectl('logs', 'job/dry'))) == ['[0] x', '[1] x']
    reigen.kube.kubectl('delete', 'job/dry', 'service/dry', 'configmap/dry', 'secret/dry')


def test_a_template_of_the_users_is_merged_and_names_need_no_dns(reigen):
    path = reigen.kube.cluster.laptop.write('template.yaml', '''
metadata: {annotations: {note: mine}}
spec:
  containers:
  - image: localhost/base:1
    env: [{name: FROM_TEMPLATE, value: mine}]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumes: [{name: scratch, emptyDir: {}}]
''')
    reigen.kube.cluster.stop_dns()
    try:
        done = reigen('run', '--on', 'kubernetes', '--pod-template', path, '-np', 2, '--affinity',
                      'spread', '--toleration', '*', '--share-env', 'TOKEN', '--', 'sh', '-c',
                      'touch /scratch/x && echo $FROM_TEMPLATE $TOKEN', env={'TOKEN': 'hidden'})
    finally:
        reigen.kube.cluster.start_dns()
    assert (done.returncode, sorted(lines(done.stdout))) == \
        (0, ['[0] mine hidden', '[1] mine hidden']), done


@pytest.mark.timeout(400)
def test_the_command_line_of_all_platforms_trains_in_pods(reigen):
    """As hosts/test_training.py and slurm/test_on_slurm.py have it."""
    places = everywhere.run(reigen.kube, 'kubernetes')
    assert len(set(places)) == 4 and all(name.startswith('reigen-') for name in places), places
    reigen.wait_gone()
