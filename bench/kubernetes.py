# SPDX-License-Identifier: Apache-2.0
"""Jobs on Kubernetes beside what Kubernetes takes for itself, on simulated nodes.

usage: bench/kubernetes.py [--rounds N] [--pods N] [--write]

On three nodes that have the image, commands of the user's computer take turns, in the opposite
order every other round: a bare Indexed Job of three pods until all of them run; one with the
objects that a job of ours needs, until its pods have reached its first one; and `reigen run` of a C
program until it has left its first barrier on all three, with and without Reigen's Python packages.
Kubelets look at their pods once a second, and a turn ends when one has looked; so a random part of
a second passes before the next one begins. Then what a stop and an uninstall take until nothing is
left, `helm template`, and the memory of the head. Prints a table of medians and 10th percentiles,
and which targets were met; --write puts it into docs/benchmarks-kubernetes.md. Ends with 1 when a
target was missed. With another number of pods it measures their start alone, and prints that.
"""
import argparse
import base64
import contextlib
import datetime
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / 'docs/benchmarks-kubernetes.md'
FOLDER = ROOT / 'build/bench-kubernetes'
CHART = ROOT / 'deploy/chart'
sys.path.insert(0, str(ROOT / 'tests'))

from bed import KubeCluster  # noqa: E402 (needs the path above)
from bed.kube_store import tag  # noqa: E402
from bed.node import wait_until  # noqa: E402

REIGEN = FOLDER / 'installed/bin/reigen'  # stripped, as users have it: its packages go to the pods
IMAGE = tag('base')
NODES = 3
PODS = 3
START_FACTOR = 1.2
GONE_MS = 10000
TEMPLATE_MS = 1000
HEAD_MIB = 32
STOPS = 3
KINDS = 'all,configmaps,secrets,serviceaccounts,roles,rolebindings'

PAGE_TEXT = """# Benchmarks: Kubernetes

`bench/kubernetes.py --write` measures this page: Kubernetes 1.33 with three simulated nodes on one
machine, which have the image. Milliseconds are the median (10th percentile) of {rounds} rounds in
turns.

{table}

The bare Job is `kubectl create` of {pods} pods that sleep. The Job with a Service takes
{floor:.2f} times as long, `reigen run` {ours:.2f}, and without packages {plain:.2f} times; in
rounds without refusals {free_floor:.2f}, {free_ours:.2f} and {free_plain:.2f} times.

*Refused* counts rounds in which a kubelet asked for a ConfigMap or Secret before a busy API server
knew its pod: it asks again a second later. The targets for `reigen stop` and Helm take the worst of
{stops} rounds, those for `helm template` the median:

{targets}

Measured {now} on {cores} cores; load before it {load:.1f}.
"""


def note(samples, **found):
    """Keep what a round has found, and show it to who waits."""
    print({name: round(value) for name, value in found.items()}, file=sys.stderr, flush=True)
    for name, value in found.items():
        samples.setdefault(name, []).append(value)


# ---------------------------------------------------------------------------- a job's start

def make_programs():
    """Reigen as users have it; and the barrier's program, with the library that it loads beside
    it, for pods to mount."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    subprocess.run([ROOT / 'tools/install.sh'], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, 'PREFIX': str(FOLDER / 'installed')})
    shutil.copy(ROOT / 'build/src/coll/libreigen.so', FOLDER)
    subprocess.run(['cc', '-O2', '-I', ROOT / 'include', '-o', FOLDER / 'barrier',
                    ROOT / 'bench/barrier.c', '-L', FOLDER, '-lreigen', f'-Wl,-rpath-link,{FOLDER}',
                    '-Wl,--disable-new-dtags,-rpath,$ORIGIN'], check=True)


def bare_job(name):
    container = {'name': 'bare', 'image': IMAGE,
                 'command': ['sh', '-c', 'date +%s%N; exec sleep 600']}
    return {'apiVersion': 'batch/v1', 'kind': 'Job', 'metadata': {'name': name}, 'spec': {
        'completionMode': 'Indexed', 'completions': PODS, 'parallelism': PODS,
        'template': {'spec': {'restartPolicy': 'Never', 'terminationGracePeriodSeconds': 0,
                              'containers': [container]}}}}


# A kernel repeats a call that is not answered after a second: so do not wait for that.
MEETS = '''import os, socket, time
if os.environ['JOB_COMPLETION_INDEX'] == '0':
    listener = socket.create_server(('', 7461))
    time.sleep(600)
while True:
    try:
        socket.create_connection((os.environ['MEET_SERVICE_HOST'], 7461), 0.1)
        break
    except OSError:
        time.sleep(0.02)
print(time.time_ns())'''


def floor_objects(name):
    """The same Job with what ours needs: its pods reach the first one by a Service."""
    job = bare_job(name)
    pod = job['spec']['template']['spec']
    container, = pod['containers']
    container['command'] = ['python3', '-c', MEETS]
    container['volumeMounts'] = [{'name': 'agent', 'mountPath': '/agent'},
                                 {'name': 'key', 'mountPath': '/key'}]
    pod['automountServiceAccountToken'] = False
    pod['volumes'] = [{'name': 'agent', 'configMap': {'name': name}},
                      {'name': 'key', 'secret': {'secretName': name}}]
    agent = base64.b64encode(REIGEN.with_name('reigen-agent').read_bytes()).decode()
    head = {'batch.kubernetes.io/job-name': name, 'batch.kubernetes.io/job-completion-index': '0'}
    return [{'apiVersion': 'v1', 'kind': kind, 'metadata': {'name': own}, **more}
            for kind, own, more in (
                ('Service', 'meet', {'spec': {
                    'selector': head, 'publishNotReadyAddresses': True,
                    'ports': [{'port': 7461}]}}),
                ('ConfigMap', name, {'immutable': True, 'binaryData': {'reigen-agent': agent}}),
                ('Secret', name, {'immutable': True, 'stringData': {'key': '0' * 64}}))] + [job]


@contextlib.contextmanager
def watched(kube):
    """Lines of phases of pods, as they change, from before a `with` begins until it ends."""
    with kube.popen(['kubectl', 'get', 'pods', '--watch', '--output=jsonpath={.metadata.name} '
                     '{.status.phase}{"\\n"}'], stdout=subprocess.PIPE, text=True) as child:
        time.sleep(0.5)  # a watch says nothing of having begun
        try:
            yield child.stdout
        finally:
            child.kill_all()


def gone(kube, job):
    wait_until(lambda: not kube.names('pods', f'--selector=job-name={job}'), 60, 'no pod of before')


def bare(kube, name):
    """Milliseconds until all pods run, and until their containers do."""
    running = set()
    with watched(kube) as lines:
        begin = time.time()
        kube.run(['kubectl', 'create', '-f', '-'], input=json.dumps(bare_job(name)), check=True)
        while len(running) < PODS:
            pod, phase = lines.readline().split()
            running |= {pod} if phase == 'Running' else set()
        took = (time.time() - begin) * 1000
    said = kube.kubectl('logs', f'--selector=job-name={name}').split()
    kube.kubectl('delete', 'job', name)
    gone(kube, name)
    return took, max(int(word) / 1e6 for word in said) - begin * 1000


def floor(kube, name):
    """Milliseconds until each pod but the first one has reached that."""
    done = set()
    text = json.dumps({'apiVersion': 'v1', 'kind': 'List', 'items': floor_objects(name)})
    with watched(kube) as lines:
        begin = time.time()
        kube.run(['kubectl', 'create', '--validate=false', '-f', '-'], input=text, check=True)
        while len(done) < PODS - 1:
            pod, phase = lines.readline().split()
            done |= {pod} if phase == 'Succeeded' else set()
    said = kube.kubectl('logs', f'--selector=job-name={name}').split()
    kube.kubectl('delete', f'job/{name}', 'service/meet', f'configmap/{name}', f'secret/{name}')
    gone(kube, name)
    return max(int(word) / 1e6 for word in said) - begin * 1000


def ours(kube, name, *words):
    """Milliseconds until the last rank has left its first barrier."""
    begin = time.time()
    done = kube.run([str(REIGEN), 'run', '--on', 'kubernetes', '--name', name, '--image', IMAGE,
                     '-np', str(PODS), '--volume', f'{FOLDER}:{FOLDER}:ro', *words, '--',
                     f'{FOLDER}/barrier', 'when'], timeout=120)
    met = re.findall(r'met (\d+)$', done.stdout, re.M)
    if done.returncode or len(met) != PODS:
        raise SystemExit(f'reigen run: {done.returncode}\n{done.stdout}{done.stderr}')
    gone(kube, name)
    return max(int(word) / 1e6 for word in met) - begin * 1000


def count_refusals(cluster):
    """How often a kubelet was refused what its pod needs, as its pod was not known yet."""
    return sum(len(re.findall(b'"Failed to watch".*no relationship found between node',
                              (node.folder / 'kubelet.log').read_bytes()))
               for node in cluster.nodes)


def starts(cluster, kube, rounds):
    """{name: [milliseconds, ...]}, and {'NAME refused': [whether, ...]}."""
    samples = {}
    for number in range(rounds + 1):  # the first warms up
        name = f'round-{number}'
        turns = [('bare', lambda: bare(kube, f'bare-{number}')),
                 ('floor', lambda: floor(kube, f'floor-{number}')),
                 ('ours', lambda: ours(kube, f'ours-{number}')),
                 ('plain', lambda: ours(kube, f'plain-{number}', '--no-inject-runtime'))]
        found = {}
        for name, turn in turns if number % 2 else turns[::-1]:
            time.sleep(random.random())
            before = count_refusals(cluster)
            found[name] = turn()
            found[f'{name} refused'] = count_refusals(cluster) > before
        found['bare'], found['containers'] = found['bare']
        note(samples if number else {}, **found)
    return samples


# ---------------------------------------------------------------------------- the rest

def left(kube):
    return [name for name in kube.kubectl('get', KINDS, '--output=name').split()
            if not name.endswith(('/kube-root-ca.crt', '/default'))]


def until_nothing(kube, argv):
    begin = time.monotonic()
    kube.run(argv, check=True, timeout=120)
    wait_until(lambda: not left(kube), 60, 'nothing left')
    return (time.monotonic() - begin) * 1000


def head_mib(kube, job):
    """The highest resident memory of the agent's processes in the head's pod, together."""
    pod, = kube.names('pods', f'--selector=job-name={job},'
                      'batch.kubernetes.io/job-completion-index=0')
    said = kube.kubectl('exec', pod, '--', 'sh', '-c', 'grep -h -e ^Name -e ^VmHWM '
                        '/proc/[0-9]*/status')
    found = re.findall(r'Name:\s+(rg-\S*)\nVmHWM:\s+(\d+) kB', said)
    assert found, said
    return sum(int(kib) for _, kib in found) / 1024


def stop(kube, name):
    """Milliseconds that `reigen stop` takes until nothing is left, and the head's memory."""
    child = kube.popen([str(REIGEN), 'run', '--on', 'kubernetes', '--name', name, '--image', IMAGE,
                        '-np', str(PODS), '--', 'sh', '-c', 'echo up; exec sleep 600'],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    with child:
        try:
            while not child.stdout.readline().endswith('up\n'):
                pass
            memory = head_mib(kube, name)
            took = until_nothing(kube, [str(REIGEN), 'stop', name])
        finally:
            child.kill_all()
    return took, memory


def uninstall(kube, helm):
    values = {'ssh': {'useSecrets': True}, 'worker': {'number': PODS}, 'master': {
        'args': 'sleep 600'}}
    for pod in ('worker', 'master'):
        values[pod]['image'] = dict(zip(('repository', 'tag'), IMAGE.rsplit(':', 1)))
    kube.run([helm, 'install', 'bench', str(CHART), '-f', '-'], input=json.dumps(values),
             check=True)
    kube.wait('condition=Ready', 'pod', '--selector=release=bench,role=worker', timeout=120)
    return until_nothing(kube, [helm, 'uninstall', 'bench'])


def template(kube, helm):
    begin = time.monotonic()
    kube.run([helm, 'template', 'bench', str(CHART)], check=True)
    return (time.monotonic() - begin) * 1000


def measure(rounds):
    """{name: [value, ...]}"""
    make_programs()
    with KubeCluster(NODES, images=['base']) as cluster:
        with cluster.namespace() as kube:
            samples = starts(cluster, kube, rounds)
        if PODS != NODES:
            return samples
        with cluster.namespace() as kube:
            for number in range(STOPS):
                took, memory = stop(kube, f'stop-{number}')
                note(samples, stop=took, memory=memory)
                for helm in ('helm', 'helm4'):
                    note(samples, **{f'{helm} uninstall': uninstall(kube, helm),
                                     f'{helm} template': template(kube, helm)})
    return samples


# ---------------------------------------------------------------------------- the page

ROWS = {
    'bare': 'a bare Indexed Job of {pods} pods: all its pods run',
    'containers': 'likewise: its containers\' first words',
    'floor': 'one with a Service, a ConfigMap and a Secret: its last pod reaches its first one',
    'ours': '`reigen run --on kubernetes -np {pods}`: first barrier',
    'plain': 'likewise with `--no-inject-runtime`',
    'stop': '`reigen stop`: nothing is left',
    'helm uninstall': '`helm uninstall`, Helm 3: nothing is left',
    'helm4 uninstall': '`helm uninstall`, Helm 4: nothing is left',
    'helm template': '`helm template`, Helm 3',
    'helm4 template': '`helm template`, Helm 4',
}


#: What only has a target.
ENDS = [name for name in ROWS if name.startswith(('stop', 'helm'))]


def cell(values):
    return f'{statistics.median(values):.0f} ({sorted(values)[len(values) // 10]:.0f})'


def others(samples, name):
    """What was measured in the rounds without a refusal."""
    return [value for value, refused in zip(samples[name], samples[f'{name} refused'])
            if not refused]


def make_table(samples):
    yield '| | ms | refused | ms of the other rounds |'
    yield '|---|---|---|---|'
    for name, text in ROWS.items():
        more = '| |'
        if f'{name} refused' in samples:
            rest = others(samples, name)
            more = f'{sum(samples[f"{name} refused"])} | {cell(rest) if rest else "none"} |'
        if name in samples and name not in ENDS:
            yield f'| {text.format(pods=PODS)} | {cell(samples[name])} | {more}'


def targets(samples):
    median = statistics.median
    bound = START_FACTOR * median(samples['bare'])
    yield f'first barrier: {START_FACTOR} x all pods of the bare Job run', 'ms', bound, median(
        samples['ours'])
    for name in ('stop', 'helm uninstall', 'helm4 uninstall'):
        yield ROWS[name], 'ms', GONE_MS, max(samples[name])
    for name in ('helm template', 'helm4 template'):
        yield ROWS[name], 'ms', TEMPLATE_MS, median(samples[name])
    yield 'head and agent in the pod of index 0: most memory', 'MiB', HEAD_MIB, max(
        samples['memory'])


def page(args):
    """The text, and whether all targets were met."""
    load = os.getloadavg()[0]
    samples = measure(args.rounds)
    found = list(targets(samples))
    limits = ['| target | at most | measured | |', '|---|---|---|---|']
    limits += [f'| {name} | {most:.0f} {unit} | {took:.0f} {unit} | '
               f'{"pass" if took <= most else "MISSED"} |' for name, unit, most, took in found]
    now = datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC')
    median = statistics.median
    ratios = {name: median(samples[name]) / median(samples['bare'])
              for name in ('floor', 'ours', 'plain')}
    ratios |= {f'free_{name}': median(others(samples, name) or samples[name]) /
               median(others(samples, 'bare') or samples['bare']) for name in tuple(ratios)}
    text = PAGE_TEXT.format(**ratios, rounds=args.rounds, stops=STOPS, pods=PODS,
                            table='\n'.join(make_table(samples)),
                            targets='\n'.join(limits), now=now, cores=os.cpu_count(), load=load)
    return text, all(took <= most for _, _, most, took in found)


def main():
    global PODS
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--pods', type=int, default=NODES)
    parser.add_argument('--write', action='store_true')
    args = parser.parse_args()
    PODS = args.pods
    if PODS != NODES:
        print('\n'.join(make_table(measure(args.rounds))))
        return 0
    text, good = page(args)
    print(text)
    if args.write:
        PAGE.write_text(text)
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
