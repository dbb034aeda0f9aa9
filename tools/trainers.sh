#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What trains with PyTorch, for tests: environments at build/envs/NAME that find PyTorch in that of
# `tools/frameworks.sh torch2`, so that it is fetched once. Each is made once; a second run does
# nothing. Prints the environment's python.
#
# usage: tools/trainers.sh             accelerate, transformers, Lightning  0.2 GB, 0.1 to load
#        tools/trainers.sh resilience  torchft, nvidia-resiliency-ext       0.1 GB, 0.02 to load
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/progress.sh
. tools/progress.sh
# shellcheck source=tools/envs.sh
. tools/envs.sh
name=${1-trainers}

pip() {
    "$env/bin/pip" --disable-pip-version-check --no-cache-dir install --progress-bar off \
        --no-compile "$@"
}

# As in tools/frameworks.sh.
used() {
    env -u PYTHONDONTWRITEBYTECODE "$env/bin/python" -c "import $1"
}

# They name torch, which names several GB of nvidia's packages: so what they need stands here.
make_trainers() {
    pip --no-deps accelerate transformers lightning lightning-utilities torchmetrics \
        pytorch-lightning
    pip huggingface_hub psutil pyyaml regex safetensors tokenizers tqdm
    used 'accelerate, transformers.trainer, lightning.pytorch'
}

make_resilience() {
    pip --no-deps torchft==0.2.0 nvidia-resiliency-ext==0.4.1
    pip opentelemetry-exporter-otlp-proto-http opentelemetry-sdk psutil nvidia-ml-py pyyaml \
        defusedxml
    used 'torchft, nvidia_resiliency_ext.inprocess'
}

case $name in
trainers | resilience) ;;
*)
    sed -n 's/^# usage: //p; s/^#        tools/tools/p' "$0" >&2
    exit 2
    ;;
esac
if [ "${2-}" = --make ]; then
    env=$3
    /usr/bin/python3 -m venv "$env"
    site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "$(realpath build/envs/torch2)/${site#"$env"/}" >"$site/torch2.pth"
    "make_$name"
    exit
fi
tools/frameworks.sh torch2 >/dev/null
take_env "$name" "$(cat tools/trainers.sh)" torch2
if [ -z "$ready" ]; then
    rm -rf "$env"
    progress "$name: fetching it from PyPI, once" "$env.log" \
        tools/trainers.sh "$name" --make "$env" >&2 || {
        cat "$env.log" >&2
        exit 1
    }
    keep_env
fi
echo "$env/bin/python"
