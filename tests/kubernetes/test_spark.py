# SPDX-License-Identifier: Apache-2.0
"""The image of deploy/docker/Dockerfile.spark in the chart, as docs/chart.md tells it: the driver
in the master's pod, and executors that Spark itself asks Kubernetes for."""
import json
import re
import subprocess

import pytest
import wait
import yaml
from bed import KubeCluster, images, kube_build
from built import ROOT

DOCKERFILE = 'kubernetes/dockerfiles/spark/ubuntu18.04/Dockerfile'
#: The image without frameworks, which are most of its gigabytes.
WITHOUT = {'TENSORFLOW_VERSION': '', 'KERAS_VERSION': '', 'PYTORCH_VERSION': ''}
PROGRAM = '''
import json
import horovod.spark
from pyspark.sql import SparkSession

def train(base):
    import socket
    import numpy as np
    import reigen
    reigen.init()
    total = reigen.allreduce(np.array([base + reigen.rank()]), op=reigen.Sum)
    return [reigen.rank(), reigen.size(), float(total[0]), socket.gethostname()]

session = SparkSession.builder.getOrCreate()
print('found ' + json.dumps(horovod.spark.run(train, args=(5,), num_proc=2)))
session.stop()
'''
pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


def build(folder):
    """The library's tag of the image."""
    with kube_build.locked('original'):  # another test may be at it, in the same build/
        done = subprocess.run([ROOT / 'deploy/docker/build.sh', '--file', 'Dockerfile.spark',
                               '--context', folder], capture_output=True, text=True, timeout=1800,
                              check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return images.build('spark', folder, DOCKERFILE,
                        args={'BASE': images.recipe('debian'), **WITHOUT})


@pytest.fixture(scope='module')
def kube(tmp_path_factory):
    with KubeCluster(2, images=[f'{build(tmp_path_factory.mktemp("spark"))}=spark']) as cluster:
        with cluster.namespace() as space:
            yield space


def documented():
    """The commands of docs/chart.md for Spark's account, and its values."""
    page = (ROOT / 'docs/chart.md').read_text()
    section = re.search(r'^## With Spark\n(.*?)^## ', page, re.S | re.M)[1]
    values = re.search(r'^```\n(serviceAccountName.*?)^```', section, re.S | re.M)[1]
    return re.findall('^    (kubectl .*)', section, re.M), yaml.safe_load(values)


def test_spark_asks_kubernetes_for_the_ranks(kube):
    """Two executors are two ranks. The driver is of a user who has no name."""
    commands, values = documented()
    kube.kubectl('config', 'set-context', '--current', f'--namespace={kube.name}')
    for command in commands:
        kube.run(['sh', '-c', command.replace('default:spark', f'{kube.name}:spark')], check=True)
    kube.apply({'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'program'},
                'data': {'train.py': PROGRAM}})
    args = values['master']['args'].replace('my-spark:v1', 'localhost/spark:1').replace(
        'train.py', '--conf spark.kubernetes.executor.request.cores=100m /program/train.py')
    values['master'].update(args=args, image={'repository': 'localhost/spark', 'tag': '1'})
    values.update(podSecurityContext={'runAsUser': 12345, 'runAsGroup': 12345},
                  volumes=[{'name': 'program', 'configMap': {'name': 'program'}}],
                  volumeMounts=[{'name': 'program', 'mountPath': '/program'}])
    kube.run(['helm', 'install', 'train', ROOT / 'deploy/chart', '-f', '-'], check=True,
             input=json.dumps(values), timeout=120)
    how = kube.end_of('train-horovod', timeout=300)
    said = kube.kubectl('logs', 'job/train-horovod', '--tail=-1')
    assert how == 'Complete', said
    found = json.loads(re.search('^found (.*)', said, re.M)[1])
    assert [rank[:3] for rank in found] == [[0, 2, 11.0], [1, 2, 11.0]]
    assert len({rank[3] for rank in found}) == 2
    wait.until(lambda: not kube.names('pods', '-l', 'spark-role=executor'), 'executors stay', 60)
