"""A network with both families, a router and five servers, for the test of
routes. Prints their IDs."""
import json
import openstack

c = openstack.connect(cloud="kubernetes")
net = c.network.create_network(name="routes-net")
v4 = c.network.create_subnet(name="routes-v4", network_id=net.id, ip_version=4, cidr="10.77.0.0/24")
v6 = c.network.create_subnet(name="routes-v6", network_id=net.id, ip_version=6, cidr="fd77::/64")
router = c.network.create_router(name="routes-router")
for subnet in (v4, v6):
    c.network.add_interface_to_router(router, subnet_id=subnet.id)
flavor = next(iter(c.compute.flavors()))
image = next(iter(c.image.images()))
for i in range(5):
    # The ports are given to the servers by hand, since a busy Nova takes its
    # time, and a route needs no server that runs.
    server = c.compute.create_server(name=f"Routes-{i}", flavor_id=flavor.id, image_id=image.id, networks="none")
    c.network.create_port(name=f"routes-{i}", network_id=net.id, device_id=server.id, fixed_ips=[
        {"subnet_id": v4.id, "ip_address": f"10.77.0.{10 + i}"}, {"subnet_id": v6.id, "ip_address": f"fd77::{10 + i:x}"}])
print(json.dumps({"router": router.id}))
