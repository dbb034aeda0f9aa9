# SPDX-License-Identifier: Apache-2.0
"""What OpenPAI's REST server shows of its jobs: states, codes, configurations, keys and logs."""
import html
import itertools
import json
from dataclasses import dataclass, field

import yaml

from .pai_rules import Refused

SUB_STATES = {
    1: {'WAITING': 'APPLICATION_WAITING', 'RUNNING': 'APPLICATION_RUNNING'},
    2: {'WAITING': 'AttemptCreationPending', 'RUNNING': 'AttemptRunning',
        'STOPPING': 'AttemptDeleting'}}
DONE = {1: 'FRAMEWORK_COMPLETED', 2: 'Completed'}
MASKED = '******'
TAIL = 16384
BLOCK = 8192
#: Of the codes that the platform itself gives, what is told of them.
PHRASES = {-7351: 'StopJobRequested', -210: 'StopFrameworkRequested', -7400: 'TaskEndedByJob',
           -220: 'FrameworkAttemptCompletion', -8000: 'UnknownError'}


@dataclass
class Answer:
    status: int
    body: bytes = b''
    kind: str = 'application/json; charset=utf-8'
    headers: dict = field(default_factory=dict)


def told(status, body, kind='application/json', headers=None):
    text = body if isinstance(body, str) else json.dumps(body)
    return Answer(status, text.encode(), f'{kind}; charset=utf-8', headers or {})


def no_api(request):
    return Refused(404, 'NoApiError', f'API {request.path} is not found.')


def milliseconds(moment):
    return None if moment is None else int(moment * 1000)


def generation(server):
    return 1 if server.old else 2


def common(server, job):
    """What lists and a job's own answer have both."""
    return {
        'username': job.user, 'state': job.state,
        'subState': SUB_STATES[generation(server)].get(job.state, DONE[generation(server)]),
        'executionType': job.execution, 'retries': job.attempt,
        'retryDetails': {'user': job.attempt, 'platform': 0, 'resource': 0},
        'createdTime': milliseconds(job.created), 'completedTime': milliseconds(job.completed),
        'appExitCode': job.code, 'virtualCluster': job.cluster}


def summary(server, job):
    made = {'name': job.name, **common(server, job),
            'totalGpuNumber': sum(role.gpu * role.count for role in job.roles),
            'totalTaskNumber': sum(role.count for role in job.roles),
            'totalTaskRoleNumber': len(job.roles)}
    if server.old:
        return made if '~' in job.identity else {**made, 'legacy': True}
    return {'debugId': job.debug_id, 'frameworkName': job.identity, **made, 'retryDelayTime': None}


def detail(server, job):
    shown = common(server, job)  # first: a job whose state is its end has all that follows
    trigger = job.trigger if job.completed else None
    code = job.code
    status = {
        **shown, 'appId': job.app if server.old else job.debug_id,
        'appProgress': 1 if job.completed else 0, 'appTrackingUrl': '',
        'appLaunchedTime': milliseconds(job.launched),
        'appCompletedTime': milliseconds(job.completed),
        'appExitSpec': None if code is None else {'code': code, 'phrase': PHRASES.get(
            code, 'Succeeded' if code == 0 else 'UserAppError')},
        'appExitDiagnostics': None,
        'appExitMessages': {'container': None, 'runtime': None, 'launcher': None},
        'appExitTriggerMessage': f'[{trigger.show()}]: {trigger.state}' if trigger else None,
        'appExitTriggerTaskRoleName': trigger.role.short if trigger else None,
        'appExitTriggerTaskIndex': trigger.index if trigger else None,
        'appExitType': None}
    roles = {}
    for role in job.roles:
        roles[role.short] = {'taskRoleStatus': {'name': role.short}, 'taskStatuses': [
            shown_task(server, job, task) for task in job.tasks if task.role is role]}
    if server.old:
        status['name'] = job.name
        return {'name': job.name, 'jobStatus': status, 'taskRoles': roles}
    return {'debugId': job.debug_id, 'name': job.name, 'frameworkName': job.identity,
            'jobStatus': {**status, 'retryDelayTime': None}, 'taskRoles': roles}


def shown_task(server, job, task):
    ports = {label: ','.join(map(str, each)) for label, each in task.ports.items()}
    if not server.old:
        ports = {label: each[0] for label, each in task.ports.items()}
    has_run = task.run is not None
    return {
        'taskIndex': task.index, 'taskState': task.state,
        'containerId': task.uid if has_run else None, 'containerIp': task.ip if has_run else None,
        'containerPorts': ports if has_run else {}, 'containerGpus': 0,
        'containerLog': log_url(server, job, task) if has_run else None,
        'containerExitCode': task.code}


def log_url(server, job, task):
    if server.old:
        return f'{server.url}/logs/{task.uid}/{job.user}/'
    return (f'{server.url}/log-manager/tail/{job.user}/{job.identity}/{task.role.short}/'
            f'{task.uid}/')


def config(server, request, job):
    """v0.14 sends back what was submitted, as JSON unless YAML alone is wanted; v1.8 YAML, without
    secrets."""
    if not server.old:
        shown = dict(job.config)
        if 'secrets' in shown:
            shown['secrets'] = MASKED
        text = yaml.safe_dump(shown, sort_keys=False)
        return Answer(200, text.encode(), 'text/yaml; charset=utf-8')
    data = yaml.safe_load(job.text)
    wanted = request.headers.get('accept', '*/*')
    if 'yaml' in wanted and 'json' not in wanted:
        return Answer(200, yaml.safe_dump(data).encode(), 'text/yaml; charset=utf-8')
    return Answer(200, json.dumps(data).encode())


def ssh(server, job):
    ran = [task for task in job.tasks if task.run]
    if not server.old or not ran or not server.runner:
        name = job.name if server.old else job.identity
        raise Refused(404, 'NoJobSshInfoError', f'SSH info of job {name} is not found.')
    folder = f'/Container/{job.user}/{job.identity}/ssh/keyFiles'
    return told(200, {
        'containers': [{'id': task.uid, 'sshIp': task.ip, 'sshPort': str(task.ports['ssh'][0])}
                       for task in ran],
        'keyPair': {'folderPath': f'hdfs://127.0.0.1:9000{folder}',
                    'publicKeyFileName': f'{job.identity}.pub',
                    'privateKeyFileName': job.identity,
                    'privateKeyDirectDownloadLink':
                        f'{server.url}/webhdfs/v1{folder}/{job.identity}?op=OPEN'}})


def attempts(server, request, job, words):
    """v1.8: /attempts/:n, and the places of a task's logs."""
    if len(words) == 2 and words[0] == 'attempts' and words[1] == str(job.attempt):
        return told(200, detail(server, job))
    if len(words) == 9 and words[0::2] == ['attempts', 'taskRoles', 'taskIndex', 'attempts',
                                           'logs']:
        tasks = dict(enumerate([*job.past, job.tasks])) if words[7] == '0' else {}
        for task in tasks.get(int(words[1]) if words[1].isdigit() else -1, ()):
            if (task.role.short, str(task.index)) == (words[3], words[5]) and task.run:
                base = f'/log-manager/{server.host}:{server.port}/api/v1/logs'
                return told(200, {'locations': [
                    {'name': name.rpartition('.')[2], 'uri': f'{base}/{task.uid}/{name}'}
                    for name in ('user.pai.all', 'user.pai.stdout', 'user.pai.stderr')]})
        raise Refused(404, 'NoTaskLogError', 'Log of task is not found.')
    raise no_api(request)


# ---------------------------------------------------------------------------- files

def files(server, words, query):
    """Pages of logs, and HDFS's files of keys: other servers of the platform, at the same port."""
    parts = words.split('/')
    if parts[0] == 'webhdfs':
        for job in list(server.jobs.values()):
            if parts[-1].removesuffix('.pub') == job.identity and query.get('op') == 'OPEN':
                key = server.runner.keys(job).with_name(parts[-1])
                return Answer(200, key.read_bytes(), 'application/octet-stream')
        raise Refused(404, None, 'File does not exist')
    if parts[0] == 'logs':
        return page(server, task_of(server, parts[1]), parts, query)
    if parts[1] in ('tail', 'full'): # the older manager: a folder is no file, and lines have ends
        run = task_of(server, parts[5]).run
        data = run.log(parts[6]) if len(parts) > 6 else b'No such file!'
        data = data[-TAIL:] if parts[1] == 'tail' else data
        data += b'' if data.endswith(b'\n') or not data else b'\n'
    else: # the newer one: a line end after each block
        data = task_of(server, parts[5]).run.log(parts[6])
        data = b''.join(data[at:at + BLOCK] + b'\n' for at in range(0, len(data), BLOCK))
    return Answer(200, data, 'text/plain; charset=utf-8')


def task_of(server, uid):
    for job in list(server.jobs.values()):
        for task in itertools.chain(*job.past, job.tasks):
            if task.uid == uid and task.run:
                return task
    raise Refused(404, None, 'not found')


def page(server, task, parts, query):
    """A page of YARN's: a list of files, or the bytes of one from ?start= on; below 0 from its
    end."""
    names = ('user.pai.all', 'user.pai.stdout', 'user.pai.stderr')
    if len(parts) < 4:
        lines = [f'<p><a href="/{"/".join(parts[:3])}/{name}/?start=-4096">{name} : Total file '
                 f'length is {len(task.run.log(name))} bytes.</a></p>' for name in names]
        return told(200, f'<!DOCTYPE html><html><body>{"".join(lines)}</body></html>\n',
                    'text/html')
    if parts[3] not in names:
        raise Refused(404, None, 'not found')
    data = task.run.log(parts[3])
    start = int(query.get('start', -4096))
    start = max(len(data) + start, 0) if start < 0 else min(start, len(data))
    end = min(int(query.get('end', len(data))), len(data))
    text = html.escape(data[start:end].decode(errors='replace'), quote=False)
    return told(200, f'<!DOCTYPE html><html><body><p>Showing {end - start} bytes of {len(data)} '
                f'total.</p><pre>{text}</pre></body></html>\n', 'text/html')
