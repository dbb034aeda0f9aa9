# SPDX-License-Identifier: Apache-2.0
"""What a cluster's API server says, asked by this process over one connection that stays. A test
asks often while it waits, and each start of kubectl takes a tenth of a second of a processor."""
import contextlib
import ctypes
import http.client
import json
import os
import socket
import ssl
import threading
from urllib.parse import urlencode

from .node import BedError

CORE = 'api/v1'
#: Where the API has the objects of a kind.
KINDS = {
    **dict.fromkeys(('configmaps', 'endpoints', 'events', 'namespaces', 'nodes', 'pods',
                     'replicationcontrollers', 'secrets', 'serviceaccounts', 'services'), CORE),
    **dict.fromkeys(('daemonsets', 'deployments', 'replicasets', 'statefulsets'), 'apis/apps/v1'),
    **dict.fromkeys(('cronjobs', 'jobs'), 'apis/batch/v1'),
    **dict.fromkeys(('rolebindings', 'roles'), 'apis/rbac.authorization.k8s.io/v1'),
    'horizontalpodautoscalers': 'apis/autoscaling/v2',
}
#: What kubectl calls all.
ALL = ('pods', 'replicationcontrollers', 'services', 'daemonsets', 'deployments', 'replicasets',
       'statefulsets', 'horizontalpodautoscalers', 'jobs', 'cronjobs')
OF_NO_NAMESPACE = ('namespaces', 'nodes')
TIMEOUT = 60
NEW_NETWORK = 0x40000000  # CLONE_NEWNET


class Absent(BedError):
    """The object is not there."""


class Connection(http.client.HTTPSConnection):
    """HTTPS from a node's network."""

    def __init__(self, node, host, port, context):
        super().__init__(host, port, timeout=TIMEOUT)
        self.node, self.trust = node, context

    def connect(self):
        plain = connect_in(self.node.pid, (self.host, self.port))
        self.sock = self.trust.wrap_socket(plain, server_hostname=self.host)


class Api:
    """The API server of a KubeCluster, for its administrator on `laptop`. Threads may share it."""

    def __init__(self, cluster):
        context = ssl.create_default_context(cafile=cluster.pki / 'ca.crt')
        context.load_cert_chain(cluster.pki / 'admin.crt', cluster.pki / 'admin.key')
        self.connection = Connection(cluster.laptop, cluster.control.address, 6443, context)
        self.lock = threading.Lock()

    def ask(self, method, path, body=None):
        """The text of an answer; BedError with what the server says, or that it does not."""
        with self.lock:
            try:
                status, text = self.answer(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self.connection.close()
                raise BedError(f'{method} {path}: {error!r}') from None
        if status == http.client.NOT_FOUND:
            raise Absent(f'{method} {path}: {text}')
        if status >= http.client.BAD_REQUEST:
            raise BedError(f'{method} {path}: {status} {text}')
        return text

    def answer(self, method, path, body):
        stands = self.connection.sock is not None
        head = {'Content-Type': 'application/json'} if body else {}
        try:
            self.connection.request(method, path, body, head)
            reply = self.connection.getresponse()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            if not stands:
                raise
            # The server ends a connection on which nobody asks; or it is another one now.
            return self.answer(method, path, body)
        return reply.status, reply.read().decode(errors='replace')

    def get(self, namespace, kind, name=None, selector=None):
        """An object, or the list of those of a kind that the selector takes: as its JSON says."""
        query = f'?{urlencode({"labelSelector": selector})}' if selector else ''
        return json.loads(self.ask('GET', place(namespace, kind, name) + query))

    def log(self, namespace, pod, container=None):
        query = f'?{urlencode({"container": container})}' if container else ''
        return self.ask('GET', f'{place(namespace, "pods", pod)}/log{query}')


def place(namespace, kind, name=None):
    within = '' if kind in OF_NO_NAMESPACE else f'/namespaces/{namespace}'
    return f'/{KINDS[kind]}{within}/{kind}' + (f'/{name}' if name else '')


def question(words):
    """(kind, name, selector) of the words after `kubectl get`; None where they ask for more than
    this module knows."""
    words, selector = list(map(str, words)), None
    kind = words.pop(0)
    kind = kind if kind in KINDS or kind == 'all' else f'{kind}s'
    if words and words[0].startswith('--selector='):
        selector = words.pop(0).partition('=')[2]
    elif len(words) > 1 and words[0] == '-l':
        selector = words[1]
        del words[:2]
    name = words.pop(0) if words and not words[0].startswith('-') else None
    return None if words or (kind != 'all' and kind not in KINDS) else (kind, name, selector)


def connect_in(pid, address):
    """A TCP connection from the network of another process. A socket is of the network in which
    its thread was when it made it, so a thread of its own goes there."""
    made = []

    def connect():
        try:
            with open(f'/proc/{pid}/ns/net', 'rb') as network:
                if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), NEW_NETWORK):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            made.append(socket.create_connection(address, TIMEOUT))
        except OSError as error:
            made.append(error)
    thread = threading.Thread(target=connect)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    with contextlib.suppress(OSError):
        made[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made[0]
