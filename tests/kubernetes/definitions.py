# SPDX-License-Identifier: Apache-2.0
"""The definitions (CRDs) of queueing systems, as their own Go modules have them. The systems
themselves do not run: the API server judges what Reigen makes for them, and nobody acts on it."""
import contextlib

from bed import kube_build
from bed.node import wait_until

#: By name: module, digest, the file in it, the resource.
ALL = {
    'volcano': ('volcano.sh/volcano@v1.10.0', 'h1:+GzQinGgeV0j58WpWpxByOXgF+YfUPW55zghM8GqjF0=',
                'config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml',
                'podgroups.scheduling.volcano.sh'),
    'scheduler-plugins': ('sigs.k8s.io/scheduler-plugins@v0.28.9',
                          'h1:1/bXRoXuSUFr1FLqxrzScdyZMl/G1psuDJcDKYxTo+Q=',
                          'config/crd/bases/scheduling.x-k8s.io_podgroups.yaml',
                          'podgroups.scheduling.x-k8s.io'),
    'kueue': ('sigs.k8s.io/kueue@v0.10.0', 'h1:GDQlZbMLCyImRMIdlCO9yyI1JWoX+Ab6x9fodcJBva4=',
              'config/components/crd/bases/kueue.x-k8s.io_localqueues.yaml',
              'localqueues.kueue.x-k8s.io'),
}


@contextlib.contextmanager
def installed(cluster, *names):
    """The cluster has them for as long as a `with`, and they are gone after that."""
    chosen = [ALL[name] for name in names]
    texts = [(kube_build.module(module, digest) / file).read_text()
             for module, digest, file, _ in chosen]
    resources = [resource for *_, resource in chosen]
    try:
        cluster.kubectl('apply', '--server-side', '-f', '-', input='\n---\n'.join(texts))
        for resource in resources:
            wait_until(lambda what=resource: cluster.asks('get', what, '-A'), 60, resource)
        yield
    finally:
        cluster.kubectl('delete', 'crd', *resources, '--ignore-not-found', '--timeout=60s',
                        timeout=90)
