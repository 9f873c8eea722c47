"""Takes the pairs from the port of server 0: what a crash may leave."""
import openstack

c = openstack.connect(cloud="kubernetes")
port = next(iter(c.network.ports(name="routes-0")))
c.network.update_port(port, allowed_address_pairs=[])
