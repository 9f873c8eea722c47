"""Waits until every service is in use: a server is built and deleted, load balancers and volumes are listed."""
import json
import sys
import time

import openstack

cloud = openstack.connect(cloud="kubernetes")
ids = json.load(open("/srv/state/openrc.json"))
end = time.monotonic() + 120
fault = "no try yet"


def probe():
    list(cloud.load_balancer.load_balancers())
    list(cloud.block_storage.volumes())
    server = cloud.compute.create_server(
        name="probe", flavor_id=ids["flavor"]["id"], image_id=ids["image"]["id"], networks=[{"uuid": ids["network"]["id"]}])
    try:
        cloud.compute.wait_for_server(server, interval=0.5, wait=30)
    finally:
        cloud.compute.delete_server(server)
        cloud.compute.wait_for_delete(server, interval=0.5, wait=30)


while time.monotonic() < end:
    try:
        probe()
        sys.exit(0)
    except Exception as error:
        fault = error
        time.sleep(1)
sys.exit(f"the cloud does not work: {fault}")
