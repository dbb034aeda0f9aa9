# SPDX-License-Identifier: Apache-2.0
"""Jobs for queueing systems, before the API server with the definitions of the real ones."""
import json
import re

import pytest

import definitions
from built import PROGRAMS

WORDS = ('--on', 'kubernetes', '--image', 'localhost/base:1', '--name', 'night', '-np', '2',
         '--no-inject-runtime')


@pytest.fixture(scope='module')
def systems(kube3):
    with definitions.installed(kube3, *definitions.ALL):
        yield


@pytest.mark.parametrize('words, group', [
    (('--queue', 'lq'), None),
    (('--gang', 'volcano', '--queue', 'q', '--priority-class', 'system-node-critical'),
     {'minMember': 2, 'queue': 'q', 'priorityClassName': 'system-node-critical'}),
    (('--gang', 'scheduler-plugins', '--queue', 'lq', '--scheduler', 's', '--start-timeout', '90'),
     {'minMember': 2, 'scheduleTimeoutSeconds': 90})])
def test_the_systems_definitions_take_what_is_made_for_them(kube, systems, words, group):
    made = kube.run([PROGRAMS.reigen, 'run', *WORDS, '--dry-run', *words, '--', 'true'],
                    check=True).stdout
    apply = ['kubectl', 'apply', '--server-side', '--dry-run=server', '--validate=strict', '-f',
             '-', '-o', 'json']
    done = kube.run(apply, input=made)
    assert (done.returncode, done.stderr) == (0, ''), done
    taken = {each['kind']: each for each in json.loads(done.stdout)['items']}
    assert taken.get('PodGroup', {}).get('spec') == group, taken
    assert taken['Job']['metadata']['labels'].get('kueue.x-k8s.io/queue-name') == \
        ('lq' if 'lq' in words else None), taken
    if group:
        done = kube.run(apply, input=made.replace('minMember', 'minMembers'))
        assert done.returncode != 0 and 'minMembers' in done.stderr, done
    done = kube.run([PROGRAMS.reigen, 'plan', *WORDS, *words[:2], '--', 'true'])
    text = re.sub(r'\n {10,}', ' ', done.stdout)
    if group:
        assert done.returncode == 0 and re.search("would take the job's 5 objects", text), done
    else:
        assert done.returncode == 2 and 'there is no queue lq in this namespace' in text, done


def test_a_plan_looks_at_a_local_queue(kube, systems):
    kube.apply({'apiVersion': 'kueue.x-k8s.io/v1beta1', 'kind': 'LocalQueue',
                'metadata': {'name': 'lq'}, 'spec': {'clusterQueue': 'cq'}})
    plan = [PROGRAMS.reigen, 'plan', *WORDS, '--queue', 'lq', '--', 'true']
    done = kube.run(plan)
    assert done.returncode == 0 and 'nobody waits in queue lq' in done.stdout, done
    status = {'status': {'pendingWorkloads': 3, 'conditions': [{
        'type': 'Active', 'status': 'False', 'reason': 'ClusterQueueDoesNotExist',
        'message': "Can't submit new workloads to clusterQueue",
        'lastTransitionTime': '2026-01-01T00:00:00Z'}]}}
    kube.kubectl('patch', 'localqueue', 'lq', '--subresource=status', '--type=merge', '--patch',
                 json.dumps(status))
    done = kube.run(plan)
    text = re.sub(r'\n {10,}', ' ', done.stdout)
    assert done.returncode == 75 and '3 jobs wait in queue lq' in text, done
    assert "queue lq is not active: Can't submit new workloads" in text, done
