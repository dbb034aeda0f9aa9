#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make the build context in /opt/spark a Spark that works: a Spark distribution as it is, or else
# PyPI's pyspark in its place, with our example in it.
# usage: spark.sh VERSION-OF-PYSPARK
set -eu
spark=/opt/spark
site=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
if [ -d $spark/jars ]; then
    printf '%s\n' $spark/python $spark/python/lib/py4j-*-src.zip >"$site/spark.pth"
else
    sh "${0%/*}/pip.sh" "pyspark==$1"
    cp -R $spark/examples "$site/pyspark/"
    rm -rf $spark
    ln -s "$site/pyspark" $spark
fi
ln -s "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" /opt/java
# A distribution has what starts Spark's own pods; PyPI's Spark has not.
kubernetes=$spark/kubernetes/dockerfiles/spark
if [ -f $kubernetes/entrypoint.sh ]; then
    cp $kubernetes/entrypoint.sh $kubernetes/decom.sh /opt/
else
    cp "${0%/*}/spark-entrypoint.sh" /opt/entrypoint.sh
fi
chmod 755 /opt/*.sh
# Java does not start for a user without a name. Spark's entry point adds a line to /etc/passwd if
# it is in the group of root, as Spark's own images let it. For others, and where a pod's command
# takes the entry point's place, this gives Java a file of its own: every program of Spark reads it,
# but not in Spark's own pods, which have another conf/.
chgrp root /etc/passwd && chmod g+rw /etc/passwd
cat >/opt/spark-user.sh <<'END'
if ! getent passwd "$(id -u)" >/dev/null && NSS_WRAPPER_PASSWD=$(mktemp); then
    { cat /etc/passwd; echo "spark:x:$(id -u):$(id -g)::${HOME:-/tmp}:/bin/sh"; } \
        >"$NSS_WRAPPER_PASSWD"
    export NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP=/etc/group
    export LD_PRELOAD=libnss_wrapper.so${LD_PRELOAD:+:$LD_PRELOAD}
fi
END
mkdir -p $spark/conf
echo '. /opt/spark-user.sh' >>$spark/conf/spark-env.sh
chmod 755 $spark/conf/spark-env.sh
rm -rf $kubernetes/ubuntu18.04
# Not in $spark itself, whose pandas/ is not the pandas that a script there means.
mkdir -m 1777 $spark/work-dir
