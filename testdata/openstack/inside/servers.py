"""servers.py N [PREFIX]: servers PREFIX-0 to PREFIX-(N-1) in the project kubernetes; prints them as JSON when all are ACTIVE."""
import concurrent.futures
import json
import sys
import time

import openstack

count, prefix = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "node"
cloud = openstack.connect(cloud="kubernetes")
ids = json.load(open("/run/openrc.json"))


def create(number):
    return cloud.compute.create_server(
        name=f"{prefix}-{number}", flavor_id=ids["flavor"]["id"], image_id=ids["image"]["id"], networks=[{"uuid": ids["network"]["id"]}]).id


def wait(wanted, seconds):
    """Waits for all in one list a second: 200 servers are not asked one by one."""
    end = time.monotonic() + seconds
    while True:
        mine = [server for server in cloud.compute.servers(details=True) if server.id in wanted]
        failed = [(server.name, server.fault) for server in mine if server.status == "ERROR"]
        if failed:
            sys.exit(f"these servers failed: {failed[:3]}")
        if sum(server.status == "ACTIVE" for server in mine) == len(wanted):
            return mine
        if time.monotonic() > end:
            sys.exit(f"{len(wanted)} servers were not ACTIVE in {seconds} s: {[(s.name, s.status) for s in mine if s.status != 'ACTIVE'][:3]}")
        time.sleep(1)


with concurrent.futures.ThreadPoolExecutor(8) as pool:
    wanted = set(pool.map(create, range(count)))
made = wait(wanted, 60 + 3 * count)
made.sort(key=lambda server: int(server.name.rsplit("-", 1)[1]))
json.dump([{"id": s.id, "name": s.name, "addresses": [a["addr"] for a in sum(s.addresses.values(), [])]} for s in made], sys.stdout, indent=1)
