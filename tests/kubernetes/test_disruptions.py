# SPDX-License-Identifier: Apache-2.0
"""What happens to a job's pods, nodes and cluster while it runs, and that it goes on."""
import json
import re
import time

import pytest

from bed.node import wait_until
from built import PROGRAMS, ROOT
from test_mpijob import MOUNTS, PROGRAM, VOLUMES
from wait import until
from test_run import IMAGE, LIMIT, lines, read_line, reigen  # noqa: F401 (a fixture)

pytestmark = pytest.mark.timeout(400)
#: A rank that ends when the test lets it go.
WAITS = ('sh', '-c', 'echo begin; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo end')
INDEX = 'batch.kubernetes.io/job-completion-index'


def pods_of(kube, job, count):
    """[pod] by index, once so many run and are to go on; their kubelets tell it late."""
    pods = {}

    def all_run():
        found = kube.get('pods', f'--selector=batch.kubernetes.io/job-name={job}')['items']
        pods.clear()
        pods.update((int(pod['metadata']['labels'][INDEX]), pod) for pod in found
                    if pod['status']['phase'] == 'Running' and
                    'deletionTimestamp' not in pod['metadata'])
        return len(pods) == count
    wait_until(all_run, LIMIT, f'pods of {job}')
    return [pods[index] for index in range(count)]


def is_given_up(kube, job):
    """Whether a pod of the job is being deleted."""
    found = kube.get('pods', f'--selector=batch.kubernetes.io/job-name={job}')['items']
    return any('deletionTimestamp' in pod['metadata'] for pod in found)


def name_of(pod):
    return pod['metadata']['name']


def read_until(child, what, count=1, text=''):
    """Read on until it has come so often; all that came, and `text`, which came before."""
    while text.count(what) < count:
        line = read_line(child)
        assert line, (text, child.communicate(timeout=LIMIT))
        text += line
    return text


def let_go(kube, job, count):
    for pod in pods_of(kube, job, count):
        kube.kubectl('exec', name_of(pod), '--container=reigen', '--', 'touch', '/tmp/go')


def test_a_lost_node_is_named_and_its_jobs_run_again(reigen):  # noqa: F811
    """Kubernetes gives the pods of one job up, and starts them elsewhere; the other job's node is
    back before that, without what it ran, and runs it again."""
    kube = reigen.kube
    gone = {'key': 'node.kubernetes.io/unreachable', 'operator': 'Exists', 'effect': 'NoExecute',
            'tolerationSeconds': 1}
    template = kube.cluster.laptop.write('brief.json', json.dumps(
        {'spec': {'tolerations': [gone], 'containers': [{'image': IMAGE}]}}))
    child, line = reigen.start('--name', 'lost', '-np', 2, '--affinity', 'spread', '--lease', '5s',
                               '--pod-template', template, '--', *WAITS)
    read_until(child, '] begin\n', 2, line)
    head, node = (pod['spec']['nodeName'] for pod in pods_of(kube, 'lost', 2))
    assert head != node
    other, _ = reigen.start('--name', 'crashed', '-np', 1, '--node-selector',
                            f'kubernetes.io/hostname={node}', '--', *WAITS)
    with kube.cluster.lost(kube.cluster[node]):
        read_until(child, 'host lost-1: its agent has been silent for 5 s')
        wait_until(lambda: is_given_up(kube, 'lost'), LIMIT, 'pods that are given up')
        kube.wait('condition=Ready=False', 'pod', '--selector=batch.kubernetes.io/job-name=crashed')
    read_until(other, 'begin\n')
    let_go(kube, 'crashed', 1)
    out, err = other.communicate(timeout=LIMIT)
    assert other.returncode == 0 and out.endswith('end\n'), (out, err)
    assert re.search(rf'node {node}, where pod crashed-0-\w+ runs, does not answer', err), err
    assert ', which it has lost: NodeLost: its node did not answer, and killed it (137)' in err, err
    read_until(child, '] begin\n', 2)
    let_go(kube, 'lost', 2)
    out, err = child.communicate(timeout=LIMIT)
    assert child.returncode == 0 and out.count('] end\n') == 2, (out, err)
    # The node is found out before the job begins again, or while it does.
    assert re.search(rf'node {node}, where pod lost-1-|its node does not answer: {node}', err), err
    reigen.wait_gone()


def test_jobs_go_on_while_the_api_server_and_dns_are_away(reigen):  # noqa: F811
    kube, names = reigen.kube, ('one', 'two')
    count = ('sh', '-c', 'i=0; while [ ! -e /tmp/go ]; do echo line $i; i=$((i+1)); sleep 0.05; '
             'done; echo end $i')
    children = [reigen.start('--name', name, '-np', 1, '--', *count) for name in names]
    again = reigen.run('--submit', '--name', 'one', '-np', 1, '--', 'true')
    assert again.returncode == 2 and 'jobs.batch "one" already exists' in again.stderr, again
    kube.cluster.stop_dns()
    kube.cluster.stop_api()
    try:
        time.sleep(20)  # patient: so long the server is away
    finally:
        kube.cluster.start_api()
        kube.cluster.start_dns()
        kube.cluster.wait_api()
    for name in names:
        let_go(kube, name, 1)
    for child, line in children:
        out, err = child.communicate(timeout=LIMIT)
        *counted, end = lines(line + out)
        assert child.returncode == 0 and counted == [f'line {i}' for i in range(len(counted))], out
        assert end == f'end {len(counted)}' and len(counted) > 100, out
        assert 'the cluster answers again' in err, err
    reigen.wait_gone(LIMIT)  # the cluster's own controllers come back late


def allocatable_mcpu(node):
    cpu = node['status']['allocatable']['cpu']
    return int(cpu[:-1]) if cpu.endswith('m') else 1000 * int(cpu)


def kill_agent(kube, pod):
    """With all that the container runs, as the kernel ends one in which memory runs out."""
    uid = pod['metadata']['uid']
    kube.cluster[pod['spec']['nodeName']].run(
        ['sh', '-c', 'for i in $(grep -lE "$1|$2" /proc/[0-9]*/cgroup | cut -d/ -f3); do '
         'grep -q pause /proc/$i/comm || kill -9 $i; done; true', 'sh', uid,
         uid.replace('-', '_')], user='root', check=True)


def test_jobs_outlive_a_drain_a_deleted_head_a_kill_and_a_preemption(reigen):  # noqa: F811
    kube = reigen.kube
    cpu = allocatable_mcpu(kube.get('node', kube.cluster.nodes[0].name))
    low, high = (f'{kube.name}-{how}' for how in ('low', 'high'))
    for name, value in ((low, 10), (high, 1000)):
        kube.kubectl('create', 'priorityclass', name, f'--value={value}')
    urgent = ('--cpu', f'{cpu * 4 // 10}m', '--affinity', 'spread', '--priority-class', low)
    jobs = {name: reigen.start('--name', name, '-np', 2, *words, '--', *WAITS)
            for name, words in (('drained', ()), ('beheaded', ()), ('killed', ()),
                                ('preempted', urgent))}
    before = {}
    for name, (child, line) in jobs.items():
        read_until(child, '] begin\n', 2, line)
        before[name] = pods_of(kube, name, 2)
    node = before['drained'][0]['spec']['nodeName']
    victim = next(pod for pod in before['preempted'] if pod['spec']['nodeName'] != node)
    try:
        kube.kubectl('drain', node, '--delete-emptydir-data', '--timeout=60s',
                     '--pod-selector=batch.kubernetes.io/job-name=drained', timeout=90)
        kube.kubectl('delete', 'pod', name_of(before['beheaded'][0]), '--wait=false')
        kill_agent(kube, before['killed'][1])
        kube.apply(preemptor(high, victim['spec']['nodeName'], f'{cpu * 8 // 10}m'))
        said = {}
        for name, (child, _) in jobs.items():
            read_until(child, '] begin\n', 2)
            let_go(kube, name, 2)
            out, said[name] = child.communicate(timeout=LIMIT)
            assert child.returncode == 0 and out.count('] end\n') == 2, (out, said)
    finally:
        kube.kubectl('uncordon', node)
        kube.kubectl('delete', 'priorityclass', low, high)
    head = name_of(before['drained'][0])
    assert f'takes the place of {head}, which it has ended: EvictionByEvictionAPI' in \
        said['drained'], said
    assert re.search(rf'{name_of(victim)}( on \w+ has ended|, which it has ended)?: '
                     'PreemptionByScheduler', said['preempted']), said
    assert re.search(rf'pod {name_of(before["killed"][1])} on \w+ has ended: Error: its container '
                     'was killed as a whole', said['killed']), said
    head = name_of(before['beheaded'][0])
    assert f'takes the place of {head}' in said['beheaded'], said
    reigen.wait_gone()


def test_ten_pods_run_again_when_one_is_lost_as_soon_as_it_is_replaced(reigen):  # noqa: F811
    """And not when ten failures are over: nine pods stay where they are."""
    kube = reigen.kube
    child, line = reigen.start('--name', 'ten', '-np', 10, '--', 'sh', '-c',
                               'echo begin $REIGEN_RESTART; ' + WAITS[2].partition('; ')[2])
    read_until(child, '] begin 0\n', 10, line)
    before = pods_of(kube, 'ten', 10)
    kube.kubectl('delete', 'pod', name_of(before[3]), '--wait=false')
    read_until(child, '] begin 1\n', 10)
    after = pods_of(kube, 'ten', 10)
    assert [i for i in range(10) if name_of(before[i]) != name_of(after[i])] == [3]
    let_go(kube, 'ten', 10)
    out, err = child.communicate(timeout=LIMIT)
    assert child.returncode == 0 and out.count('] end\n') == 10, (out, err)
    assert re.search(rf'pod {name_of(before[3])} on \w+ has ended.*; Kubernetes waits 10 s before '
                     'it makes another one', err), err
    reigen.wait_gone()


def preemptor(priority, node, cpu):
    """A Pod that wants so much of a node, which may be closed to others at that time."""
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'urgent'},
            'spec': {'priorityClassName': priority, 'restartPolicy': 'Never',
                     'nodeSelector': {'kubernetes.io/hostname': node},
                     'tolerations': [{'key': 'node.kubernetes.io/unschedulable',
                                      'operator': 'Exists'}],
                     'containers': [{'name': 'it', 'image': IMAGE, 'command': ['true'],
                                     'resources': {'requests': {'cpu': cpu}}}]}}


def test_an_elastic_job_goes_on_without_a_deleted_pod_and_with_the_next_one(reigen):  # noqa: F811
    kube = reigen.kube
    child, line = reigen.start(
        '--name', 'elastic', '-np', 2, '--min-np', 1, '--', 'sh', '-c',
        'echo $REIGEN_RANK of $REIGEN_SIZE; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo end')
    text = read_until(child, '[1] 1 of 2\n', text=line)
    head, lost = pods_of(kube, 'elastic', 2)
    kube.kubectl('delete', 'pod', name_of(lost), '--grace-period=1')
    text = read_until(child, '[0] 0 of 1\n', text=text)
    text = read_until(child, '[1] 1 of 2\n', 2, text)
    now = pods_of(kube, 'elastic', 2)
    assert name_of(now[0]) == name_of(head) and name_of(now[1]) != name_of(lost)
    let_go(kube, 'elastic', 2)
    out, err = child.communicate(timeout=LIMIT)
    assert child.returncode == 0 and out.count('end\n') == 2, (text + out, err)
    assert f'pod {name_of(now[1])} takes the place of {name_of(lost)}' in err, err
    assert 'aside' not in err and 'starts the job again' not in err, err
    reigen.wait_gone()


def test_an_elastic_job_shrinks_and_grows_as_its_job_is_patched(reigen):  # noqa: F811
    """Pods of the highest indexes go and come back; those that are left run on."""
    kube = reigen.kube

    def scale(npods):
        kube.kubectl('patch', 'job', 'elastic', '--type=merge', '-p', json.dumps(
            {'spec': {'parallelism': npods, 'completions': npods}}))
    child, line = reigen.start(
        '--name', 'elastic', '-np', 3, '--min-np', 1, '--', 'sh', '-c',
        'echo $REIGEN_RANK of $REIGEN_SIZE; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo end')
    text = read_until(child, '[2] 2 of 3\n', text=line)
    first = pods_of(kube, 'elastic', 3)
    scale(2)
    text = read_until(child, '[1] 1 of 2\n', text=text)
    scale(3)
    text = read_until(child, '[2] 2 of 3\n', 2, text)
    now = pods_of(kube, 'elastic', 3)
    assert [name_of(pod) for pod in now[:2]] == [name_of(pod) for pod in first[:2]]
    let_go(kube, 'elastic', 3)
    out, err = child.communicate(timeout=LIMIT)
    assert child.returncode == 0 and out.count('end\n') == 3, (text + out, err)
    assert 'aside' not in err and 'starts the job again' not in err, err
    reigen.wait_gone()


def test_an_elastic_release_of_the_chart_does_without_a_worker_until_it_is_back(kube):
    """By docs/chart.md's command line. Ranks that stay keep their processes, and lose no step."""
    image = {'repository': 'localhost/base', 'tag': 1}
    values = {'volumes': VOLUMES, 'volumeMounts': MOUNTS, 'worker': {'number': 2, 'image': image},
              'terminationGracePeriodSeconds': 20, 'master': {
                  'image': image, 'env': {'PATH': f'{PROGRAMS.reigen.parent}:/usr/bin:/bin'},
                  'args': 'reigen run -np 3 --min-np 2 --hostfile /horovod/generated/hostfile '
                          "--chaos 'slow:rank=0@step=3 by 50ms' -- "
                          f'{PROGRAMS.python} {PROGRAM} /tmp/stop'}}
    kube.run(['helm', 'install', 'mnist', ROOT / 'deploy/chart', '-f', '-'],
             input=json.dumps(values), check=True)

    def log():
        return kube.said('job/mnist-horovod')

    def said(pattern, count=1):
        until(lambda: len(re.findall(pattern, log(), re.M)) >= count, pattern, LIMIT,
              seen=lambda: log()[-3000:] + kube.state())
    said('step 3 size 3$')
    kube.kubectl('delete', 'pod', 'mnist-horovod-1', '--wait=false')
    said(r'step \d+ size 2$')
    said('train 2 of 3', 2)
    kube.kubectl('exec', 'job/mnist-horovod', '--', 'touch', '/tmp/stop')
    assert kube.end_of('mnist-horovod') == 'Complete', log()
    text = log()
    assert len(re.findall('done . of 3', text)) == 3 and 'aside' not in text, text
    assert len(re.findall('place . pid', text)) == 4 and 'ended with code' not in text, text
    numbers = [int(step) for step in re.findall(r'step (\d+) size', text)]
    assert numbers == sorted(set(numbers)), text


#: It saves its work at a commit, and its steps take longer than the grace time of the job.
SAVES = '''
import time, reigen
from horovod.common.elastic import ObjectState
reigen.init()
state = ObjectState(reigen.broadcast_object, reigen.rank, step=0)
state.register_preemption_callbacks([lambda: print('saved', flush=True)])
while True:
    print('step', flush=True)
    time.sleep(3)
    state.commit()
'''


def test_ranks_that_ask_for_notice_have_their_pods_time_for_it(reigen):  # noqa: F811
    child, line = reigen.start('--name', 'noticed', '-np', 2, '--grace', '400ms', '--', 'python3',
                               '-c', SAVES, image='localhost/trainer:1')
    text = read_until(child, '] step\n', 2, line)
    reigen.kube.kubectl('delete', 'pod', name_of(pods_of(reigen.kube, 'noticed', 2)[1]),
                        '--wait=false')
    read_until(child, '] saved\n', 2, text)
    assert reigen('stop', 'noticed').returncode == 0
    child.communicate(timeout=LIMIT)
    reigen.wait_gone()
