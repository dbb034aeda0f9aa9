# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with a job on a real cluster: refusals, names in use, deletions.
tests/behaviour/test_kubernetes_played.py has what no cluster does when a test wants it to."""
import json
import time

from test_run import IMAGE, LIMIT, Reigen, reigen  # noqa: F401 (a fixture)
from wait import soon  # noqa: E402

QUICK_S = 60  # for what is told at once: less than a --start-timeout, with room for a slow machine


def may(kube, name, *verbs):
    """A kubeconfig for a service account that may do these: ('jobs', 'create get')."""
    rules = [{'apiGroups': ['batch' if resource == 'jobs' else ''], 'resources': [resource],
              'verbs': what.split()} for resource, what in verbs]
    kube.apply({'apiVersion': 'v1', 'kind': 'ServiceAccount', 'metadata': {'name': name}},
               {'apiVersion': 'rbac.authorization.k8s.io/v1', 'kind': 'Role',
                'metadata': {'name': name}, 'rules': rules},
               {'apiVersion': 'rbac.authorization.k8s.io/v1', 'kind': 'RoleBinding',
                'metadata': {'name': name},
                'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'Role', 'name': name},
                'subjects': [{'kind': 'ServiceAccount', 'name': name}]})
    config = kube.get('serviceaccount', name) and json.loads(
        kube.kubectl('config', 'view', '--raw', '--minify', '--output=json'))
    config['users'][0]['user'] = {'token': kube.kubectl('create', 'token', name).strip()}
    return {'KUBECONFIG': str(kube.cluster.laptop.write(f'{name}.json', json.dumps(config),
                                                        mode=0o600))}


def test_what_no_role_allows_is_named_and_nothing_is_left(reigen):  # noqa: F811
    jobs = ('jobs', 'create get list patch delete watch')
    secretless = may(reigen.kube, 'secretless', jobs, ('services', 'create'),
                     ('configmaps', 'create'))
    done = reigen.run('-np', 1, '--no-inject-runtime', '--', 'true', env=secretless)
    assert done.returncode == 77 and 'cannot create resource "secrets"' in done.stderr, done
    reigen.wait_gone()
    logless = may(reigen.kube, 'logless', jobs, ('services', 'create'), ('secrets', 'create'),
                  ('configmaps', 'create'), ('pods', 'get list watch'), ('events', 'list watch'))
    done = reigen.run('--name', 'unseen', '-np', 1, '--no-inject-runtime', '--', 'sleep', 1000,
                      env=logless)
    assert done.returncode == 77 and 'cannot get resource "pods/log"' in done.stderr, done
    assert 'cannot be followed (reigen stop unseen ends it)' in done.stderr, done
    assert 'ended' not in reigen('status', 'unseen').stdout
    began = time.monotonic()
    assert reigen('stop', 'unseen', env=logless).returncode == 0
    assert soon(began, QUICK_S)
    reigen.wait_gone()


def test_a_configuration_of_kubectl_that_leads_nowhere_is_told(reigen):  # noqa: F811
    cluster = reigen.kube.cluster
    config = json.loads(cluster.kubeconfig('admin'))
    good = config['clusters'][0]['cluster']['server']

    def refused(code, said, text):
        path = cluster.laptop.write('led/astray', text)
        done = reigen.run('-np', 1, '--no-inject-runtime', '--', 'true', env={'KUBECONFIG': path})
        assert done.returncode == code and said in done.stderr, done
        assert 'may be left there' not in done.stderr, done

    refused(69, 'knows no cluster here; name its configuration in KUBECONFIG', '')
    refused(69, 'astray": yaml: ', ': : no { yaml')
    config['clusters'][0]['cluster']['server'] = good.replace(':6443', ':1')
    refused(69, 'API server does not answer: unable to recognize', json.dumps(config))
    config['clusters'][0]['cluster']['server'] = 'https://no.such:6443'
    refused(69, 'API server does not answer: unable to recognize', json.dumps(config))
    config['clusters'][0]['cluster']['server'] = good
    config['users'][0]['user'] = {}
    refused(77, 'log in to the cluster', json.dumps(config))


def test_what_a_namespace_never_takes_is_told_at_once(reigen):  # noqa: F811
    kube, began = reigen.kube, time.monotonic()

    def refused(code, said, *words, image='localhost/base:1'):
        done = reigen.run('-np', 2, '--no-inject-runtime', *words, '--', 'true', image=image)
        assert done.returncode == code and said in done.stderr, done

    kube.kubectl('create', 'quota', 'small', '--hard=pods=1')
    refused(69, 'limited: pods=1; the quota is too small for all pods')
    kube.kubectl('delete', 'quota', 'small')
    refused(2, 'kubectl get priorityclasses', '--priority-class', 'none')
    refused(2, 'kubectl get serviceaccounts', '--service-account', 'none')
    refused(125, 'ErrImageNeverPull', '--pull', 'never', image='localhost/none:1')
    kube.apply({'apiVersion': 'v1', 'kind': 'LimitRange', 'metadata': {'name': 'small'},
                'spec': {'limits': [{'type': 'Container', 'max': {'cpu': '500m'}}]}})
    refused(2, 'the namespace has a LimitRange', '--cpu', '1')
    assert soon(began, 6 * QUICK_S)
    reigen.wait_gone()


def test_names_in_use_are_left_to_those_who_have_them(reigen):  # noqa: F811
    kube = reigen.kube
    kube.kubectl('create', 'service', 'clusterip', 'service', '--tcp=80')
    kube.kubectl('create', 'configmap', 'configmap')
    kube.kubectl('create', 'secret', 'generic', 'secret')
    kube.kubectl('create', 'job', 'job', '--image=localhost/base:1', '--', 'sleep', '1000')
    for name in ('service', 'configmap', 'secret', 'job'):
        done = reigen.run('--name', name, '-np', 1, '--no-inject-runtime', '--', 'true')
        assert done.returncode == 2 and f'"{name}" already exists' in done.stderr, done
        kube.get(name, name)
    assert reigen.kube.names('jobs') == ['job']
    reigen.wait_gone()


def test_what_is_deleted_under_a_job_ends_no_rank_and_stops_no_end(reigen):  # noqa: F811
    child, line = reigen.start('--name', 'robbed', '-np', 2, '--start-timeout', 60,
                               '--no-inject-runtime', '--', 'sh', '-c', 'echo up; sleep 1000')
    assert line.endswith('] up\n')
    reigen.kube.kubectl('delete', 'service/robbed', 'configmap/robbed', 'secret/robbed')
    assert 'robbed  running' in reigen('jobs').stdout
    worker, = reigen.kube.names('pods', '--selector=batch.kubernetes.io/job-name=robbed,'
                                'batch.kubernetes.io/job-completion-index=1')
    reigen.kube.kubectl('delete', 'pod', worker, '--wait=false')
    out, err = child.communicate(timeout=LIMIT)
    assert child.returncode == 125 and 'FailedMount: ' in err, (out, err)
    assert 'robbed" not found; what the pod is to mount is not there' in err, err
    assert 'host robbed-1: its agent was told to stop' in out, out
    reigen.wait_gone()


def test_a_full_disk_leaves_a_job_and_stop_ends_all(reigen):  # noqa: F811
    command = reigen.words('run', '--on', 'kubernetes', '--image', IMAGE, '-np', 1, '--name', 'a',
                           '--no-inject-runtime', '--', 'sh', '-c', 'echo up; sleep 1000')
    done = reigen.kube.run(['sh', '-c', '"$@" >/dev/full', 'sh', *command], timeout=LIMIT)
    assert done.returncode == 74, done
    assert 'cannot write to standard output: No space left on device; job a goes on' in \
        done.stderr, done
    assert reigen.run('--submit', '--name', 'b', '-np', 1, '--no-inject-runtime', '--',
                      'sleep', 1000).returncode == 0
    for name in ('a', 'b'):
        assert reigen('stop', name).stdout == f'stopped {name}\n'
    reigen.wait_gone()
