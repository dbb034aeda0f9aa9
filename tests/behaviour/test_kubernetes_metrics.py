# SPDX-License-Identifier: Apache-2.0
"""--metrics on Kubernetes, with a kubectl that is played: what the job's objects say of it. What
the head tells is in test_pods.py."""
import json

from test_kubernetes_played import served  # noqa: F401 (a fixture)


def test_with_metrics_the_service_says_where_they_are(served):  # noqa: F811
    """And no pod does, as all of them have the same annotations, and only one has the head."""
    done = served.served(words=('--metrics', ':9100'))
    assert done.returncode == 0, done
    job, service, *_ = map(json.loads, (served.folder / 'bodies').read_text().splitlines())
    assert service['metadata']['annotations'] == {
        'prometheus.io/scrape': 'true', 'prometheus.io/port': '9100',
        'prometheus.io/path': '/metrics'}
    assert [(port['name'], port['port'], port['targetPort']) for port in
            service['spec']['ports']] == [('head', 7461, 7461), ('metrics', 9100, 9100)]
    container, = job['spec']['template']['spec']['containers']
    assert container['ports'] == [{'name': 'metrics', 'containerPort': 9100}]
    assert 'prometheus.io' not in json.dumps(job), job
