# SPDX-License-Identifier: Apache-2.0
# With --runAsUser: a list of users in which that one has a name and a home, as ssh asks for both.
set -eu
place=/kubeflow/openmpi/user uid=$(id -u) found=
cat /etc/passwd >$place/passwd 2>/dev/null || :
while IFS=: read -r _ _ number _; do
    [ "$number" != "$uid" ] || found=yes
done <$place/passwd
if [ -z "$found" ]; then
    mkdir -p $place/home
    echo "mpi$uid:x:$uid:$(id -g):mpi:$place/home:/bin/sh" >>$place/passwd
fi
