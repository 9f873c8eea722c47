"""Prints what the routes' test compares: the routes and the pairs of ports, one
line each, as openstacksdk sees them."""
import openstack

c = openstack.connect(cloud="kubernetes")
for router in c.network.routers(name="routes-router"):
    for r in router.routes or []:
        print(r["destination"], "via", r["nexthop"])
for net in c.network.networks(name="routes-net"):
    for port in c.network.ports(network_id=net.id):
        for pair in port.allowed_address_pairs or []:
            print(port.name, "allows", pair["ip_address"])
