"""The three services that have no server of their own, for gunicorn."""
import os
import sys
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
    """While PAUSED exists, what the provider did is not reported: objects stay PENDING_*."""
    sys.argv = ["octavia"]
    from octavia.api.app import setup_app
    from octavia_lib.api.drivers.driver_lib import DriverLibrary

    report = DriverLibrary.update_loadbalancer_status

    def report_when_allowed(self, status):
        while os.path.exists(PAUSED):
            time.sleep(0.02)
        return report(self, status)

    DriverLibrary.update_loadbalancer_status = report_when_allowed
    return setup_app()
