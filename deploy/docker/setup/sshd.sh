#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Let /usr/sbin/sshd be `reigen sshd`, which makes the keys that are missing, in the directory that
# the containers share. An image has no keys: all who have it would have them.
set -eu
rm -f /etc/ssh/ssh_host_*
if [ ! -e /usr/sbin/sshd.real ]; then
    dpkg-divert --quiet --local --rename --divert /usr/sbin/sshd.real --add /usr/sbin/sshd
fi
cat >/usr/sbin/sshd <<'END'
#!/bin/sh
# With the keys of ~/.ssh; it starts Debian's own, which is sshd.real.
exec reigen sshd "$@"
END
chmod 755 /usr/sbin/sshd
mkdir -p /etc/ssh/ssh_config.d
cat >/etc/ssh/ssh_config.d/reigen.conf <<'END'
# `reigen sshd` has written the key of all hosts on its port to known_hosts.
Host *
    StrictHostKeyChecking yes
END
