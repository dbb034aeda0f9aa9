# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts of these folders: what they need of the image, told before a rank starts.
# shellcheck shell=bash

need() {
    local program
    for program; do
        command -v "$program" >/dev/null && continue
        echo "${0##*/}: there is no $program in the container: take an image that has it" >&2
        exit 127
    done
}

# tell_options PROGRAM ARGUMENT...: with --help among them one process says what the program's
# options are, instead of each rank.
tell_options() {
    local program=$1 word
    shift
    for word; do
        case $word in -h|--help) exec "$python" "$program" --help;; esac
    done
}

# Some images know it by one of these names only.
python=$(command -v python || command -v python3) || need python
