# SPDX-License-Identifier: Apache-2.0
"""A job of OpenPAI from its submission to its end: its tasks, their variables, and the policies by
which their ends become the job's. What a task runs in is a runner's matter (pai_runners.py).
"""
import hashlib
import secrets
import threading
import time
from dataclasses import dataclass, field

STOPPED = {1: -7351, 2: -210}        # the job, when somebody stopped it
ENDED = {1: -7400, 2: -220}          # a task, when the job's end ended it
FANCY_RETRIES = 2                    # v1's retryCount -1 is without end; a test has an end
GRACE_S = 3                          # between TERM and KILL
POLL_S = 0.01


@dataclass
class Task:
    role: object
    index: int
    uid: str
    ip: str = ''
    ports: dict = field(default_factory=dict)     # label -> [port, ...]
    run: object = None                            # the runner's, once it has started
    state: str = 'WAITING'
    code: int | None = None
    started: float = 0.0
    attempt: int = 0

    def show(self):
        return f'{self.role.short}-{self.index}'


class Job:
    """generation: whose variables its tasks get, and whose states and codes it shows: 1 is YARN's,
    2 is Kubernetes'. identity is what its users call it: user~name, or the name alone where v1's
    path names no user."""

    def __init__(self, user, name, identity, generation, text, config, roles):
        # pylint: disable=too-many-arguments,too-many-positional-arguments
        self.user, self.name, self.identity, self.generation = user, name, identity, generation
        self.text, self.config, self.roles = text, config, roles
        self.debug_id = hashlib.md5(identity.encode()).hexdigest()
        self.app = f'application_1500000000000_{secrets.randbelow(9999):04}'
        self.created, self.completed = time.time(), None
        self.state, self.code, self.attempt = 'WAITING', None, 0
        self.trigger = None                       # the task whose end was the job's
        self.execution = 'START'
        self.tasks = []
        self.past = []                            # the tasks of each attempt before this one
        self.thread = self.runner = None
        self.stop_asked = threading.Event()
        self.over = threading.Event()
        self.launched = None                      # when all tasks of the last attempt ran
        for role in roles:
            role.short = role.name if generation == 1 else \
                ''.join(c for c in role.name.lower() if c.isascii() and c.isalnum())

    @property
    def retries(self):
        key = 'retryCount' if 'jobName' in self.config else 'jobRetryCount'
        wanted = self.config.get(key, 0)
        return FANCY_RETRIES if wanted == -1 else max(wanted, 0)

    @property
    def cluster(self):
        if 'jobName' in self.config:
            return self.config.get('virtualCluster') or 'default'
        return (self.config.get('defaults') or {}).get('virtualCluster') or 'default'

    def wait(self, timeout):
        """Whether the job is over within that time."""
        return self.over.wait(timeout)

    def stop(self):
        self.execution = 'STOP'
        self.stop_asked.set()

    # ------------------------------------------------------------ its life

    def begin(self, runner, waiting):
        self.thread = threading.Thread(target=self.live, args=(runner, waiting), daemon=True)
        self.thread.start()

    def live(self, runner, waiting):
        try:
            stopped = self.stop_asked.wait(waiting)
            while not stopped:
                stopped, again = self.try_once(runner)
                if not again:
                    break
                self.past.append(self.tasks)
                self.attempt += 1
                self.state = 'WAITING'
            if stopped:
                self.finish(STOPPED[self.generation])
        except Exception as error:  # pylint: disable=broad-except
            runner.complain(f'{self.identity}: {error!r}')
            self.finish(-8000)

    def try_once(self, runner):
        """Run all tasks to the end that the policies say; (whether the job was stopped, whether to
        try once more)."""
        self.runner = runner
        self.tasks = [Task(role, i, secrets.token_hex(16))
                      for role in self.roles for i in range(max(role.count, 0))]
        for number, task in enumerate(self.tasks, 2):
            if self.generation == 1:
                task.uid = f'container_{self.app[12:]}_{self.attempt + 1:02}_{number:06}'
        runner.place(self)
        self.trigger = None
        try:
            for task in self.tasks:
                task.started = time.time()
                task.run = runner.start(self, task)
                task.state = 'RUNNING'
            self.state, self.launched = 'RUNNING', time.time()
            code = self.watch()
        finally:
            self.end_all()
        if code is None:
            return True, False
        if code != 0 and self.attempt < self.retries:
            return False, True
        self.finish(code)
        return False, False

    def watch(self):
        """Wait for what ends the job: its code; None where somebody stopped it."""
        while not self.stop_asked.wait(POLL_S):
            running = 0
            for task in self.tasks:
                if task.state == 'RUNNING':
                    code = task.run.poll()
                    if code is None:
                        running += 1
                        continue
                    task.code, task.state = code, 'FAILED' if code else 'SUCCEEDED'
                if task.state == 'FAILED' and task.attempt < task.role.retries:
                    self.retry(task)
                    running += 1
                    continue
                if self.reached(task):
                    self.trigger = task
                    return task.code
            if not running:
                return 0
        return None

    def retry(self, task):
        """In another container, whose folder is another one, too."""
        task.run.remove()
        task.attempt += 1
        task.uid = secrets.token_hex(16)
        task.started, task.state = time.time(), 'RUNNING'
        task.run = self.runner.start(self, task)

    def reached(self, task):
        """Whether a count of the task's role is reached by what this task's end adds to it."""
        ends = [t.state for t in self.tasks if t.role is task.role]
        least = {'FAILED': task.role.min_failed, 'SUCCEEDED': task.role.min_succeeded}
        wanted = least.get(task.state)
        return wanted is not None and wanted > 0 and ends.count(task.state) >= wanted

    def end_all(self):
        """End what still runs, in order and then by force; nothing of a task stays."""
        left = [task for task in self.tasks if task.run and task.state == 'RUNNING']
        if left and self.generation == 2:
            self.state = 'STOPPING' if self.execution == 'STOP' else self.state
        for task in left:
            task.run.terminate()
        deadline = time.monotonic() + GRACE_S
        while any(task.run.poll() is None for task in left) and time.monotonic() < deadline:
            time.sleep(POLL_S)  # patient: a server, not a test
        for task in left:
            task.code, task.state = ENDED[self.generation], 'STOPPED'
        for task in self.tasks:
            if task.run:
                task.run.remove()

    def finish(self, code):
        self.code, self.completed = code, time.time()
        stopped = (STOPPED[self.generation], ENDED[self.generation])
        self.state = 'SUCCEEDED' if code == 0 else 'STOPPED' if code in stopped else 'FAILED'
        self.over.set()


# ---------------------------------------------------------------------------- variables

def variables(job, task):
    """What the platform puts into a task's environment; all values are texts."""
    made = for_all_tasks(job)
    role = task.role
    ports = ''.join(f'{label}:{joined(each)};' for label, each in task.ports.items())
    own = {
        'PAI_JOB_NAME': job.identity, 'PAI_USER_NAME': job.user,
        'PAI_CURRENT_TASK_ROLE_NAME': role.name,
        'PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX': task.index, 'PAI_TASK_INDEX': task.index,
        'PAI_CONTAINER_ID': task.uid, 'PAI_CONTAINER_HOST_IP': task.ip,
        'PAI_CONTAINER_HOST_PORT': task.ports['http'][0],
        'PAI_CONTAINER_SSH_PORT': task.ports['ssh'][0],
        'PAI_CONTAINER_HOST_PORT_LIST': ports}
    for label, each in task.ports.items():
        own[f'PAI_CONTAINER_HOST_{label}_PORT_LIST'] = joined(each)
    own |= of_yarn(job, task) if job.generation == 1 else of_kubernetes(job, task)
    return {name: str(value) for name, value in (made | own | old_names(job, task)).items()}


def joined(ports):
    return ','.join(map(str, ports))


def for_all_tasks(job):
    made = {'PAI_TASK_ROLE_COUNT': len(job.roles),
            'PAI_TASK_ROLE_LIST': ','.join(role.name for role in job.roles)}
    for task in job.tasks:
        name = task.role.short
        made[f'PAI_HOST_IP_{name}_{task.index}'] = task.ip
        for label, ports in task.ports.items():
            made[f'PAI_PORT_LIST_{name}_{task.index}_{label}'] = joined(ports)
            made[f'PAI_{name}_{task.index}_{label}_PORT'] = joined(ports)
    for role in job.roles:
        made[f'PAI_TASK_ROLE_TASK_COUNT_{role.name}'] = role.count
        made[f'PAI_TASK_ROLE_{role.short}_HOST_LIST'] = ','.join(
            f'{task.ip}:{task.ports["http"][0]}' for task in job.tasks if task.role is role)
    return made


def of_yarn(job, task):
    role = task.role
    return {
        'APP_ID': job.app, 'FRAMEWORK_NAME': job.identity, 'HADOOP_USER_NAME': job.user,
        'PAI_DEFAULT_FS_URI': 'hdfs://127.0.0.1:9000',
        'PAI_RESOURCE': f'{role.gpu},{role.cpu},{role.memory},{role.shm}',
        f'PAI_MIN_FAILED_TASK_COUNT_{role.name}': role.min_failed or '',
        f'PAI_MIN_SUCCEEDED_TASK_COUNT_{role.name}': role.min_succeeded or ''}


def of_kubernetes(job, task):
    made = {
        'PAI_FRAMEWORK_NAME': job.identity, 'PAI_DEFAULT_FS_URI': '',
        'PAI_VIRTUAL_CLUSTER': job.cluster,
        'PAI_TASK_ROLE_INSTANCES': ','.join(f'{t.role.short}:{t.index}' for t in job.tasks),
        'FC_FRAMEWORK_NAME': job.debug_id, 'FC_TASKROLE_NAME': task.role.short,
        'FC_TASK_INDEX': task.index, 'FC_POD_UID': task.uid,
        'FC_POD_NAME': f'{job.debug_id}-{task.role.short}-{task.index}',
        'FC_CONFIGMAP_NAME': f'{job.debug_id}-attempt'}
    for role in job.roles:
        made[f'PAI_RESOURCE_{role.name}'] = f'{role.gpu},{role.cpu},{role.memory},{role.shm}'
        made[f'PAI_MIN_FAILED_TASK_COUNT_{role.name}'] = role.min_failed or 1
        made[f'PAI_MIN_SUCCEEDED_TASK_COUNT_{role.name}'] = role.min_succeeded or role.count
    if task.role.gpu == 0:
        made['NVIDIA_VISIBLE_DEVICES'] = 'none'
    return made


def old_names(job, task):
    role, tasks = task.role, len(job.tasks)
    roles = ','.join(r.name for r in job.roles)
    return {
        'PAI_CURRENT_CONTAINER_IP': task.ip, 'PAI_CURRENT_CONTAINER_PORT': task.ports['http'][0],
        'PAI_TASK_ROLE_INDEX': task.index, 'PAI_USERNAME': job.user,
        'PAI_DATA_DIR': job.config.get('dataDir', ''),
        'PAI_OUTPUT_DIR': job.config.get('outputDir', ''),
        'PAI_CODE_DIR': job.config.get('codeDir', ''),
        'PAI_TASK_ROLE_NAME': role.name, 'PAI_TASK_ROLE_NUM': role.count,
        'PAI_TASK_CPU_NUM': role.cpu, 'PAI_TASK_MEM_MB': role.memory, 'PAI_TASK_GPU_NUM': role.gpu,
        'PAI_CURRENT_TASK_ROLE_TASK_COUNT': role.count,
        'PAI_CURRENT_TASK_ROLE_CPU_COUNT': role.cpu, 'PAI_CURRENT_TASK_ROLE_MEM_MB': role.memory,
        'PAI_CURRENT_TASK_ROLE_GPU_COUNT': role.gpu, 'PAI_CURRENT_TASK_ROLE_SHM_MB': role.shm,
        'PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT': role.min_failed or '',
        'PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT': role.min_succeeded or '',
        'PAI_TASKS_NUM': tasks, 'PAI_JOB_TASK_COUNT': tasks, 'PAI_TASK_ROLES_NUM': len(job.roles),
        'PAI_JOB_TASK_ROLE_COUNT': len(job.roles), 'PAI_JOB_TASK_ROLE_LIST': roles}


def user_environment(job):
    """v1's jobEnvs, which the bootstrap script sets; v2 has parameters in commands alone."""
    if job.generation != 1:
        return {}
    return {key: 'true' if value is True else 'false' if value is False else str(value)
            for key, value in (job.config.get('jobEnvs') or {}).items()}
