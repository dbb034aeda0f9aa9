# SPDX-License-Identifier: Apache-2.0
# What the scripts of master and workers share: the keys, ssh's settings, and the sshd of a pod.
# SSHPORT, USESECRETS: the chart's values. REIGEN_CHART_PORTS: with the host's network, pods may
# share a node; so the host in line n of the hostfile, from 0, listens on SSHPORT + n.
hostfile=/horovod/generated/hostfile
secret=/etc/secret-volume
home=${HOME:-/root}

fail() {
    echo "reigen: $*" >&2
    exit "${fail_code:-1}"
}

hosts() {
    while read -r name _; do
        [ -z "$name" ] || echo "$name"
    done <$hostfile
}

# The port of this pod: line 0 is the master, worker i is in line i + 1.
own_port() {
    line=0
    case ${REIGEN_CHART_PORTS:-}:$1 in
    true:worker) line=$((${REIGEN_POD_NAME##*-} + 1)) ;;
    esac
    echo $((SSHPORT + line))
}

# A key at the end of a YAML block has no newline, which ssh wants. An image may have keys of its
# own; ssh would offer the old public key with the new private one.
install_keys() {
    rm -f "$home/.ssh/id_rsa" "$home/.ssh/id_rsa.pub" "$home/.ssh/authorized_keys"
    { cat $secret/id_rsa && echo; } >"$home/.ssh/id_rsa"
    public=$(ssh-keygen -y -P '' -f "$home/.ssh/id_rsa" </dev/null) ||
        fail "ssh.hostKey is not a private key that ssh-keygen can read without a passphrase"
    words=$(echo "$public" | { read -r type key _ && echo "$type $key"; })
    if [ -s $secret/authorized_keys ]; then
        grep -qF "$words" $secret/authorized_keys ||
            fail "ssh.hostKeyPub is not the public half of ssh.hostKey"
        { cat $secret/authorized_keys && echo; } >"$home/.ssh/authorized_keys"
    else
        echo "$public" >"$home/.ssh/authorized_keys"
    fi
    echo "$public" >"$home/.ssh/id_rsa.pub"
    # It is also the key of every sshd of this job, so that ssh knows all of them.
    echo "* $words" >"$home/.ssh/reigen_known_hosts"
}

# The settings of a host: `settings NAME PORT`.
settings() {
    printf 'Host %s\n    Port %s\n    LogLevel ERROR\n' "$1" "$2"
    [ "${USESECRETS:-}" != true ] || printf '    %s\n' 'StrictHostKeyChecking yes' \
        "UserKnownHostsFile $home/.ssh/reigen_known_hosts" "IdentityFile $home/.ssh/id_rsa"
}

# prepare_ssh ROLE
prepare_ssh() {
    umask 077
    command -v ssh >/dev/null ||
        fail 'this image has no ssh: install openssh-client and openssh-server in it'
    mkdir -p "$home/.ssh" ||
        fail "cannot make $home/.ssh: run as root, or with a HOME that can be written"
    [ "${USESECRETS:-}" != true ] || install_keys
    {
        settings localhost "$(own_port "$1")"
        line=0
        for host in $(hosts); do
            settings "$host" $((SSHPORT + line))
            [ -z "${REIGEN_CHART_PORTS:-}" ] || line=$((line + 1))
        done
        printf 'Host *\n    Port %s\n    StrictHostKeyChecking no\n' "$SSHPORT"
    } >"$home/.ssh/config"
    # A session gets what the pod has: an sshd does not pass on its own environment.
    awk 'BEGIN {
        own = "^(HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|SHLVL|TERM|MAIL|HOSTNAME|AWKPATH|AWKLIBPATH|_)$"
        for (name in ENVIRON)
            if (name !~ own && ENVIRON[name] !~ /\n/)
                print name "=" ENVIRON[name]
    }' >"$home/.ssh/environment"
    umask 022
}

# find_sshd: the program, for run_sshd. Images of deploy/docker have a script under its name.
find_sshd() {
    sshd=$(command -v sshd || echo /usr/sbin/sshd)
    [ ! -x "$sshd.real" ] || sshd=$sshd.real
    [ -x "$sshd" ] || fail "this image has no sshd: install openssh-server in it"
    mkdir -p /run/sshd /var/run/sshd
    if [ "${USESECRETS:-}" != true ]; then
        ssh-keygen -A >/dev/null
    fi
}

# run_sshd ROLE [exec] [OPTION...]: it returns when sshd listens; with exec, it becomes sshd.
run_sshd() {
    port=$(own_port "$1")
    shift
    run=
    if [ "${1:-}" = exec ]; then
        run=exec
        shift
    fi
    set -- "$@" -p "$port" -o PermitUserEnvironment=yes -o LogLevel=ERROR
    if [ "${USESECRETS:-}" = true ]; then
        set -- "$@" -h "$home/.ssh/id_rsa" -o "AuthorizedKeysFile=$home/.ssh/authorized_keys" \
            -o PermitRootLogin=without-password -o PubkeyAuthentication=yes -o StrictModes=no
    fi
    $run "$sshd" "$@"
}
