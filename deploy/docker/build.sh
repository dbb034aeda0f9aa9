#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build an image of Reigen from this checkout.
#
# usage: deploy/docker/build.sh [--file Dockerfile|Dockerfile.cuda|Dockerfile.sshd|Dockerfile.spark|
#                Dockerfile.openpai] [--tag TAG] [--base IMAGE] [--context DIR] [--docker COMMAND]
#            [-- DOCKER-BUILD-OPTION...]
#
# With --context DIR it only writes the build context there, for `docker build DIR`; without, it
# builds from a temporary one. What follows -- goes to docker build: --build-arg and the like.
# DIR may be a Spark distribution for Dockerfile.spark, which then takes its Spark.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
file=Dockerfile tag=horovod:latest base='' context='' docker=docker

usage() {
    sed -n 's/^# //p; s/^#$//p' "$0" | sed -n '3,11p' >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --file | --tag | --base | --context | --docker) [ $# -ge 2 ] || usage ;;
    esac
    case $1 in
    --file) file=$2 ;;
    --tag) tag=$2 ;;
    --base) base=$2 ;;
    --context) context=$2 ;;
    --docker) docker=$2 ;;
    --)
        shift
        break
        ;;
    *) usage ;;
    esac
    shift 2
done
[ -f "$here/$file" ] || usage

# write_wheels DIR
write_wheels() {
    mkdir -p "$1"
    rm -f "$1"/*.whl
    make -s -C "$here/../.." wheel ARGS="--out $(cd "$1" && pwd)" >&2
}

write_context() {
    write_wheels "$1/wheels"
    cp "$here"/Dockerfile* "$1/"
    cp -R "$here/setup" "$1/"
    cp -R "$here/../../examples" "$1/"
    find "$1/examples" -name __pycache__ -prune -exec rm -rf {} +
}

# Everything is where a Spark distribution has its own; what is there already is the user's.
write_spark_context() {
    ours=$1/${2%/*} scripts=$1/examples/src/main/python/tensorflow
    mkdir -p "$scripts"
    write_wheels "$ours/wheels"
    cp -R "$here/setup" "$ours/"
    cp "$here/Dockerfile.spark" "$ours/Dockerfile"
    for name in keras_mnist_advanced_modified.py digits.py data; do
        [ -e "$scripts/$name" ] || cp -R "$here/../../examples/$name" "$scripts/"
    done
}

place=$file write=write_context
if [ "$file" = Dockerfile.spark ]; then
    place=kubernetes/dockerfiles/spark/ubuntu18.04/Dockerfile write=write_spark_context
fi
if [ -n "$context" ]; then
    mkdir -p "$context"
    $write "$context" "$place"
    echo "$context: docker build -f $context/$place -t $tag $context"
    exit 0
fi
context=$(mktemp -d "${TMPDIR:-/tmp}/reigen-docker.XXXXXX")
trap 'rm -rf "$context"' EXIT
$write "$context" "$place"
$docker build -f "$context/$place" -t "$tag" ${base:+--build-arg "BASE=$base"} "$@" "$context"
