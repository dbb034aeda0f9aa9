#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate, transformers and Lightning, for tests: an environment build/envs/trainers that finds
# PyTorch in that of `tools/frameworks.sh torch2`, so that it is fetched once. 0.2 GB, 0.1 to load.
# Made once; a second run does nothing. Prints the environment's python.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/progress.sh
. tools/progress.sh
env=$(pwd)/build/envs/trainers

pip() {
    "$env/bin/pip" --disable-pip-version-check --no-cache-dir install --progress-bar off "$@"
}

if [ "${1-}" = --make ]; then
    /usr/bin/python3 -m venv "$env"
    site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "${env%/*}/torch2/${site#"$env"/}" >"$site/torch2.pth"
    # They name torch, which names several GB of nvidia's packages: so what they need stands here.
    pip --no-deps accelerate transformers lightning lightning-utilities torchmetrics \
        pytorch-lightning
    pip huggingface_hub psutil pyyaml regex safetensors tokenizers tqdm
    exit
fi
tools/frameworks.sh torch2 >/dev/null
# Two tests may ask at once; the second waits for the first.
exec 9>"$env.lock"
flock 9
# What this file asks for may have changed since the environment was made.
asked=$(cksum <tools/trainers.sh)
if [ "$(cat "$env/ready" 2>/dev/null)" != "$asked" ]; then
    rm -rf "$env"
    progress "trainers: fetching them from PyPI, once" "$env.log" \
        tools/trainers.sh --make 9>&- >&2 || {
        cat "$env.log" >&2
        exit 1
    }
    echo "$asked" >"$env/ready"
fi
echo "$env/bin/python"
