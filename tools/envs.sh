# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# To be sourced, in the tree's folder: where environments of tests lie. Each is at build/envs/NAME.
# Where REIGEN_BED_DIR is set, and there is none yet, a link stands there: to an environment in that
# folder, which is known by what it is made of, so that other trees use it as well.

# Days after which an environment that nobody has asked for makes room for a new one.
envs_days=14

# take_env NAME RECIPE: waits for others that make the same, and sets env, where it lies; key, that
# of RECIPE, a text that says what it is made of; and ready, empty unless there is one of that key.
# Who makes it then ends with keep_env.
take_env() {
    key=$(printf '%s\n' "$2" "$(readlink -f /usr/bin/python3)" | cksum | cut -d ' ' -f 1)
    mkdir -p build/envs
    # Programs there name their python by its path: not by a link of this tree to another one's.
    env=$(cd build/envs && pwd -P)/$1
    envs_kept=
    envs_bed=$(realpath -m "${REIGEN_BED_DIR:-/root}")/
    # In containers that tests show an environment at its own path, /root is the image's own: who is
    # not its root would not come through.
    if [ "${envs_bed#/root/}" = "$envs_bed" ] && { [ -L "$env" ] || [ ! -e "$env" ]; }; then
        envs_kept=${envs_bed}envs
        mkdir -p "$envs_kept"
        if [ "$(readlink "$env")" != "$envs_kept/$1.$key" ]; then
            ln -s "$envs_kept/$1.$key" "$env.$$"
            mv -T "$env.$$" "$env"
        fi
        env=$envs_kept/$1.$key
    fi
    exec 9>"$env.lock"
    flock 9
    ready=
    if [ "$(cat "$env/ready" 2>/dev/null)" = "$key" ]; then
        ready=yes
        touch "$env"
    fi
}

# keep_env NAME: env is ready, and those of that name that nobody has used are removed, also half
# made ones.
keep_env() {
    echo "$key" >"$env/ready"
    if [ -n "$envs_kept" ]; then
        find "$envs_kept" -mindepth 1 -maxdepth 1 -type d -name "$1.*" -mtime "+$envs_days" \
            -exec rm -rf {} +
    fi
}
