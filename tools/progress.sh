# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# To be sourced: progress LABEL LOG COMMAND [ARGUMENT...] runs the command with its output in LOG,
# and says what goes on when it takes a while. On a terminal the label stands there with the log's
# last line, which changes in place and is wiped at the end; elsewhere the label has a line after
# 2 s, and the log's last line follows every 20 s. The exit status is the command's.

# Runs beside the command, which has to be in the foreground to get Ctrl-C.
progress_watch() {
    ticks=0
    columns=$({ stty size </dev/tty; } 2>/dev/null | cut -d ' ' -f 2)
    [ "${columns:-0}" -ge 20 ] || columns=80
    # The parent may be killed.
    while kill -0 $$ 2>/dev/null; do
        sleep 0.2 >/dev/null 2>&1
        ticks=$((ticks + 1))
        last=$(tail -n 1 "$2" 2>/dev/null | tr -d '\000-\037' | cut -c "1-$((columns - ${#1} - 3))")
        if [ -t 1 ]; then
            [ $ticks -lt 2 ] || printf '\r\033[K%s: %s' "$1" "$last"
        elif [ $ticks = 10 ]; then
            echo "$1 ..."
        elif [ $((ticks % 100)) = 0 ]; then
            echo "$1: $last"
        fi
    done
}

progress() {
    progress_label=$1 progress_log=$2
    shift 2
    : >"$progress_log"
    progress_watch "$progress_label" "$progress_log" 9>&- &
    progress_watcher=$!
    progress_status=0
    "$@" >"$progress_log" 2>&1 </dev/null || progress_status=$?
    kill "$progress_watcher" 2>/dev/null || true
    wait "$progress_watcher" 2>/dev/null || true
    [ ! -t 1 ] || printf '\r\033[K'
    return "$progress_status"
}

# step LABEL COMMAND [ARGUMENT...] does so with a log of its own in build/. At the end it prints the
# log's lines but those that begin with a bracket, as [3/9]; after a failure all of them, as errors.
step() {
    step_label=$1 step_log=build/.step.$$ step_status=0
    shift
    progress "$step_label" "$step_log" "$@" || step_status=$?
    if [ $step_status = 0 ]; then
        grep -v '^\[' "$step_log" || true
    else
        cat "$step_log" >&2
    fi
    rm -f "$step_log"
    return $step_status
}
