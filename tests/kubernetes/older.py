# SPDX-License-Identifier: Apache-2.0
"""Releases as charts of before left them, as far as that matters to an upgrade: the objects' names,
and those of their fields that cannot be changed. Their pods only wait.
"""
import json

LABELS = {'app': 'horovod', 'release': '{{ .Release.Name }}', 'heritage': '{{ .Release.Service }}'}
# The selector of the StatefulSet, and whether `selector` also stands in its pods' spec, where
# it does not belong, so that Helm 4 does not install it.
VERSIONS = {'1.0.2': ({**LABELS, 'role': 'worker'}, True),
            '0.2.3': ({**LABELS, 'chart': 'horovod-0.2.3', 'role': 'worker'}, False)}


def chart(version, image):
    """The files of a chart `horovod` of that version: {name: text}."""
    selector, misplaced = VERSIONS[version]
    name = '{{ .Release.Name }}-horovod'
    labels = {**LABELS, 'chart': f'horovod-{version}'}
    container = {'image': image, 'imagePullPolicy': 'Never', 'command': ['sleep', 'infinity']}
    quick = {'terminationGracePeriodSeconds': 0}
    worker = {'containers': [{'name': 'worker', **container}], **quick}
    if misplaced:
        worker['selector'] = {'matchLabels': selector}
    services = [{'apiVersion': 'v1', 'kind': 'Service',
                 'metadata': {'name': name + suffix, 'labels': labels},
                 'spec': {'clusterIP': 'None', 'ports': [{'name': 'ssh', 'port': 22}],
                          'selector': {'app': 'horovod', 'release': '{{ .Release.Name }}',
                                       'role': role}}}
                for suffix, role in (('', 'worker'), ('-master', 'master'))]
    objects = [
        {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': name, 'labels': labels},
         'data': {'hostfile.config': '', 'master.run': '', 'worker.run': ''}},
        *services,
        {'apiVersion': 'apps/v1', 'kind': 'StatefulSet',
         'metadata': {'name': name, 'labels': {**labels, 'role': 'worker'}},
         'spec': {'serviceName': name, 'podManagementPolicy': 'Parallel', 'replicas': 2,
                  'selector': {'matchLabels': selector},
                  'template': {'metadata': {'labels': {**labels, 'role': 'worker'}},
                               'spec': worker}}},
        {'apiVersion': 'batch/v1', 'kind': 'Job',
         'metadata': {'name': name, 'labels': {**labels, 'role': 'master'}},
         'spec': {'template': {
             'metadata': {'labels': {'app': 'horovod', 'release': '{{ .Release.Name }}',
                                     'role': 'master'}},
             'spec': {'restartPolicy': 'OnFailure', **quick,
                      'containers': [{'name': 'horovod-master', **container}]}}}}]
    return {'Chart.yaml': f'apiVersion: v1\nname: horovod\nversion: {version}\n',
            'templates/all.yaml': '\n---\n'.join(json.dumps(each) for each in objects)}
