# SPDX-License-Identifier: Apache-2.0
"""OpenPAI's own example for Horovod, run for real: its job file as it is (pai/horovod-job.json, of
examples/horovod-with-azure-rdma-intel-mpi, MIT licence), checked, repaired, submitted to the tests'
server of either version, and run as two containers with Intel MPI, the platform's ssh, and real
digits. And `reigen wait-workers` alone, in plain scripts in containers."""
import hashlib
import json
import re
import subprocess

import pai_example
import pytest
import yaml
from bed import Cluster
from bed.pai import Containers, PaiServer
from built import PROGRAMS, ROOT
from pai_example import CODE, IMAGE, ORIGINAL, WORDS

pytestmark = pytest.mark.timeout(300)
#: From the moment when all containers run to the start of the first rank.
START_S = 2
KEY = 'REIGEN_KEY=' + '5ec2e7' * 10 + '0123'


@pytest.fixture(scope='module')
def platform():
    """Two hosts of the platform, and `pai`, where its server is and its users work."""
    with Cluster(2, dockerd=True, images=[f'pai={IMAGE}'], others=['pai']) as cluster:
        for node in cluster.nodes:
            node.write('image/Your', CODE, mode=0o755)
            for program in (PROGRAMS.reigen, PROGRAMS.agent):
                node.run(['ln', '-s', program, 'image/'], check=True)
        yield cluster
        cluster.assert_clean()


def image_of(node, **more):
    """What the image of a user of Intel MPI and Reigen has more, as words for docker."""
    return [*(f'--volume={folder}:{folder}:ro' for folder in pai_example.folders()),
            f'--volume={node.home()}/image:{pai_example.PLACE}:ro',
            *(f'--env={name}={value}' for name, value in pai_example.environment(**more).items())]


def run(node, *words):
    done = node.run([str(word) for word in words])
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def convert(user, version, path, *options):
    """The text of the file in the other version, and what was said about it."""
    done = run(user, PROGRAMS.reigen, 'pai', 'convert', '--to', version, *options, path)
    return done.stdout, done.stderr


def end_of(server, user, text):
    """Submit a job as curl does it, and give the job at its end."""
    path, kind = ('/api/v1/user/alice/jobs', 'application/json') if server.old else \
        ('/api/v2/jobs', 'text/yaml')
    user.write('job', text)
    done = run(user, 'curl', '-sS', '-w', '%{http_code}', '-H', f'Content-Type: {kind}', '-H',
               f'Authorization: Bearer {server.token("alice")}', '--data-binary', '@job',
               server.url + path)
    assert done.stdout.endswith('201' if server.old else '202'), done.stdout
    job = server.job('alice~horovod-job')
    assert job.wait(240), server.log(job, 'master', 0)
    assert not server.runner.errors
    return job


def start_of(server, job):
    """Seconds from the start of the last container to that of the first rank."""
    starts = re.findall(r'^rank started at ([\d.]+)$', server.log(job, 'master', 0), re.M)
    assert len(starts) == 2, server.log(job, 'master', 0)
    return min(map(float, starts)) - max(task.run.started_at for task in job.tasks)


def serve(platform, version, **image):
    runner = Containers(platform.nodes, docker=image_of(platform[1], **image))
    return PaiServer(version, runner=runner, at=platform['pai'])


def check_end(server, job):
    """It succeeded, on both hosts; the worker, which sleeps for ever, was ended."""
    words = server.log(job, 'master', 0)
    assert (job.state, job.code) == ('SUCCEEDED', 0), words + server.log(job, 'worker', 0)
    assert set(re.findall(r'^rank on (\w+)$', words, re.M)) == {'node1', 'node2'}, words
    ends = {task.show(): task.state for task in job.tasks}
    assert ends == {'master-0': 'SUCCEEDED', 'worker-0': 'STOPPED'}
    return words


# ---------------------------------------------------------------------------- the original's file

def test_the_file_is_checked_repaired_and_converted_there_and_back(platform):
    user = platform['pai']
    done = run(user, PROGRAMS.reigen, 'pai', 'check', '--json', ORIGINAL)
    found = json.loads(done.stdout)
    assert found['errors'] == 0 and found['version'] == 1, found
    assert any('wait-workers' in f['remedy'] for f in found['findings']), found
    text, said = convert(user, 'v1', ORIGINAL, '--image-has-reigen')
    assert 'wait-workers' in said
    job = json.loads(text)
    assert job['taskRoles'][0]['command'].split() == ['reigen', 'wait-workers', '&&', 'Your', WORDS]
    user.write('repaired.json', text)
    protocol, _ = convert(user, 'v2', 'repaired.json', '--image-has-reigen')
    assert yaml.safe_load(protocol)['taskRoles']['worker']['commands'] == ['sleep infinity']
    user.write('job.yaml', protocol)
    back, _ = convert(user, 'v1', 'job.yaml', '--image-has-reigen')
    assert json.loads(back) == job


def test_the_file_trains_as_two_containers_with_intel_mpi(platform):
    """On version 0.14, whose file it is, with a wait as long as needed."""
    text, _ = convert(platform['pai'], 'v1', ORIGINAL, '--image-has-reigen')
    with serve(platform, 'v0.14', TRAIN=1) as server:
        job = end_of(server, platform['pai'], text)
        words = check_end(server, job)
        assert 'parameters: identical to the bit on all 2 ranks' in words
        assert float(re.search(r'^accuracy ([\d.]+),', words, re.M)[1]) > 0.8, words


@pytest.mark.slow
@pytest.mark.serial
def test_the_first_rank_starts_within_two_seconds_of_the_last_container(platform):
    """Once in three jobs, since the machine may have other things to do at a moment."""
    text, _ = convert(platform['pai'], 'v1', ORIGINAL, '--image-has-reigen')
    took = []
    while len(took) < 3 and not (took and took[-1] <= START_S):
        with serve(platform, 'v0.14') as server:
            job = end_of(server, platform['pai'], text)
            check_end(server, job)
            took.append(start_of(server, job))
    assert took[-1] <= START_S, took


def test_the_file_runs_after_its_conversion_to_v2(platform):
    """On version 1.8, whose ssh plugin waits."""
    text, _ = convert(platform['pai'], 'v2', ORIGINAL)
    with serve(platform, 'v1.8') as server:
        check_end(server, end_of(server, platform['pai'], text))


def test_the_file_runs_in_an_image_that_has_no_reigen(platform):
    """Then a loop of the shell waits."""
    text, _ = convert(platform['pai'], 'v1', ORIGINAL)
    assert 'wait-workers' not in text and 'sleep 1000' not in text
    with serve(platform, 'v0.14', REIGEN_LIBRARY='') as server:
        job = end_of(server, platform['pai'], text)
        check_end(server, job)


# ---------------------------------------------------------------------------- jobs of reigen run

@pytest.mark.parametrize('version, words', [
    ('v0.14', 'true'),
    ('v1.8', f'/usr/bin/python {ROOT}/examples/pytorch_mnist.py --epochs 1 --batch-size 128')])
def test_reigen_run_makes_a_job_whose_agent_is_fetched(platform, version, words):
    """In an image that has no Intel MPI and no agent of Reigen's."""
    data = PROGRAMS.agent.read_bytes()
    user = platform['pai']
    with serve(platform, version, PATH='/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin') as server:
        url = server.publish('reigen-agent', data)
        done = user.run(
            [PROGRAMS.reigen, 'run', '--on', 'openpai', '-np', '2', '--image', IMAGE, '--name',
             'train', '--agent-url', f'{url}#sha256={hashlib.sha256(data).hexdigest()}', '--',
             'sh', '-c', f'echo "rank $RANK on $(uname -n)"; exec {words}'],
            env={'REIGEN_PAI_SERVER': server.url, 'REIGEN_PAI_TOKEN': server.token('alice')},
            timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr + str(server.runner.errors)
        ranks = re.findall(r'^(?:\S+ )?rank (\d) on (node\d)$', done.stdout, re.M)
        assert sorted(ranks) == [('0', 'node1'), ('1', 'node2')], done.stdout + done.stderr
        if version == 'v1.8':
            assert 'parameters: identical to the bit on all 2 ranks' in done.stdout
        assert server.job('alice~train').state == 'SUCCEEDED'


# ---------------------------------------------------------------------------- wait-workers alone

def start(node, script):
    """A plain script in a container, which has the host's network."""
    return node.popen(['docker', 'run', '--rm', '--network=host', '--env', KEY, *image_of(node),
                       IMAGE, 'bash', '-c', f'exec 2>&1; {script}'],
                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def test_a_plain_script_waits_for_workers_and_names_the_one_that_never_comes(platform):
    head, worker = platform.nodes
    wait = 'reigen wait-workers --no-ssh --port 9461'
    comes = start(worker, f'{wait} --head node1; echo worker $?')
    first = start(head, f'{wait} --hosts node2,pai --start-timeout 4; echo head $?')
    words, _ = first.communicate(timeout=60)
    assert words.endswith('head 124\n'), words
    assert 'pai (' in words.splitlines()[-2] and 'node2 (' not in words.splitlines()[-2], words
    comes.kill_all()
    comes.communicate()
    for name in worker.containers():
        worker.docker('rm', '-f', name)


def test_a_plain_script_goes_on_when_all_workers_are_there_and_they_end_with_it(platform):
    head, worker = platform.nodes
    wait = 'reigen wait-workers --no-ssh --port 9461'
    comes = start(worker, f'{wait} --head node1; echo worker $?')
    first = start(head, f'{wait} --hosts node2 && echo all are there; sleep 1; echo over')
    words, _ = first.communicate(timeout=90)
    assert 'all are there\nover\n' in words, words
    words, _ = comes.communicate(timeout=60)
    assert words.endswith('worker 0\n'), words


def test_a_host_without_its_sshd_is_named(platform):
    head, user = platform[1], platform['pai']
    wait = [PROGRAMS.reigen, 'wait-workers', '--hosts', f'node2,{user.address}']
    user.stop_sshd()
    try:
        done = head.run([*wait, '--start-timeout', '3'])
    finally:
        user.start_sshd()
    assert done.returncode == 124, done.stdout + done.stderr
    last = done.stderr.splitlines()[-1]
    assert f'{user.address} (' in last and 'refused' in last and 'node2 (' not in last, done.stderr
    done = head.run([*wait, '--start-timeout', '30'])
    assert done.returncode == 0, done.stderr
