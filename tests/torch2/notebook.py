# SPDX-License-Identifier: Apache-2.0
"""Runs cells in a real Jupyter kernel and prints, as one JSON object per cell, what a notebook
shows of it: text by stream, the error, and the last value.

    python notebook.py CELLS     CELLS: a JSON file with a list of objects: code; interrupt, a text
                                 after which the kernel, and only it, gets SIGINT; kill, one after
                                 which it gets SIGKILL
"""
import json
import os
import signal
import sys

from jupyter_client.manager import KernelManager

LIMIT_S = 200


def run(manager, client, code, interrupt=None, kill=None):
    shown = {'stdout': '', 'stderr': ''}
    number = client.execute(code)
    while True:
        message = client.get_iopub_msg(timeout=LIMIT_S)
        if message['parent_header'].get('msg_id') != number:
            continue
        kind, content = message['msg_type'], message['content']
        if kind == 'status' and content['execution_state'] == 'idle':
            return shown
        if kind == 'stream':
            shown[content['name']] += content['text']
            for text, how in ((interrupt, signal.SIGINT), (kill, signal.SIGKILL)):
                if text and text in shown['stdout']:
                    os.kill(manager.provisioner.process.pid, how)
                    interrupt = None
            if kill and kill in shown['stdout']:
                return shown
        elif kind == 'error':
            shown['error'] = {'name': content['ename'], 'shown': '\n'.join(content['traceback'])}
        elif kind in ('execute_result', 'display_data'):
            shown['value'] = content['data']


def main():
    with open(sys.argv[1], encoding='utf-8') as stream:
        cells = json.load(stream)
    manager = KernelManager(kernel_name='python3')
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=LIMIT_S)
        for cell in cells:
            print(json.dumps(run(manager, client, **cell)), flush=True)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == '__main__':
    main()
