# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# To be sourced, in the tree's folder: where environments of tests lie. Each is at build/envs/NAME.
# Where REIGEN_BED_DIR names a folder, that is a link to an environment there, which is known by
# what it is made of, so that other trees use it as well.

# An environment in that folder that nobody has asked for in so many days makes room for a new one.
envs_days=14

# envs_find_bed sets envs_kept: the folder for environments of all trees, or nothing.
envs_find_bed() {
    envs_kept=
    [ -n "${REIGEN_BED_DIR-}" ] || return 0
    envs_kept=$(realpath -m "$REIGEN_BED_DIR")/envs
    case $envs_kept in
    # Tests show containers an environment at its own path, and nobody but its root may enter the
    # /root of an image.
    /root/*) envs_kept= ;;
    *)
        if ! mkdir -p "$envs_kept" 2>/dev/null || [ ! -w "$envs_kept" ]; then
            echo "envs: $(id -un) cannot write to $envs_kept: environments go to build/envs." \
                "Let REIGEN_BED_DIR name a folder of your own" >&2
            envs_kept=
        fi
        ;;
    esac
}

# envs_is_ready FOLDER: it is whole, of that key, and the environments that it names are there.
envs_is_ready() {
    [ -e "$1/bases" ] && [ "$(cat "$1/ready" 2>/dev/null)" = "$key" ] || return 1
    while read -r envs_base; do
        [ -d "$envs_base" ] || return 1
    done <"$1/bases"
}

# take_env NAME RECIPE [BASE...]: waits for others that make the same, and sets env, where it lies;
# key, that of RECIPE, a text that says what it is made of, and of the environments BASE, which it
# names by their paths; and ready, empty unless there is one of that key. Who makes it then ends
# with keep_env.
take_env() {
    envs_name=$1 envs_recipe=$2 envs_bases='' ready=''
    shift 2
    for envs_base in "$@"; do
        envs_recipe=$envs_recipe$(cat "build/envs/$envs_base/ready")
        envs_bases=$envs_bases$(readlink -f "build/envs/$envs_base")'
'
    done
    key=$(printf '%s\n' "$envs_recipe" "$(readlink -f /usr/bin/python3)" | cksum | cut -d ' ' -f 1)
    mkdir -p build/envs
    # Programs there name their python by its path: not by a link of this tree to another one's.
    env=$(cd build/envs && pwd -P)/$envs_name
    envs_find_bed
    # Descriptor 9 holds the lock until this program and the one that makes the environment end.
    exec 9>"$env.lock"
    flock 9
    if [ -z "$envs_kept" ] && [ -L "$env" ]; then
        envs_link=$env env=$(readlink -f "$env")
        if [ "${env#/root/}" != "$env" ] || ! envs_is_ready "$env"; then
            rm -f "$envs_link"
            env=$envs_link
        fi
    elif [ -n "$envs_kept" ] && { [ -L "$env" ] || ! envs_is_ready "$env"; }; then
        if [ "$(readlink "$env")" != "$envs_kept/$envs_name.$key" ]; then
            [ -L "$env" ] || rm -rf "$env"
            ln -sfn "$envs_kept/$envs_name.$key" "$env.$$"
            mv -T "$env.$$" "$env"
        fi
        env=$envs_kept/$envs_name.$key
        exec 9>"$env.lock"
        flock 9
    fi
    if envs_is_ready "$env"; then
        ready=yes
        touch "$env"
    fi
}

# keep_env: env is ready. Those of that name in the folder of all trees that nobody has used are
# removed, also half made ones, unless somebody makes or takes them.
keep_env() {
    printf '%s' "$envs_bases" >"$env/bases"
    echo "$key" >"$env/ready"
    [ -n "$envs_kept" ] || return 0
    for envs_old in $(envs_unused -name "$envs_name.*"); do
        (
            flock -n 8 && [ -n "$(envs_unused -path "$envs_old")" ] || exit 0
            rm -f "$envs_old/ready"
            rm -rf "$envs_old" "$envs_old.log"
        ) 8>"$envs_old.lock" 9>&- || true
    done
}

envs_unused() {
    find "$envs_kept" -mindepth 1 -maxdepth 1 -type d "$@" -mtime "+$envs_days"
}
