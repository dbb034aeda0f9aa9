# SPDX-License-Identifier: Apache-2.0
"""Kubernetes on simulated hosts: the control plane on one, a kubelet on every node."""
import base64
import contextlib
import json
import os
import secrets
import subprocess
import time
from pathlib import Path

from . import kube_api, kube_build, kube_store
from .cluster import Cluster, borrow_setting
from .node import ORDINARY_PATH, BedError, check_storage, wait_until

CONTROL, USER = 'control', 'laptop'
UP_TIMEOUT = 180
PODS, SERVICES, DOMAIN = '10.244', '10.96', 'cluster.local'
INOTIFY = Path('/proc/sys/fs/inotify/max_user_instances')
#: What a kubelet writes to the machine's own settings. It finds these files in their place, with
#: what it wants in them, so that the machine keeps its own.
TUNABLES = {'vm/overcommit_memory': 1, 'vm/panic_on_oom': 0, 'kernel/panic': 10,
            'kernel/panic_on_oops': 1, 'kernel/keys/root_maxkeys': 1000000,
            'kernel/keys/root_maxbytes': 25000000}
#: Go's garbage collection is a quarter of what kubectl and helm take of a processor, and these
#: programs have memory enough. With this it is seldom.
SELDOM = {'GOGC': '400'}
#: /var/lib has folders whose names kubelet and the CNI plugins have built in.
SETTLE = '''
mkdir -p /run/.bed/lib /run/.bed/lib.work
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/.bed/lib,workdir=/run/.bed/lib.work overlay \
    /var/lib
mkdir -p /var/lib/kubelet
mount --bind {folder}/kubelet /var/lib/kubelet
mount --bind {folder}/log /var/log
for pair in {tunables}; do
    name=${{pair%=*}}
    [ -e "/proc/sys/$name" ] || continue
    mkdir -p "/run/.bed/sys/${{name%/*}}"
    echo "${{pair#*=}}" >"/run/.bed/sys/$name"
    mount --bind "/run/.bed/sys/$name" "/proc/sys/$name"
done
sysctl -qw net.ipv4.ip_forward=1
sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null || true
'''
#: All processes of pods end at once, as when a node loses its power.
KILL_PODS = 'kill -9 $(grep -l /kubepods /proc/[0-9]*/cgroup 2>/dev/null | cut -d/ -f3); true'


class KubeCluster(Cluster):
    """A Cluster that Kubernetes runs: nodes node1, node2, ...; `control`, where etcd, the control
    plane and CoreDNS run; and `laptop`, the user's computer, where alice has kubectl and helm and
    an administrator's kubeconfig. Nobody else is reached from there, and no pod is.

    images    what is in the nodes' containerds, by the names of bed.images; pods call them
              localhost/NAME:1
    """

    def __init__(self, nodes=3, images=('base',)):
        self.programs = kube_build.programs()
        self.store = kube_store.prepare(images)
        self.daemons = {}
        super().__init__(nodes, sshd=False, others=(CONTROL, USER))

    def boot(self, sshd):
        check_storage(self.folder)
        # Root's share of what a kubelet, a containerd and a kube-proxy take, for a few clusters.
        borrow_setting(self.folder, INOTIFY, 1024)
        self.make_cgroups()
        super().boot(sshd)
        self.control, self.laptop = self[CONTROL], self[USER]
        self.api = f'https://{self.control.address}:6443'
        self.route()
        self.make_keys()
        self.start_control()
        for node in self.nodes:
            self.start_containerd(node)
        self.write_kubeconfigs()
        self.server = kube_api.Api(self)
        self.wait_api()
        self.start_controllers()
        for node in self.nodes:
            self.start_kubelet(node)
        self.wait_ready()

    # ------------------------------------------------------------ files and network

    def make_cgroups(self):
        """A kubelet wants its root to be there in every hierarchy."""
        top = Path('/sys/fs/cgroup')
        if (top / 'cgroup.controllers').exists():
            group = top / self.cgroup.strip('/')
            group.mkdir()
            for each in (top, group):
                delegate(each)
            for node in self.nodes:
                (group / node.name).mkdir()
                delegate(group / node.name)
            return
        for hierarchy in top.iterdir():
            if (hierarchy / 'cgroup.procs').exists():
                group = hierarchy / self.cgroup.strip('/')
                for each in (group, *(group / node.name for node in self.nodes)):
                    each.mkdir(exist_ok=True)
                    for name in ('cpuset.cpus', 'cpuset.mems'):
                        if (hierarchy / name).exists():
                            (each / name).write_text((hierarchy / name).read_text())

    def route(self):
        """Nodes know the way to each other's pods; so does the control plane."""
        for host in (*self.nodes, self.control):
            ways = [f'route add {PODS}.{number}.0/24 via {node.address}'
                    for number, node in enumerate(self.nodes, 1) if node is not host]
            if host is self.control:
                ways.append(f'route add {SERVICES}.0.0/16 via {self.nodes[0].address}')
            else:
                ways.append(f'route add default via {self.control.address}')
            self.ip(host, ways)

    def make_keys(self):
        """A certificate authority, and what everybody proves with it who they are."""
        self.pki = self.folder / 'pki'
        self.pki.mkdir(mode=0o700)
        names = ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc',
                 f'kubernetes.default.svc.{DOMAIN}', 'localhost']
        addresses = [self.control.address, f'{SERVICES}.0.1', '127.0.0.1']
        self.openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
                     '-nodes', '-keyout', 'ca.key', '-out', 'ca.crt', '-days', '3650',
                     '-subj', '/CN=kube-ca')
        self.openssl('genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256',
                     '-out', 'sa.key')
        self.openssl('pkey', '-in', 'sa.key', '-pubout', '-out', 'sa.pub')
        self.certify('apiserver', '/CN=kube-apiserver', names, addresses)
        self.certify('admin', '/O=system:masters/CN=admin')
        for name in ('controller-manager', 'scheduler', 'proxy'):
            self.certify(name, f'/CN=system:kube-{name}')
        for node in self.nodes:
            self.certify(node.name, f'/O=system:nodes/CN=system:node:{node.name}', [node.name],
                         [node.address])

    def certify(self, name, subject, names=(), addresses=()):
        others = [f'DNS:{n}' for n in names] + [f'IP:{a}' for a in addresses]
        lines = ['extendedKeyUsage=serverAuth,clientAuth']
        lines += [f'subjectAltName={",".join(others)}'] if others else []
        (self.pki / f'{name}.ext').write_text('\n'.join(lines) + '\n')
        self.openssl('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
                     '-nodes', '-keyout', f'{name}.key', '-out', f'{name}.csr', '-subj', subject)
        self.openssl('x509', '-req', '-in', f'{name}.csr', '-CA', 'ca.crt', '-CAkey', 'ca.key',
                     '-set_serial', f'0x{secrets.token_hex(8)}', '-days', '3650',
                     '-extfile', f'{name}.ext', '-out', f'{name}.crt')

    def openssl(self, *words):
        subprocess.run(['openssl', *words], cwd=self.pki, check=True, timeout=60,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kubeconfig(self, name, namespace='default'):
        """The text of a kubeconfig for whom the certificate `name` names."""
        inline = {word: (self.pki / file).read_text() for word, file in
                  (('ca', 'ca.crt'), ('crt', f'{name}.crt'), ('key', f'{name}.key'))}
        inline = {word: b64(text) for word, text in inline.items()}
        return json.dumps({
            'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'bed',
            'clusters': [{'name': 'bed', 'cluster': {
                'server': self.api, 'certificate-authority-data': inline['ca']}}],
            'users': [{'name': name, 'user': {'client-certificate-data': inline['crt'],
                                              'client-key-data': inline['key']}}],
            'contexts': [{'name': 'bed', 'context': {'cluster': 'bed', 'user': name,
                                                     'namespace': namespace}}]})

    def write_kubeconfigs(self):
        for name in ('admin', 'controller-manager', 'scheduler', 'proxy',
                     *(node.name for node in self.nodes)):
            path = self.pki / f'{name}.conf'
            path.write_text(self.kubeconfig(name))
            path.chmod(0o600)
        self.laptop.write('.kube/config', self.kubeconfig('admin'), mode=0o600)

    # ------------------------------------------------------------ daemons

    def start(self, host, component, **options):
        """Start a component on a host, with options as the component spells them."""
        words = [f'--{name.replace("_", "-")}={value}' for name, value in options.items()]
        with open(host.folder / f'{component}.log', 'ab') as log:
            self.daemons[host.name, component] = host.popen(
                [self.programs / 'kube', component, *words], user='root', env=SELDOM,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self, host, component):
        """End a component at once, as in a crash."""
        child = self.daemons.pop((host.name, component))
        pid = child.inner_pid(5)
        child.kill_all()
        child.wait(30)
        # A large process that was killed keeps its ports for a moment, which the next one wants.
        wait_until(lambda: has_ended(pid), 30, f'the end of {component}')

    def start_control(self):
        client, peer = 'http://127.0.0.1:2379', 'http://127.0.0.1:2380'
        with open(self.control.folder / 'etcd.log', 'wb') as log:
            self.daemons[CONTROL, 'etcd'] = self.control.popen(
                [self.programs / 'kube', 'etcd', f'--data-dir={self.folder}/etcd',
                 '--unsafe-no-fsync', '--log-level=warn', f'--listen-client-urls={client}',
                 f'--advertise-client-urls={client}', f'--listen-peer-urls={peer}',
                 f'--initial-advertise-peer-urls={peer}', f'--initial-cluster=default={peer}'],
                user='root', env=SELDOM, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.start_api()

    def start_api(self):
        pki, address = self.pki, self.control.address
        self.start(
            self.control, 'kube-apiserver', etcd_servers='http://127.0.0.1:2379',
            bind_address=address, advertise_address=address, secure_port=6443,
            service_cluster_ip_range=f'{SERVICES}.0.0/16', allow_privileged='true',
            authorization_mode='Node,RBAC', enable_admission_plugins='NodeRestriction',
            client_ca_file=pki / 'ca.crt', tls_cert_file=pki / 'apiserver.crt',
            tls_private_key_file=pki / 'apiserver.key', cert_dir=pki,
            kubelet_client_certificate=pki / 'admin.crt', kubelet_client_key=pki / 'admin.key',
            kubelet_preferred_address_types='InternalIP',
            requestheader_client_ca_file=pki / 'ca.crt', requestheader_allowed_names='front-proxy',
            requestheader_username_headers='X-Remote-User',
            requestheader_group_headers='X-Remote-Group',
            requestheader_extra_headers_prefix='X-Remote-Extra-',
            service_account_issuer=f'https://kubernetes.default.svc.{DOMAIN}',
            service_account_key_file=pki / 'sa.pub',
            service_account_signing_key_file=pki / 'sa.key')

    def stop_api(self):
        """The API server is away until start_api() and wait_api(); nodes and pods go on."""
        self.stop(self.control, 'kube-apiserver')

    def start_controllers(self):
        self.start_controller('scheduler')
        self.start_controller_manager()
        self.start_dns()

    def start_controller_manager(self, **more):
        pki = self.pki
        self.start_controller(
            'controller-manager', root_ca_file=pki / 'ca.crt',
            service_account_private_key_file=pki / 'sa.key',
            cluster_signing_cert_file=pki / 'ca.crt', cluster_signing_key_file=pki / 'ca.key',
            use_service_account_credentials='true', **more)

    def start_controller(self, name, **more):
        conf = self.pki / f'{name}.conf'
        self.start(self.control, f'kube-{name}', bind_address='127.0.0.1', kubeconfig=conf,
                   authentication_kubeconfig=conf, authorization_kubeconfig=conf,
                   leader_elect='false', cert_dir=self.pki, **more)

    @contextlib.contextmanager
    def lost(self, node):
        """For as long as a `with`, the network of a node is silent, its kubelet is stopped, and
        its containers are killed. The control plane notices after 16 s, not after a minute."""
        self.stop(self.control, 'kube-controller-manager')
        self.start_controller_manager(node_monitor_grace_period='16s', node_monitor_period='1s')
        try:
            node.cut()
            self.stop(node, 'kubelet')
            node.run(['sh', '-c', KILL_PODS], user='root', check=True)
            yield
        finally:
            node.join()
            if (node.name, 'kubelet') not in self.daemons:
                self.launch_kubelet(node)
            self.wait_ready()
            self.stop(self.control, 'kube-controller-manager')
            self.start_controller_manager()

    def start_dns(self):
        corefile = self.folder / 'Corefile'
        # No "forward": names outside the cluster do not resolve.
        corefile.write_text(
            f'.:53 {{\n errors\n ready\n kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{\n'
            f'  kubeconfig {self.pki}/admin.conf bed\n  pods insecure\n  ttl 2\n }}\n}}\n')
        with open(self.control.folder / 'coredns.log', 'ab') as log:
            self.daemons[CONTROL, 'coredns'] = self.control.popen(
                [self.programs / 'kube', 'coredns', '-conf', corefile], user='root', env=SELDOM,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop_dns(self):
        self.stop(self.control, 'coredns')

    def start_containerd(self, node):
        for name in ('kubelet', 'log'):
            (node.folder / name).mkdir()
        tunables = ' '.join(f'{name}={value}' for name, value in TUNABLES.items())
        node.run(['sh', '-ec', SETTLE.format(folder=node.folder, tunables=tunables)], user='root',
                 check=True)
        kube_store.install(self.store, node.folder / 'containerd')
        path = node.folder / 'containerd.toml'
        path.write_text(kube_store.config(node.folder / 'containerd'))
        number = self.nodes.index(node) + 1
        node.path('/run/cni').mkdir()
        node.path('/run/cni/10-pods.conflist').write_text(json.dumps({
            'cniVersion': '0.4.0', 'name': 'pods', 'plugins': [
                {'type': 'bridge', 'bridge': 'cni0', 'isGateway': True, 'hairpinMode': True,
                 'ipam': {'type': 'host-local', 'dataDir': '/run/cni-ipam',
                          'ranges': [[{'subnet': f'{PODS}.{number}.0/24'}]],
                          'routes': [{'dst': '0.0.0.0/0'}]}},
                {'type': 'portmap', 'capabilities': {'portMappings': True}}]}))
        with open(node.folder / 'containerd.log', 'ab') as log:
            self.daemons[node.name, 'containerd'] = node.popen(
                ['containerd', '--config', path], user='root', env=SELDOM,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_kubelet(self, node):
        """A kubelet and a kube-proxy, once their node has a containerd."""
        kube_store.wait_containerd(node)
        kubelet = node.folder / 'kubelet.yaml'
        kubelet.write_text(json.dumps(self.kubelet_config(node)))
        self.launch_kubelet(node)
        proxy = node.folder / 'proxy.yaml'
        proxy.write_text(json.dumps({
            'apiVersion': 'kubeproxy.config.k8s.io/v1alpha1', 'kind': 'KubeProxyConfiguration',
            'mode': 'iptables', 'clusterCIDR': f'{PODS}.0.0/16', 'hostnameOverride': node.name,
            'clientConnection': {'kubeconfig': str(self.pki / 'proxy.conf')},
            'conntrack': {'maxPerCore': 0, 'min': 0, 'tcpEstablishedTimeout': '0s',
                          'tcpCloseWaitTimeout': '0s'},
            'iptables': {'minSyncPeriod': '100ms'}}))
        self.start(node, 'kube-proxy', config=proxy)

    def launch_kubelet(self, node):
        self.start(node, 'kubelet', config=node.folder / 'kubelet.yaml',
                   kubeconfig=self.pki / f'{node.name}.conf', hostname_override=node.name,
                   node_ip=node.address)

    def kubelet_config(self, node):
        resolv = node.folder / 'resolv.conf'
        resolv.write_text('')
        return {
            'apiVersion': 'kubelet.config.k8s.io/v1beta1', 'kind': 'KubeletConfiguration',
            'containerRuntimeEndpoint': f'unix://{kube_store.SOCKET}',
            'cgroupDriver': 'cgroupfs', 'cgroupRoot': f'{self.cgroup}/{node.name}',
            'failSwapOn': False, 'address': '0.0.0.0',
            'authentication': {'anonymous': {'enabled': False}, 'webhook': {'enabled': True},
                               'x509': {'clientCAFile': str(self.pki / 'ca.crt')}},
            'authorization': {'mode': 'Webhook'},
            'tlsCertFile': str(self.pki / f'{node.name}.crt'),
            'tlsPrivateKeyFile': str(self.pki / f'{node.name}.key'),
            'clusterDNS': [self.control.address], 'clusterDomain': DOMAIN,
            'resolvConf': str(resolv), 'staticPodPath': '',
            # A machine's disk may be as full as it is: a share of it says nothing here.
            'evictionHard': {'memory.available': '200Mi', 'nodefs.available': '100Mi',
                             'imagefs.available': '100Mi', 'nodefs.inodesFree': '1000'},
            'evictionPressureTransitionPeriod': '5s',
            'imageGCHighThresholdPercent': 100, 'imageMinimumGCAge': '24h',
            'fileCheckFrequency': '2s', 'syncFrequency': '10s', 'nodeStatusUpdateFrequency': '4s',
            'configMapAndSecretChangeDetectionStrategy': 'Watch'}

    # ------------------------------------------------------------ waiting

    def wait_api(self, timeout=UP_TIMEOUT):
        self.wait(lambda: self.there('/readyz'), timeout, 'the API server')

    def wait_ready(self, timeout=UP_TIMEOUT):
        """Wait until pods can be made on all nodes, and names resolve."""
        def ready():
            said = [each['status'] for node in self.server.get(None, 'nodes')['items']
                    for each in node['status']['conditions'] if each['type'] == 'Ready']
            return said == ['True'] * len(self.nodes)
        self.wait(ready, timeout, 'nodes that are ready')
        self.wait(lambda: self.there(kube_api.place('default', 'serviceaccounts', 'default')),
                  timeout, 'the default service account')
        self.wait(lambda: self.control.run(
            ['curl', '-sf', 'http://127.0.0.1:8181/ready'], user='root').returncode == 0,
            timeout, 'CoreDNS')

    def wait(self, done, timeout, what):
        """wait_until(), which also ends when a daemon of the bed has ended."""
        def looked():
            dead = [name for name, child in self.daemons.items() if child.poll() is not None]
            if dead:
                host, component = dead[0]
                raise BedError(f'{component} on {host} ended:\n' +
                               self[host].tail(f'{component}.log'))
            if done():
                return True
            time.sleep(0.1)
            return False
        wait_until(looked, timeout, what)

    # ------------------------------------------------------------ the user's computer

    def environment(self, env=None):
        """What alice has on `laptop`: kubectl, helm and helm4 on PATH."""
        return {'PATH': f'{self.programs}:{ORDINARY_PATH}', **SELDOM, **(env or {})}

    def run(self, argv, env=None, **options):
        """Run a command as alice on `laptop`; as Node.run()."""
        return self.laptop.run(argv, env=self.environment(env), **options)

    def popen(self, argv, env=None, **options):
        return self.laptop.popen(argv, env=self.environment(env), **options)

    def there(self, path):
        """Whether the API server has something at this path. It may be away."""
        try:
            self.server.ask('GET', path)
        except BedError:
            return False
        return True

    def asks(self, *words):
        return self.run(['kubectl', '--request-timeout=5s', *words]).returncode == 0

    def kubectl(self, *words, input=None, timeout=60):
        """What a kubectl command that must work prints."""
        return self.run(['kubectl', *words], input=input, timeout=timeout, check=True).stdout

    @contextlib.contextmanager
    def namespace(self, **labels):
        """A new Namespace for as long as a `with`; the cluster removes what is in it afterwards,
        which nobody waits for."""
        name = f'test-{secrets.token_hex(4)}'
        space = Namespace(self, name)
        self.server.ask('POST', kube_api.place(None, 'namespaces'), json.dumps({
            'apiVersion': 'v1', 'kind': 'Namespace',
            'metadata': {'name': name, 'labels': labels}}))
        try:
            space.kubeconfig = self.laptop.write(f'.kube/{name}', self.kubeconfig('admin', name),
                                                 mode=0o600)
            # Pods need it; it comes late when the API server has been away.
            account = kube_api.place(name, 'serviceaccounts', 'default')
            self.wait(lambda: self.there(account), 120, 'the default service account')
            yield space
        finally:
            with contextlib.suppress(kube_api.Absent):
                self.server.ask('DELETE', kube_api.place(None, 'namespaces', name))


class Namespace:
    """A namespace of a KubeCluster, and the user's computer with a kubeconfig for it."""

    def __init__(self, cluster, name):
        self.cluster = cluster
        self.name = name
        self.kubeconfig = None

    def environment(self, env=None):
        return {**({'KUBECONFIG': self.kubeconfig} if self.kubeconfig else {}), **(env or {})}

    def run(self, argv, env=None, **options):
        """Run a command as alice on `laptop`, which has kubectl and helm; as Node.run()."""
        return self.cluster.run(argv, env=self.environment(env), **options)

    def popen(self, argv, env=None, **options):
        return self.cluster.popen(argv, env=self.environment(env), **options)

    def kubectl(self, *words, **options):
        """What a kubectl command that must work prints."""
        return self.run(['kubectl', *words], check=True, **options).stdout

    def get(self, *words):
        """What `kubectl get ... -o json` says. Only what kube_api does not know asks kubectl."""
        asked = kube_api.question(words)
        if not asked:
            return json.loads(self.kubectl('get', *words, '-o', 'json'))
        kind, name, selector = asked
        if kind != 'all':
            return self.cluster.server.get(self.name, kind, name, selector)
        return {'items': [item for each in kube_api.ALL for item in
                          self.cluster.server.get(self.name, each, None, selector)['items']]}

    def names(self, kind, *words):
        """Names of the objects of a kind: ['job-0', 'job-1']."""
        return [item['metadata']['name'] for item in self.get(kind, *words)['items']]

    def said(self, pod, container=None):
        """What a pod, or the first one of a job/NAME, has written until now: nothing, where that
        has not begun."""
        try:
            if pod.startswith('job/'):
                pods = self.names('pods', '-l', f'batch.kubernetes.io/job-name={pod[4:]}')
                pod = pods[0] if pods else 'none'
            return self.cluster.server.log(self.name, pod, container)
        except BedError:
            return ''

    def apply(self, *objects):
        """Make objects, each a dict."""
        whole = {'apiVersion': 'v1', 'kind': 'List', 'items': list(objects)}
        self.kubectl('apply', '--server-side', '-f', '-', input=json.dumps(whole))

    def label(self, **labels):
        words = [f'{name}={value}' for name, value in labels.items()]
        self.kubectl('label', '--overwrite', 'namespace', self.name, *words)

    def restrict(self):
        """From now on only pods that are fit for restricted pod security."""
        self.label(**{'pod-security.kubernetes.io/enforce': 'restricted'})

    def wait(self, condition, *words, timeout=60):
        """`kubectl wait --for=CONDITION ...`"""
        self.kubectl('wait', f'--for={condition}', f'--timeout={timeout}s', *words,
                     timeout=timeout + 10)

    def end_of(self, job, timeout=120):
        """How a Job ends, which this waits for: Complete or Failed. The limit is that of a quiet
        machine, and longer on a busy one, as tests/conftest.py has it for processes."""
        said = []
        timeout *= max(1, os.getloadavg()[0] / (os.cpu_count() or 1))

        def over():
            status = self.get('job', job)['status']
            said[:] = [each['type'] for each in status.get('conditions', ())
                       if each['type'] in ('Complete', 'Failed') and each['status'] == 'True']
            return said
        try:
            wait_until(over, timeout, f'end of the job {job}')
        except BedError as error:
            raise BedError(f'{error}\n{self.state()}') from None
        return said[0]

    def state(self):
        """For a person: pods, and what happened to them."""
        return self.kubectl('get', 'pods', '-o', 'wide') + self.kubectl('get', 'events')


def delegate(group):
    """Version 2: let the groups below have all controllers that this one has."""
    names = (group / 'cgroup.controllers').read_text().split()
    for name in names:
        try:
            (group / 'cgroup.subtree_control').write_text(f'+{name}')
        except OSError:
            pass  # What is missing in the end, the kubelet says.


def has_ended(pid):
    """Whether a process, as this machine counts, holds no port and no file any more. Its first
    thread is a zombie as soon as it has ended itself, and the others may still hold them."""
    try:
        stat = Path(f'/proc/{pid}/stat').read_text()
        threads = list(Path(f'/proc/{pid}/task').iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(')')[2].split()[0] in 'ZX' and len(threads) < 2


def b64(text):
    return base64.b64encode(text.encode()).decode()
