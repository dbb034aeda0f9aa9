# SPDX-License-Identifier: Apache-2.0
"""reigen run --config with a job of OpenPAI's: its roles as local tasks, for both versions."""
import json
import re
import socket

import pytest
import yaml

from built import environment
from test_hosts import ssh  # noqa: F401 (a fixture)

V2 = {
    'protocolVersion': 2, 'name': 'train', 'type': 'job',
    'prerequisites': [{'name': 'image', 'type': 'dockerimage', 'uri': 'train:1'}],
    'parameters': {'rate': 0.5},
    'taskRoles': {}, 'defaults': {'virtualCluster': 'default'}}

#: With which a task says that it is there, and goes on.
STAY = 'echo up; exec sleep 300'


def role(name, command, tasks=1, **more):
    """A role of v1's."""
    return {'name': name, 'taskNumber': tasks, 'cpuNumber': 1, 'memoryMB': 256, 'shmMB': 64,
            'gpuNumber': 0, 'command': command, **more}


def v1(*roles, **more):
    return {'jobName': 'train', 'image': 'train:1', 'taskRoles': list(roles), **more}


def as_v2(job, **more):
    """The same job as a file of protocol v2."""
    roles = {
        r['name']: {
            'instances': r['taskNumber'], 'dockerImage': 'image', 'commands': [r['command']],
            'completion': {'minFailedInstances': r.get('minFailedTaskCount', 1),
                           'minSucceededInstances': r.get('minSucceededTaskCount')},
            'resourcePerInstance': {
                'cpu': 1, 'memoryMB': 256, 'gpu': 0,
                **({'ports': {p['label']: p['portNumber'] for p in r['portList']}}
                   if 'portList' in r else {})}}
        for r in job['taskRoles']}
    return {**V2, 'taskRoles': roles, **more}


@pytest.fixture
def config(reigen, tmp_path):
    """config(job, *options): run it here, without its image."""
    def run(job, *options, image='none', **kwargs):
        path = tmp_path / 'job.txt'
        text = yaml.safe_dump(job, sort_keys=False) if 'protocolVersion' in job else json.dumps(job)
        path.write_bytes(job if isinstance(job, bytes) else text.encode())
        return reigen('run', '--config', path, '--tag-output',
                      *(('--image', image) if image else ()), *options, **kwargs)

    return run


def lines_of(done, task):
    return [line.split('] ', 1)[1] for line in done.stdout.splitlines()
            if line.startswith(f'[{task}] ')]


def variables_of(done, task):
    return dict(line.split('=', 1) for line in lines_of(done, task) if '=' in line)


BOTH = pytest.mark.parametrize('version', [lambda job: job, as_v2], ids=['v1', 'v2'])


@BOTH
def test_each_task_runs_its_roles_command(config, version):
    worker = 'sleep 1; echo w$PAI_TASK_INDEX $PAI_CURRENT_TASK_ROLE_NAME'
    done = config(version(v1(role('worker', worker, 2), role('master', 'echo m; sleep 2'))), '-q')
    assert (done.returncode, done.stderr) == (0, '')
    assert sorted(done.stdout.splitlines()) == [
        '[master-0] m', '[worker-0] w0 worker', '[worker-1] w1 worker']


def test_commands_are_bashs(config):
    done = config(v1(role('one', 'a=(1 2 3); echo ${#a[@]}')))
    assert done.returncode == 0 and lines_of(done, 'one-0') == ['3']


@BOTH
def test_a_master_that_has_succeeded_ends_its_workers(config, version):
    done = config(version(v1(role('master', 'echo done', minSucceededTaskCount=1),
                             role('worker', STAY, 2))), '--grace', '20s', timeout=30)
    assert done.returncode == 0, done.stderr
    assert lines_of(done, 'master-0') == ['done']


def test_workers_are_enough_when_so_many_have_succeeded(config):
    command = 'if [ $PAI_TASK_INDEX = 2 ]; then exec sleep 300; fi'
    done = config(v1(role('worker', command, 3, minSucceededTaskCount=2)), timeout=30)
    assert done.returncode == 0, done.stderr


def test_a_role_of_v2_is_enough_when_all_of_it_has_succeeded(config):
    done = config(as_v2(v1(role('chief', 'true', 2), role('worker', STAY))), timeout=30)
    assert done.returncode == 0, done.stderr


@BOTH
def test_a_failure_ends_the_job_with_its_code(config, version):
    done = config(version(v1(role('master', STAY), role('worker', 'exit 7'))), timeout=30)
    assert done.returncode == 7
    assert re.search(r'worker-0 on \S+ failed: exit code 7', done.stderr)
    assert 'died of it: master-0: signal 15' in done.stderr
    assert "exit code 7, worker-0's own" in done.stderr


def test_fewer_failures_than_the_rule_says_are_borne(config):
    job = v1(role('worker', 'exit $((PAI_TASK_INDEX + 3))', 2, minFailedTaskCount=2),
             role('master', 'sleep 2'))
    first = config(v1(role('worker', 'exit $PAI_TASK_INDEX', 2, minFailedTaskCount=2)))
    assert first.returncode == 0, first.stderr
    both = config(job)
    assert both.returncode in (3, 4)
    assert re.search(r'worker-[01] on \S+ failed: exit code [34]', both.stderr)


def test_failures_that_no_rule_counts_are_borne(config):
    job = v1(role('worker', 'exit 5', 2, minFailedTaskCount=None), role('master', 'true'),
             role('other', 'exit 6', minFailedTaskCount=None))
    done = config(job)
    assert done.returncode == 0, done.stderr
    told = 'reigen: failed, as the rules of the roles allow: '
    assert f'{told}worker-0, worker-1: exit code 5\n{told}other-0: exit code 6\n' in done.stderr
    assert told not in config(job, '-q').stderr
    # Who is ended because others were enough has not failed.
    ended = v1(role('master', 'true', minSucceededTaskCount=1), role('worker', STAY, 2))
    assert told not in config(ended, timeout=30).stderr


def test_both_failing_alike_is_one_line(config):
    done = config(v1(role('worker', 'sleep 1; echo bad >&2; exit 5', 2)))
    assert done.returncode == 5
    assert 'both tasks failed with the same error' in done.stderr


def test_tasks_find_one_another(config):
    done = config(v1(role('master', 'env', minSucceededTaskCount=1),
                     role('worker', STAY, 2, portList=[
                         {'label': 'data', 'beginAt': 0, 'portNumber': 3},
                         {'label': 'fixed', 'beginAt': 4711, 'portNumber': 2}])),
                  timeout=30)
    assert done.returncode == 0, done.stderr
    found = variables_of(done, 'master-0')
    assert found['PAI_TASK_ROLE_LIST'] == 'master,worker'
    assert found['PAI_TASK_ROLE_TASK_COUNT_worker'] == '2'
    assert found['PAI_JOB_NAME'].endswith('~train')
    assert found['PAI_RESOURCE'] == '0,1,256,64'
    assert found['PAI_MIN_SUCCEEDED_TASK_COUNT_master'] == '1'
    assert 'PAI_MIN_FAILED_TASK_COUNT_worker' not in found
    assert found['PAI_PORT_LIST_worker_1_fixed'] == '4711,4712'
    assert 'REIGEN_RANK' not in found
    places = [f"{found[f'PAI_HOST_IP_worker_{i}']}:{found[f'PAI_PORT_LIST_worker_{i}_http']}"
              for i in range(2)]
    assert found['PAI_TASK_ROLE_worker_HOST_LIST'] == ','.join(places)
    ports = [int(port) for name, value in found.items() for port in value.split(',')
             if re.fullmatch(r'PAI_PORT_LIST_(master|worker)_\d_(http|ssh|data)', name)]
    assert len(ports) == 3 * 2 + 2 * 3 == len(set(ports))
    for port in ports:
        with socket.create_server(('', port)):
            pass


def test_v2_tells_of_all_roles(config):
    done = config(as_v2(v1(role('master', 'env', minSucceededTaskCount=1),
                           role('worker', STAY, 2))), timeout=30)
    found = variables_of(done, 'master-0')
    assert found['PAI_TASK_ROLE_INSTANCES'] == 'master:0,worker:0,worker:1'
    assert found['PAI_MIN_SUCCEEDED_TASK_COUNT_worker'] == '2'
    assert found['PAI_RESOURCE_worker'] == '0,1,256,512'
    assert found['PAI_FRAMEWORK_NAME'] == found['PAI_JOB_NAME']
    assert 'FRAMEWORK_NAME' not in found


def test_ports_are_of_the_jobs_range(config):
    with socket.create_server(('', 0)) as taken:
        port = min(taken.getsockname()[1], 65000)
        done = config(v1(role('one', 'env')), '--port-range', f'{port}-{port + 40}')
    found = variables_of(done, 'one-0')
    ports = {int(found['PAI_CONTAINER_HOST_PORT']), int(found['PAI_CONTAINER_SSH_PORT'])}
    assert len(ports) == 2 and ports <= set(range(port + 1, port + 41))


def test_a_range_with_too_few_ports_is_told(config):
    done = config(v1(role('one', 'true', 3)), '--port-range', '42000-42003')
    assert done.returncode == 69 and '--port-range 42000-42003' in done.stderr


def test_names_of_tasks_are_hosts(config):
    done = config(v1(role('master', 'ssh worker-1 echo there; ssh worker-7 true',
                          minSucceededTaskCount=1, minFailedTaskCount=None),
                     role('worker', 'exec sleep 5', 2)), timeout=30)
    assert lines_of(done, 'master-0')[0] == 'there'
    assert 'no host of this job has this name' in done.stderr


def test_commands_for_a_task_have_its_variables(config):
    """As on the platform, where each login has them."""
    said = "ssh worker-$i 'echo $PAI_CURRENT_TASK_ROLE_NAME $PAI_TASK_INDEX $REIGEN_RANK.'"
    done = config(v1(role('master', f'for i in 0 1; do {said}; done', minSucceededTaskCount=1),
                     role('worker', STAY, 2)), timeout=30)
    assert done.returncode == 0, done
    assert lines_of(done, 'master-0') == ['worker 0 .', 'worker 1 .'], done


def test_the_example_runs_as_it_is_with_its_command_replaced(config):
    """Its own command is words in Chinese, broken on the way: kept, and found by nobody."""
    text = 'sleep 1000 &&  echo Your code\u00d4\u00ba\u00c5'
    example = {
        'jobName': 'horovod-job', 'image': 'your/images/url', 'virtualCluster': 'default',
        'taskRoles': [
            {'name': name, 'taskNumber': 1, 'cpuNumber': 2, 'memoryMB': 10240, 'shmMB': 256,
             'gpuNumber': 1, 'minFailedTaskCount': 1, 'minSucceededTaskCount': 1,
             'command': command}
            for name, command in (('master', text), ('worker', 'sleep infinity'))],
        'jobEnvs': {'paiAzRDMA': True}}
    done = config(example, timeout=30)
    assert done.returncode == 0, done.stderr
    assert lines_of(done, 'master-0') == ['Your code\u00d4\u00ba\u00c5']
    assert 'role master: "sleep 1000" is left out' in done.stderr
    example['taskRoles'][0]['command'] = text.replace('echo ', '')
    done = config(example, timeout=30)
    assert done.returncode == 127
    assert 'Your: command not found' in done.stderr


def test_a_mistaken_sleep_elsewhere_stays(config):
    done = config(v1(role('one', 'echo a; sleep 0.1 && echo b')), '-q')
    assert lines_of(done, 'one-0') == ['a', 'b']


def test_templates_are_filled_and_deployments_count(config):
    job = as_v2(v1(role('one', 'echo <% $parameters.rate %> <% $parameters.none %>')),
                deployments=[{'name': 'p', 'taskRoles': {
                    'one': {'preCommands': ['echo before'], 'postCommands': ['echo after']}}}],
                defaults={'deployment': 'p'})
    job['taskRoles']['one']['commands'][0] = 'echo <% $parameters.rate %>'
    job['taskRoles']['one']['commands'].append('for i in 1 2; do\n  echo $i\ndone')
    done = config(job)
    assert done.returncode == 0, done.stderr
    assert lines_of(done, 'one-0') == ['before', '0.5', '1', '2', 'after']


def test_a_secret_in_a_command_is_refused(config):
    job = as_v2(v1(role('one', 'login <% $secrets.password %>')), secrets={'password': '******'})
    done = config(job)
    assert done.returncode == 2
    assert '--share-env NAME' in done.stderr and 'taskRoles.one' in done.stderr


def test_job_envs_and_options_reach_tasks(config):
    done = config(v1(role('one', 'env'), jobEnvs={'A': 1, 'B': 'x y', 'paiAzRDMA': True}),
                  '-x', 'B=mine')
    found = variables_of(done, 'one-0')
    assert found['A'] == '1' and found['B'] == 'mine' and 'paiAzRDMA' not in found


@pytest.mark.parametrize('options, says', [
    (('-np', '2'), '-np: '), (('--engine', 'openmpi'), '--engine: '),
    (('--tf-config',), '--tf-config: '), (('--', 'true'), 'a command: ')])
def test_what_the_file_says_is_not_said_again(config, options, says):
    done = config(v1(role('one', 'true')), *options)
    assert done.returncode == 2
    assert done.stderr.startswith(f'reigen: {says}') and 'has roles' in done.stderr


@pytest.mark.parametrize('begin, count', [(65534, 3), (70000, 1)])
def test_ports_that_there_are_not_are_refused(config, begin, count):
    done = config(v1(role('one', 'true', portList=[
        {'label': 'a', 'beginAt': begin, 'portNumber': count}])))
    assert done.returncode == 2 and 'make beginAt smaller' in done.stderr


def test_too_many_roles_are_refused_and_numbered(config):
    done = config(v1(*(role(f'r{i}', 'true') for i in range(1025))))
    assert done.returncode == 2 and '1025 roles; reigen run takes 1 to 1024' in done.stderr


def test_a_mark_of_byte_order_is_read_over(reigen, tmp_path):
    path = tmp_path / 'job.json'
    path.write_bytes(b'\xef\xbb\xbf' + json.dumps(v1(role('one', 'echo a'))).encode())
    done = reigen('run', '--config', path, '--image', 'none')
    assert (done.returncode, done.stdout) == (0, 'a\n')


@BOTH
def test_a_sleep_that_keeps_a_worker_alive_stays(config, version):
    done = config(version(v1(role('master', 'sleep 1; echo m', minSucceededTaskCount=1),
                             role('worker', 'sleep 300; exit 3'))), timeout=30)
    assert done.returncode == 0, done.stderr
    assert 'role master: "sleep 1" is left out' in done.stderr
    assert 'role worker' not in done.stderr


@pytest.mark.parametrize('unsaid', [None, 0])
def test_what_v2_does_not_say_is_the_servers_default(config, unsaid):
    job = as_v2(v1(role('chief', 'env', minSucceededTaskCount=unsaid, minFailedTaskCount=unsaid),
                   role('worker', STAY)))
    done = config(job, timeout=30)
    assert done.returncode == 0, done.stderr
    found = variables_of(done, 'chief-0')
    assert found['PAI_MIN_FAILED_TASK_COUNT_chief'] == '1'
    assert found['PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT'] == '1'
    job['taskRoles']['chief']['commands'] = ['exit 7']
    assert config(job, timeout=30).returncode == 7


def test_below_0_is_none_in_v2(config):
    done = config(as_v2(v1(role('chief', 'exit 7', minFailedTaskCount=-1),
                           role('other', 'env', minSucceededTaskCount=-1),
                           role('last', 'sleep 1; echo end'))), timeout=30)
    assert done.returncode == 0 and lines_of(done, 'last-0') == ['end'], done.stderr
    assert variables_of(done, 'other-0')['PAI_MIN_SUCCEEDED_TASK_COUNT_other'] == '-1'


@pytest.mark.parametrize('change, says', [
    ({'taskRoles': []}, 'taskRoles'), ({'image': ''}, 'image'), ({'more': 1}, 'more'),
    ({'jobName': 'a b'}, 'jobName')])
def test_errors_have_their_place(config, change, says):
    done = config({**v1(role('one', 'true')), **change})
    assert done.returncode == 2
    assert re.match(r'reigen: \S+/job\.txt:1:\d+: ', done.stderr), done.stderr
    assert says in done.stderr


def test_a_file_that_is_broken_is_one_of_openpais(config, reigen, tmp_path):
    (tmp_path / 'broken.json').write_text('{"jobName": "a", "taskRoles": [')
    done = reigen('run', '--config', tmp_path / 'broken.json')
    assert done.returncode == 2 and 'broken.json:1:' in done.stderr


def test_no_job_file_of_ours_is_taken_for_one(reigen, tmp_path):
    (tmp_path / 'job.yaml').write_text('command: [echo, taskRoles, jobName]\nnp: 1\n')
    done = reigen('run', '--config', tmp_path / 'job.yaml')
    assert (done.returncode, done.stdout) == (0, 'taskRoles jobName\n')


def test_dry_run_shows_each_task(config):
    done = config(v1(role('worker', "echo it's me", 2), role('master', 'sleep 1000 && train.py')),
                  '--dry-run')
    assert done.returncode == 0
    assert '3 tasks on 1 host' in done.stdout and 'master-0, worker-0, worker-1' in done.stdout
    assert re.search(r'^# master-0 on localhost.*\n#     env .*bash -c train\.py$', done.stdout,
                     re.M)
    assert done.stdout.count("bash -c 'echo it'\\''s me'") == 2


def test_its_image_is_the_containers(config):
    done = config(v1(role('one', 'true', shmMB=128)), '--dry-run', image=None)
    assert done.returncode == 0
    container = re.search(r'^# container on localhost: (.*)$', done.stdout, re.M)[1]
    assert 'train:1' in container and re.search(rf'--shm-size[= ]{128 << 20}', container)


def test_tasks_wait_for_one_another_as_on_the_platform(config, programs):
    """Without ssh, by the key that the job has for its tasks."""
    path = f'PATH={programs.reigen.parent}:/usr/bin:/bin'
    done = config(v1(role('master', 'reigen wait-workers --no-ssh && echo ready',
                          minSucceededTaskCount=1),
                     role('worker', 'reigen wait-workers', 2)), '-x', path, timeout=60)
    assert done.returncode == 0, done.stderr
    assert 'ready' in lines_of(done, 'master-0')


def test_each_task_has_a_host_of_its_own(config, ssh):  # noqa: F811
    done = config(v1(role('worker', 'echo on $LOGIN; exec sleep 300', 2),
                     role('master', "echo on $LOGIN; ssh worker-1 'echo 1 is on $LOGIN'; sleep 1",
                          minSucceededTaskCount=1)),
                  '-H', 'a,b,c', '--no-inject-runtime', env=ssh(), timeout=30)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        '[master-0] 1 is on c', '[master-0] on a', '[worker-0] on b', '[worker-1] on c']


def test_more_tasks_than_hosts_are_dealt_out(config, ssh):  # noqa: F811
    done = config(v1(role('worker', 'echo on $LOGIN', 5)), '-H', 'a,b', '--no-inject-runtime',
                  env=ssh(), timeout=30)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f'[worker-{i}] on {"ab"[i % 2]}' for i in range(5)]


def test_on_kubernetes_tasks_are_pods_with_what_they_ask_for(config):
    job = v1(role('master', 'true', cpuNumber=2, gpuNumber=1), role('worker', 'true', 2,
                                                                    memoryMB=512, shmMB=128))
    done = config(job, '--on', 'kubernetes', '--no-inject-runtime', '--dry-run', image=None)
    assert done.returncode == 0, done.stderr
    made = [d for d in yaml.safe_load_all(done.stdout) if d and d['kind'] == 'Job'][0]['spec']
    assert made['completions'] == made['parallelism'] == 3
    pod = made['template']['spec']
    assert pod['containers'][0]['image'] == 'train:1'
    limits = pod['containers'][0]['resources']['limits']
    assert (str(limits['memory']), str(limits['nvidia.com/gpu'])) == ('512Mi', '1')
    assert str(pod['containers'][0]['resources']['requests']['cpu']) == '2'
    assert [v['emptyDir']['sizeLimit'] for v in pod['volumes'] if v['name'] == 'reigen-shm'] == \
        [str(128 << 20)]
    less = config(job, '--on', 'kubernetes', '--no-inject-runtime', '--dry-run', '--gpus', '0',
                  '--cpu', '500m', image=None)
    assert less.returncode == 0 and 'nvidia' not in less.stdout
    assert 'cpu: "500m"' in less.stdout and 'cpu: "2"' not in less.stdout


def test_pods_run_its_tasks(job, tmp_path):
    """The head in the first one, as on a cluster."""
    path = tmp_path / 'job.json'
    # The end of the master's ends theirs, whether they have begun or not.
    wait = "'until [ -e /reigen/run/up ]; do sleep 0.1; done'"
    path.write_text(json.dumps(v1(
        role('worker', 'echo up; touch /reigen/run/up; exec sleep 300', 2),
        role('master', f'sleep 1; ssh worker-0 {wait}; ssh worker-1 {wait}; '
                       'ssh worker-1 echo there; env', minSucceededTaskCount=1))))
    job.plan(3, '--no-inject-runtime', '--config', path, '--image', 'none')
    pods = [job.pod(i) for i in range(3)]
    assert [pod.wait() for pod in pods] == [0, 0, 0], [pod.out for pod in pods]
    lines = pods[0].out.splitlines()
    assert {'[worker-0] up', '[worker-1] up', '[master-0] there'} <= set(lines)
    ports = [line for line in lines if re.search(r'PAI_PORT_LIST_worker_1_ssh=\d+$', line)]
    assert len(ports) == 1
    assert pods[0].words['exit_code'] == 0


def test_doctor_looks_where_it_would_run(reigen, tmp_path):
    path = tmp_path / 'job.json'
    path.write_text(json.dumps(v1(role('one', 'false', 2))))
    done = reigen('doctor', '--config', path, '--image', 'none')
    assert done.returncode == 0 and 'ok\tlocalhost\tshm' in done.stdout, done.stderr
    done = reigen('doctor', '--config', path, '--image', 'none', 'ls')
    assert done.returncode == 2 and 'has roles' in done.stderr


def test_a_plan_carries_the_roles(config, programs, tmp_path, start):
    plan = tmp_path / 'plan'
    done = config(v1(role('master', 'env', minSucceededTaskCount=1), role('worker', STAY)),
                  '--write-plan', plan)
    assert done.returncode == 0, done.stderr
    child = start(programs.agent, 'head', '--plan', plan)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 0, err
    assert re.search(r'^\[master-0\] PAI_PORT_LIST_worker_0_ssh=\d+$', out, re.M)


def test_a_list_of_jobs_names_the_file(config, programs, tmp_path, start):
    env = {'XDG_STATE_HOME': tmp_path / 'state', 'HOME': tmp_path}
    done = config(v1(role('master', f'{programs.reigen} jobs; {programs.reigen} jobs --json')),
                  env=environment(**env))
    assert done.returncode == 0, done.stderr
    assert f'--config {tmp_path}/job.txt' in done.stdout and 'shift' not in done.stdout, done


def test_retries_are_restarts(config, tmp_path):
    count = tmp_path / 'count'
    done = config(v1(role('one', f'echo x >> {count}; [ $(wc -l < {count}) = 2 ]'), retryCount=1))
    assert done.returncode == 0, done.stderr
    assert count.read_text() == 'x\nx\n'


def test_a_stopped_job_says_so(programs, start, tmp_path):
    path = tmp_path / 'job.json'
    path.write_text(json.dumps(v1(role('one', STAY, 2))))
    child = start(programs.reigen, 'run', '--config', path, '--image', 'none')
    while 'up' not in child.stdout.readline():
        pass
    child.terminate()
    _, err = child.communicate(timeout=30)
    assert child.returncode == 143 and 'told to stop' in err


@pytest.mark.parametrize('text', [
    'protocolVersion: 2\nname: {{jobname}}\n', '{"jobName": "a" "image": "i"}'])
def test_a_broken_job_file_is_still_told_as_openpais(reigen, tmp_path, text):
    """Such as a template that nobody has filled in."""
    (tmp_path / 'job').write_text(text)
    done = reigen('run', '--config', 'job', '--dry-run', cwd=tmp_path)
    assert done.returncode == 2 and 'reigen pai check shows' in done.stderr, done
