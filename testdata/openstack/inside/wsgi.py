"""The three services that have no server of their own, for gunicorn."""
import os
import queue
import sys
import threading
import time

PAUSED = "/run/octavia/paused"


def keystone():
    sys.argv = ["keystone"]
    from keystone.server.wsgi import initialize_public_application
    return initialize_public_application()


def placement():
    sys.argv = ["placement"]
    from placement.wsgi import init_application
    return init_application()


def octavia():
    """While PAUSED exists, what the provider did is not reported: objects stay PENDING_*.

    Reports wait in a queue and not in their callers: the API waits for the provider's
    thread before it answers. Their order is kept.
    """
    sys.argv = ["octavia"]
    from octavia.api.app import setup_app
    from octavia_lib.api.drivers.driver_lib import DriverLibrary

    report = DriverLibrary.update_loadbalancer_status
    waiting = queue.Queue()

    def report_later():
        while True:
            library, status = waiting.get()
            while os.path.exists(PAUSED):
                time.sleep(0.02)
            try:
                report(library, status)
            except Exception as error:  # the next report must not be lost with this one
                print(f"a report was refused: {error}", file=sys.stderr)
            waiting.task_done()

    def report_when_allowed(library, status):
        if os.path.exists(PAUSED) or waiting.unfinished_tasks:
            waiting.put((library, status))
        else:
            report(library, status)

    DriverLibrary.update_loadbalancer_status = report_when_allowed
    threading.Thread(target=report_later, daemon=True).start()
    return setup_app()
