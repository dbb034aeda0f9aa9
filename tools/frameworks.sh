#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Virtual environments with frameworks from PyPI, for CPUs, for tests and benchmarks: each is made
# once, at build/envs/NAME, and a second run does nothing. Prints the environment's python.
#
# usage: tools/frameworks.sh torch2   PyTorch 2 and Keras 3                 1.5 GB, 0.6 to load
#        tools/frameworks.sh tf       TensorFlow, Keras 3 and 2, JAX        1.6 GB, 0.4 to load
#        tools/frameworks.sh tf215    TensorFlow 2.15 and Keras 2           1.3 GB, 0.3 to load
#        tools/frameworks.sh zig      the linker of make wheel              0.4 GB, 0.1 to load
#        tools/frameworks.sh jupyter  Jupyter's kernel, debugpy             0.1 GB, 0.03 to load
#        tools/frameworks.sh spark    Spark; it needs a Java of 17 or later  0.8 GB, 0.5 to load
#        tools/frameworks.sh dask     Dask's schedulers and workers         0.2 GB, 0.05 to load
#        tools/frameworks.sh ray      Ray's clusters                        0.4 GB, 0.1 to load
#        tools/frameworks.sh apps     what trains by Horovod, and torch2, ray  0.4 GB, 0.2 to load
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/progress.sh
. tools/progress.sh
# shellcheck source=tools/envs.sh
. tools/envs.sh
name=${1-}

pip() {
    "$env/bin/pip" --disable-pip-version-check --no-cache-dir install --progress-bar off \
        --no-compile "$@"
}

# Compile what is used of thousands of modules, by an import: pip would compile all of them, for
# minutes of a processor. Who uses more writes down what that is made of.
used() {
    env -u PYTHONDONTWRITEBYTECODE "$env/bin/python" -c "import $1"
}

make_torch2() {
    # nvidia's packages, which torch names, are several GB that a CPU has no use for.
    pip --no-deps 'torch>=2'
    # expecttest is what PyTorch's own tests need.
    pip numpy typing_extensions filelock sympy networkx jinja2 fsspec setuptools keras expecttest
    site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$env/bin/python" tests/torch2/stubs.py "$site/torch" >&2
    KERAS_BACKEND=torch used 'torch._dynamo, torch.distributed.tensor, torch.distributed.run, keras'
}

make_tf() {
    pip 'tensorflow-cpu>=2.16' 'keras>=3' jax
    # Keras 2 names the TensorFlow that is not for CPUs alone.
    pip --no-deps tf_keras
    used 'tensorflow, keras, jax'
}

make_tf215() {
    pip 'tensorflow-cpu==2.15.*'
    used 'tensorflow, keras'
}

make_zig() {
    pip ziglang
}

make_jupyter() {
    pip ipykernel==7.4.0 jupyter_client==8.10.0 ipython==9.18.1 debugpy==1.8.22 cloudpickle==3.1.3
    used 'ipykernel.kernelapp, jupyter_client, debugpy.server.api, cloudpickle'
}

make_dask() {
    pip distributed==2026.8.0 numpy
    used 'distributed.cli.dask_scheduler, distributed.cli.dask_worker, numpy'
}

make_spark() {
    # The last three are the estimators'.
    pip pyspark==4.3.0 cloudpickle numpy pyarrow 'pandas<3' fsspec
    used 'pyspark.sql, pyspark.worker, pyarrow.dataset, pandas'
}

make_ray() {
    pip ray==2.60.0 numpy
    used 'ray, numpy'
}

make_apps() {
    # They name torch and ray; they find those of torch2 and ray.
    pip --no-deps pytorch-ignite==0.5.5 pyro-ppl==1.9.2 ray-lightning==0.3.0 \
        pytorch-lightning==1.6.5 torchmetrics==0.11.4
    pip packaging pyro-api opt-einsum tqdm 'numpy<2' pyyaml 'pydeprecate<0.4' tensorboard
    # Ray Train takes these; later ones need NumPy 2.
    pip 'pandas<3' 'pyarrow<22' 'pydantic<3'
    site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    for other in torch2 ray; do
        echo "$(realpath "build/envs/$other")/${site#"$env"/}"
    done >"$site/others.pth"
    used 'pytorch_lightning, ray_lightning, ignite.distributed, pyro, ray.train.torch'
}

case $name in
torch2 | tf | tf215 | zig | jupyter | dask | spark | ray | apps) ;;
*)
    sed -n 's/^# usage: //p; s/^#        tools/tools/p' "$0" >&2
    exit 2
    ;;
esac
if [ "${2-}" = --make ]; then
    env=$3
    /usr/bin/python3 -m venv "$env"
    "make_$name"
    exit
fi
recipe=$(sed -n "/^pip()/,/^}/p; /^make_$name()/,/^}/p" tools/frameworks.sh)
set --
case $name in
torch2) recipe=$recipe$(cat tests/torch2/stubs.py) ;;
apps)
    set -- torch2 ray
    for other in "$@"; do
        tools/frameworks.sh "$other" >/dev/null
    done
    ;;
esac
take_env "$name" "$recipe" "$@"
if [ -z "$ready" ]; then
    rm -rf "$env"
    # Standard output is the caller's, who wants the answer alone.
    progress "$name: fetching it from PyPI, once" "$env.log" \
        tools/frameworks.sh "$name" --make "$env" >&2 || {
        cat "$env.log" >&2
        exit 1
    }
    keep_env
fi
echo "$env/bin/python"
