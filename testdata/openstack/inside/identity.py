"""Makes projects, users, roles and the catalogue. Keystone runs, nothing else has to."""
import openstack

ENDPOINTS = [
    ("placement", "placement", "http://127.0.0.1:8778"),
    ("image", "glance", "http://127.0.0.1:9292"),
    ("network", "neutron", "http://127.0.0.1:9696"),
    ("compute", "nova", "http://127.0.0.1:8774/v2.1"),
    ("load-balancer", "octavia", "http://127.0.0.1:9876"),
    ("volumev3", "cinderv3", "http://127.0.0.1:8776/v3/%(project_id)s"),
]
# name, project, roles
USERS = [
    ("service", "service", ["admin", "service"]),
    ("kubernetes", "kubernetes", ["member", "load-balancer_member"]),
    ("other", "other", ["member", "load-balancer_member"]),
    ("reader", "kubernetes", ["reader"]),
]

cloud = openstack.connect(cloud="admin")
identity = cloud.identity
roles = {role.name: role for role in identity.roles()}
for name in ("load-balancer_admin", "load-balancer_member", "load-balancer_observer", "service"):
    if name not in roles:
        roles[name] = identity.create_role(name=name)
projects = {project.name: project for project in identity.projects()}
clouds = openstack.config.OpenStackConfig().cloud_config["clouds"]
for name, project, granted in USERS:
    if project not in projects:
        projects[project] = identity.create_project(name=project, domain_id="default")
    password = clouds[name]["auth"]["password"] if name in clouds else name  # "service" is in the configurations
    user = identity.create_user(name=name, password=password, domain_id="default", default_project_id=projects[project].id)
    for role in granted:
        identity.assign_project_role_to_user(projects[project], user, roles[role])
identity.assign_project_role_to_user(projects["admin"], identity.find_user("admin"), roles["load-balancer_admin"])
for kind, name, url in ENDPOINTS:
    service = identity.create_service(type=kind, name=name)
    for interface in ("public", "internal", "admin"):
        identity.create_endpoint(service_id=service.id, region_id="RegionOne", interface=interface, url=url)
