"""servers.py N [PREFIX]: servers PREFIX-0 to PREFIX-(N-1) in the project kubernetes; prints them as JSON when all are ACTIVE.

Nova builds the first few. It needs three seconds of processor for each, mostly
Neutron's, so the rest are copies: their ports are made by Neutron, in bulk, and their
rows in Nova's databases are those of the first with other names and addresses.
"""
import concurrent.futures
import json
import sys
import uuid

import openstack
import pymysql

BUILT = 5
BULK = 50
# Where Nova keeps what it knows of a server, with the column that has its ID.
TABLES = [
    ("nova.instances", "uuid"), ("nova.instance_extra", "instance_uuid"), ("nova.instance_info_caches", "instance_uuid"),
    ("nova.instance_system_metadata", "instance_uuid"), ("nova.block_device_mapping", "instance_uuid"),
    ("nova_api.request_specs", "instance_uuid"), ("nova_api.instance_mappings", "instance_uuid"),
]

count, prefix = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "node"
admin = openstack.connect(cloud="admin")
cloud = openstack.connect(cloud="kubernetes")
ids = json.load(open("/run/openrc.json"))


def build(number):
    server = cloud.compute.create_server(
        name=f"{prefix}-{number}", flavor_id=ids["flavor"]["id"], image_id=ids["image"]["id"], networks=[{"uuid": ids["network"]["id"]}])
    return cloud.compute.wait_for_server(server, interval=1, wait=300).id


def port_of(server):
    """Its ID, its MAC address, and its fixed address by subnet."""
    return facts(next(cloud.network.ports(device_id=server)))


def facts(port):
    return port["id"], port["mac_address"], {fixed["subnet_id"]: fixed["ip_address"] for fixed in port["fixed_ips"]}


def new_ports(servers):
    wanted = [{"network_id": ids["network"]["id"], "project_id": ids["users"]["kubernetes"]["project_id"], "device_id": server,
               "device_owner": "compute:" + ids["server_zone"], "binding:host_id": "host-1"} for server in servers]
    answer = admin.network.post("/ports", json={"ports": wanted})
    openstack.exceptions.raise_from_response(answer)
    made = {port["device_id"]: facts(port) for port in answer.json()["ports"]}
    return [made[server] for server in servers]


def copied(value, replace):
    """A column's value with each replacement: where it is the whole, or a string within JSON."""
    if value in replace:
        return replace[value]
    if isinstance(value, str):
        for old, new in replace.items():
            value = value.replace(json.dumps(old), json.dumps(new))
    return value


def insert(cursor, table, rows, replace):
    for row in rows:
        row = {column: copied(value, replace) for column, value in row.items() if column != "id"}
        if table == "nova.block_device_mapping":
            row["uuid"] = str(uuid.uuid4())
        names = ", ".join(f"`{column}`" for column in row)
        cursor.execute(f"insert into {table} ({names}) values ({', '.join(['%s'] * len(row))})", list(row.values()))


def copy(first, numbers):
    old_port, old_mac, old_addresses = port_of(first)
    database = pymysql.connect(unix_socket="/run/mysqld/mysqld.sock", user="root", cursorclass=pymysql.cursors.DictCursor)
    cursor = database.cursor()
    rows = {}
    for table, column in TABLES:
        cursor.execute(f"select * from {table} where {column} = %s", first)
        rows[table] = cursor.fetchall()
    servers = [str(uuid.uuid4()) for _ in numbers]
    for start in range(0, len(servers), BULK):
        some = servers[start:start + BULK]
        for number, server, (port, mac, addresses) in zip(numbers[start:], some, new_ports(some)):
            replace = {first: server, f"{prefix}-0": f"{prefix}-{number}", old_port: port, old_mac: mac,
                       "tap" + old_port[:11]: "tap" + port[:11]}
            replace.update({old: addresses[subnet] for subnet, old in old_addresses.items()})
            for table, _ in TABLES:
                insert(cursor, table, rows[table], replace)
    database.commit()
    return servers


with concurrent.futures.ThreadPoolExecutor(BUILT) as pool:
    made = list(pool.map(build, range(min(count, BUILT))))
if count > BUILT:
    made += copy(made[0], range(BUILT, count))
order = {server: place for place, server in enumerate(made)}
listed = sorted((server for server in cloud.compute.servers() if server.id in order), key=lambda server: order[server.id])
wrong = [server.name for server in listed if server.status != "ACTIVE"]
if wrong or len(listed) != count:
    sys.exit(f"of {count} servers {len(listed)} are listed; not ACTIVE are {wrong[:3]}")
json.dump([{"id": s.id, "name": s.name, "addresses": [a["addr"] for a in sum(s.addresses.values(), [])]} for s in listed], sys.stdout, indent=1)
