# SPDX-License-Identifier: Apache-2.0
"""A slow road for ssh: ProxyCommand python3 delay.py MILLISECONDS HOST PORT.

Hands bytes on unchanged, in either direction that many milliseconds after they came. It limits no
rate: what is under way is bounded at QUEUE pieces, far above what ssh keeps under way. (The
kernel's netem would do the same, but is not everywhere, and needs root.)
"""
import os
import queue
import socket
import sys
import threading
import time

PIECE = 256 << 10
QUEUE = 1024


def carry(take, give, delay):
    under_way = queue.Queue(QUEUE)

    def deliver():
        while True:
            due, data = under_way.get()
            time.sleep(max(0.0, due - time.monotonic()))
            give(data)
            if not data:
                return

    thread = threading.Thread(target=deliver, daemon=True)
    thread.start()
    data = True
    while data:
        data = take()
        under_way.put((time.monotonic() + delay, data))
    thread.join()


def write_out(data):
    while data:
        data = data[os.write(1, data):]


def main(milliseconds, host, port):
    peer = socket.create_connection((host, int(port)))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    delay = float(milliseconds) / 1000

    def send(data):
        if data:
            peer.sendall(data)
        else:
            peer.shutdown(socket.SHUT_WR)

    up = threading.Thread(target=carry, args=(lambda: os.read(0, PIECE), send, delay), daemon=True)
    up.start()
    carry(lambda: peer.recv(PIECE), write_out, delay)


if __name__ == '__main__':
    main(*sys.argv[1:])
