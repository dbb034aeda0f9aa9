# SPDX-License-Identifier: Apache-2.0
"""What is deleted, killed and changed of a release of deploy/chart while it runs: the job goes on,
runs again, or ends with a word; and `helm uninstall` leaves nothing."""
import pytest

from test_chart import (CHART, HELMS, NAME, RUN, ended, helm, kube, nothing_left,  # noqa: F401
                        reigen, until, values_of)

pytestmark = pytest.mark.timeout(600)
PYTHON = RUN.replace('-np 3', '-np 2') + \
    '-- python3 -c "import time; print(\'{0}\', flush=True); time.sleep(600)"'
#: All processes of the container that has this pod's name, as when it uses too much memory.
KILL = 'kill -9 $(grep -lsz "^REIGEN_POD_NAME=$1\\$" /proc/[0-9]*/environ | cut -d/ -f3); true'


def master(kube):  # noqa: F811
    """(name, restarts) of the master's pod that runs and is to go on, or None."""
    for pod in kube.get('pods', '-l', 'role=master')['items']:
        if pod['status']['phase'] == 'Running' and 'deletionTimestamp' not in pod['metadata']:
            return (pod['metadata']['name'], pod['status']['containerStatuses'][0]['restartCount'])
    return None


def said(kube, *words):  # noqa: F811
    name, _ = master(kube) or ('none', 0)
    done = kube.run(['kubectl', 'logs', name, '--tail=-1', *words])
    return done.stdout + done.stderr


def up(kube, word, before=None):  # noqa: F811
    """Wait until a master, which is another try than `before`, has both ranks up; that try."""
    until(lambda: master(kube) not in (None, before) and said(kube).count(f'] {word}\n') == 2,
          lambda: said(kube) + kube.state())
    return master(kube)


def kill(kube, name):  # noqa: F811
    node = kube.get('pod', name)['spec']['nodeName']
    kube.cluster[node].run(['sh', '-c', KILL, 'sh', name], user='root', check=True)


def test_a_job_outlives_what_is_deleted_killed_and_changed_of_its_release(kube):  # noqa: F811
    values = reigen(1, PYTHON.format('first'))

    def upgrade():
        helm(kube, 'helm4', 'upgrade', 'mnist', CHART, values=values)
    helm(kube, 'helm4', 'install', 'mnist', CHART, values=values)
    first = up(kube, 'first')
    # What a job has needed to begin it needs no more, and an upgrade makes it again.
    others = [f'service/{NAME}', f'service/{NAME}-head', f'configmap/{NAME}', f'secret/{NAME}',
              f'serviceaccount/{NAME}', f'role/{NAME}', f'rolebinding/{NAME}']
    kube.kubectl('delete', *others)
    upgrade()
    kube.kubectl('get', *others)
    assert master(kube) == first
    # A worker whose container is killed as a whole: as a host that is lost.
    kill(kube, f'{NAME}-0')
    second = up(kube, 'first', first)
    assert first[0] == second[0]
    before = said(kube, '--previous')
    assert f'host {NAME}-0.{NAME}: ' in before and 'exit code 76' in before, before
    # Without its StatefulSet the job ends, and waits for its workers until an upgrade.
    kube.kubectl('delete', 'statefulset', NAME, '--wait=false')
    until(lambda: master(kube) not in (None, second), lambda: said(kube) + kube.state())
    upgrade()
    third = up(kube, 'first', second)
    kube.kubectl('delete', 'pod', third[0], '--wait=false')
    up(kube, 'first', third)
    kube.kubectl('delete', 'job', NAME)
    upgrade()
    fourth = up(kube, 'first')
    # Another command, while one runs.
    values['master']['args'] = PYTHON.format('second')
    upgrade()
    fifth = up(kube, 'second', fourth)
    assert kube.names('pods', '-l', 'role=master') == [fifth[0]]
    helm(kube, 'helm4', 'uninstall', 'mnist')
    nothing_left(kube)


def test_workers_end_with_a_job_that_helm_waits_for_and_with_one_that_is_killed(kube):  # noqa: F811
    """Helm waits for workers that never come, until the job has ended without them. Later the
    master is killed in its last try."""
    values = values_of(1, 'true', ssh={'enabled': False}, master={'backoffLimit': 1})
    values['worker']['image'] = {'repository': 'localhost/absent', 'tag': 'x',
                                 'pullPolicy': 'Never'}
    wait = ('--wait', '--timeout=110s')
    for program in HELMS:
        helm(kube, program, 'install', 'mnist', CHART, *wait, values=values)
        ended(kube)
        assert kube.get('statefulset', NAME)['spec']['replicas'] == 0
        if program != HELMS[-1]:
            helm(kube, program, 'uninstall', 'mnist', '--wait')
    values['master']['args'] = 'sleep 600'
    values['worker']['image'] = {'repository': 'localhost/distroless', 'tag': 1}
    helm(kube, program, 'upgrade', 'mnist', CHART, *wait, values=values)
    assert kube.get('statefulset', NAME)['status']['readyReplicas'] == 1
    until(lambda: master(kube), kube.state)
    kill(kube, master(kube)[0])
    ended(kube, 'Failed')
    assert kube.get('statefulset', NAME)['spec']['replicas'] == 0
    helm(kube, program, 'uninstall', 'mnist')
    nothing_left(kube)
