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


def of_mine(wanted, status):
    return {server.id for server in cloud.compute.servers(details=False, status=status)} & wanted


def wait(wanted, seconds):
    """Waits for all with two short lists at a time: details of 200 servers are work for Nova."""
    end = time.monotonic() + seconds
    while (active := of_mine(wanted, "ACTIVE")) != wanted:
        failed = of_mine(wanted, "ERROR")
        if failed:
            sys.exit(f"servers failed: {[cloud.compute.get_server(id).fault for id in list(failed)[:3]]}")
        if time.monotonic() > end:
            sys.exit(f"{len(wanted - active)} of {len(wanted)} servers were not ACTIVE in {seconds} s")
        time.sleep(1)
    return [server for server in cloud.compute.servers() if server.id in wanted]


with concurrent.futures.ThreadPoolExecutor(8) as pool:
    wanted = set(pool.map(create, range(count)))
made = wait(wanted, 60 + 3 * count)
made.sort(key=lambda server: int(server.name.rsplit("-", 1)[1]))
json.dump([{"id": s.id, "name": s.name, "addresses": [a["addr"] for a in sum(s.addresses.values(), [])]} for s in made], sys.stdout, indent=1)
