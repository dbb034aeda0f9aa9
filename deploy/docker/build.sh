#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build an image of Reigen from this checkout.
#
# usage: deploy/docker/build.sh [--file Dockerfile|Dockerfile.cuda|Dockerfile.sshd] [--tag TAG]
#            [--base IMAGE] [--context DIR] [--docker COMMAND] [-- DOCKER-BUILD-OPTION...]
#
# With --context DIR it only writes the build context there, for `docker build DIR`; with neither,
# it builds from a temporary one. What follows -- goes to docker build: --build-arg and the like.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
file=Dockerfile tag=horovod:latest base='' context='' docker=docker

usage() {
    sed -n 's/^# //p; s/^#$//p' "$0" | sed -n '3,10p' >&2
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

write_context() {
    mkdir -p "$1/wheels"
    rm -f "$1"/wheels/*.whl
    make -s -C "$here/../.." wheel ARGS="--out $(cd "$1/wheels" && pwd)" >&2
    cp "$here"/Dockerfile* "$1/"
    cp -R "$here/setup" "$1/"
    cp -R "$here/../../examples" "$1/"
    find "$1/examples" -name __pycache__ -prune -exec rm -rf {} +
}

if [ -n "$context" ]; then
    mkdir -p "$context"
    write_context "$context"
    echo "$context: docker build -f $context/$file -t $tag $context"
    exit 0
fi
context=$(mktemp -d "${TMPDIR:-/tmp}/reigen-docker.XXXXXX")
trap 'rm -rf "$context"' EXIT
write_context "$context"
$docker build -f "$context/$file" -t "$tag" ${base:+--build-arg "BASE=$base"} "$@" "$context"
