"""Makes the networks, the router, the flavor and the image of the tests; writes what the tests must know."""
import json
import sys

import openstack

admin = openstack.connect(cloud="admin")
user = openstack.connect(cloud="kubernetes")

external = admin.network.create_network(
    name="external", is_router_external=True, provider_network_type="flat", provider_physical_network="physnet1")
external4 = admin.network.create_subnet(
    name="external4", network_id=external.id, ip_version=4, cidr="203.0.113.0/24", is_dhcp_enabled=False)
external6 = admin.network.create_subnet(
    name="external6", network_id=external.id, ip_version=6, cidr="2001:db8:ff::/64", gateway_ip="2001:db8:ff::1", is_dhcp_enabled=False)
network = user.network.create_network(name="k8s")
subnet4 = user.network.create_subnet(name="k8s4", network_id=network.id, ip_version=4, cidr="10.0.0.0/16")
subnet6 = user.network.create_subnet(
    name="k8s6", network_id=network.id, ip_version=6, cidr="fd00::/64", gateway_ip="fd00::1",
    ipv6_address_mode="dhcpv6-stateful", ipv6_ra_mode="dhcpv6-stateful")
router = user.network.create_router(name="k8s", external_gateway_info={"network_id": external.id})
for subnet in (subnet4, subnet6):
    user.network.add_interface_to_router(router, subnet_id=subnet.id)

flavor = admin.compute.create_flavor(name="m1.small", ram=64, vcpus=1, disk=1)
image = admin.create_image(
    "tiny", data=b"\0" * 4096, disk_format="raw", container_format="bare", visibility="public", wait=True)
me = user.current_user_id
credential = user.identity.create_application_credential(me, "ccm", unrestricted=False)

projects = {project.name: project.id for project in admin.identity.projects()}
users = {}
for name, config in openstack.config.OpenStackConfig().cloud_config["clouds"].items():
    auth = config["auth"]
    users[name] = {
        "username": auth["username"], "password": auth["password"], "domain": "Default",
        "project": auth["project_name"], "project_id": projects[auth["project_name"]],
    }
json.dump({
    "auth_url": "http://127.0.0.1:5000/v3", "region": "RegionOne", "users": users,
    "application_credential": {"id": credential.id, "name": credential.name, "secret": credential.secret, "user": "kubernetes"},
    "external_network": {"id": external.id, "name": external.name, "subnet4": external4.id, "subnet6": external6.id},
    "network": {"id": network.id, "name": network.name, "subnet4": subnet4.id, "subnet6": subnet6.id,
                "cidr4": subnet4.cidr, "cidr6": subnet6.cidr},
    "router": {"id": router.id, "name": router.name},
    "flavor": {"id": flavor.id, "name": flavor.name}, "image": {"id": image.id, "name": image.name},
    "server_zone": "zone-1", "volume_zones": ["zone-1", "zone-2"],
}, open(sys.argv[1], "w"), indent=2)
