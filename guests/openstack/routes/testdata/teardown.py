"""Removes what setup.py and the test made, whatever is left of it."""
import openstack

c = openstack.connect(cloud="kubernetes")
for s in c.compute.servers(name="^Routes-"):
    c.compute.delete_server(s, ignore_missing=True)
for router in c.network.routers(name="routes-router"):
    c.network.update_router(router, routes=[])
    for port in c.network.ports(device_id=router.id):
        for ip in port.fixed_ips:
            c.network.remove_interface_from_router(router, subnet_id=ip["subnet_id"])
    c.network.delete_router(router)
for net in c.network.networks(name="routes-net"):
    for port in c.network.ports(network_id=net.id):
        c.network.delete_port(port, ignore_missing=True)
    c.network.delete_network(net)
