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
    """The master's pod that runs and is to go on, or None."""
    for pod in kube.get('pods', '-l', 'role=master')['items']:
        if pod['status']['phase'] == 'Running' and 'deletionTimestamp' not in pod['metadata']:
            return pod['metadata']['name']
    return None


def said(kube):  # noqa: F811
    return kube.said(master(kube) or 'none')


def up(kube, word, before=None, tries=1):  # noqa: F811
    """Wait until a master, which is another pod than `before`, has both ranks up in this try; its
    name."""
    until(lambda: master(kube) not in (None, before) and
          said(kube).count(f'] {word}\n') == 2 * tries, lambda: said(kube) + kube.state())
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
    until(lambda: 'try 1 of 7 ended' in said(kube), lambda: said(kube) + kube.state())
    # The two pods see the Secret's new key within two minutes. A try with the old one has ended.
    until(lambda: said(kube).count('] first\n') == 4, lambda: said(kube) + kube.state(), 300)
    assert master(kube) == first
    before = said(kube)
    assert f'host {NAME}-0.{NAME}: ' in before and 'exit code 76' in before, before
    assert 'try 1 of 7 ended with code 76; the next one begins in 10 s' in before, before
    # Without its StatefulSet the job ends, and waits for its workers until an upgrade.
    kube.kubectl('delete', 'statefulset', NAME, '--wait=false')
    tries = before.count(' of 7 ended')
    until(lambda: f'try {tries + 1} of 7 ended' in said(kube),
          lambda: said(kube) + kube.state())
    upgrade()
    assert up(kube, 'first', tries=3) == first
    kube.kubectl('delete', 'pod', first, '--wait=false')
    up(kube, 'first', first)
    kube.kubectl('delete', 'job', NAME)
    upgrade()
    fourth = up(kube, 'first')
    # Another command, while one runs.
    values['master']['args'] = PYTHON.format('second')
    upgrade()
    fifth = up(kube, 'second', fourth)
    assert kube.names('pods', '-l', 'role=master') == [fifth]
    helm(kube, 'helm4', 'uninstall', 'mnist')
    nothing_left(kube)


def test_workers_end_with_a_job_that_helm_waits_for_and_with_one_that_is_killed(kube):  # noqa: F811
    """Helm waits for workers that never come, until the job has ended without them. Later the
    master is killed as often as it may be, and once more."""
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
    killed = None
    for _ in range(2):
        until(lambda: master(kube) not in (None, killed), kube.state)
        killed = master(kube)
        kill(kube, killed)
    ended(kube, 'Failed')
    logs = [kube.said(name) for name in
            kube.names('pods', '-l', 'role=master') if name != killed]
    assert any('killed or lost the master 2 times (master.backoffLimit: 1)' in text
               for text in logs), logs
    assert kube.get('statefulset', NAME)['spec']['replicas'] == 0
    helm(kube, program, 'uninstall', 'mnist')
    nothing_left(kube)
