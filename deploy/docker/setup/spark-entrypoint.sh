#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a container of PyPI's Spark begins with. In Spark's own pods it is called with `driver`, or
# with `executor` and the variables that Spark gives there; with anything else it runs that.
set -eu
role=${1-}
case $role in
driver | executor)
    shift
    . /opt/spark-user.sh
    ;;
esac
case $role in
driver)
    exec tini -s -- spark-submit --deploy-mode client \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    # Options of Java's are numbered words, in which may be spaces. The later ones are the user's.
    set --
    while value=$(printenv "SPARK_JAVA_OPT_$#"); do
        set -- "$@" "$value"
    done
    conf=${SPARK_CONF_DIR:-$SPARK_HOME/conf}
    set -- "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$conf:$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" --podName "$SPARK_EXECUTOR_POD_NAME" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID"
    exec tini -s -- "$JAVA_HOME/bin/java" "$@"
    ;;
esac
exec "$@"
