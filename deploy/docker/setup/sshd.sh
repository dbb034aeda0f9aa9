#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Let /usr/sbin/sshd be `reigen sshd`, which takes all options of sshd's, and makes the keys that
# are missing: in the directory that the containers share, where a port of their own is given. An
# image has no keys: all who have it would have them.
set -eu
rm -f /etc/ssh/ssh_host_*
if [ ! -e /usr/sbin/sshd.real ]; then
    dpkg-divert --quiet --local --rename --divert /usr/sbin/sshd.real --add /usr/sbin/sshd
fi
cat >/usr/sbin/sshd <<'END'
#!/bin/sh
# It starts Debian's own, which is sshd.real; -p PORT alone: with the keys of ~/.ssh.
exec reigen sshd --as-sshd "$@"
END
chmod 755 /usr/sbin/sshd
mkdir -p /etc/ssh/ssh_config.d
cat >/etc/ssh/ssh_config.d/reigen.conf <<'END'
# The pods of an MPIJob or TrainJob make their keys when they start, and the operator tells nobody
# which those are.
Match exec "test -e /etc/mpi/hostfile || test ${K_MPI_JOB_ROLE:-none} != none"
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
# `reigen sshd` has written the key of all hosts on its port to known_hosts.
Host *
    StrictHostKeyChecking yes
END
