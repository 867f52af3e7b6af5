"""Asks a pool for slots as OpenStack's users do, with openstacksdk; for `live.rs`.

Two tenants: each makes a profile, asks for a slot, binds, uses and unbinds it, and sees nothing of
the other's. Prints `<word>` after each part and waits for a line, so that the test can look.
"""

import sys
import time

import openstack

URL = "http://127.0.0.1:6666"
INSTANCE = "5b9c7ad4-4e4f-4c4d-8d3a-7f0d1c2b3a49"


def proxy(token):
    connection = openstack.connect(
        auth_type="admin_token",
        endpoint=URL,
        token=token,
        accelerator_endpoint_override=URL + "/accelerator/v2",
    )
    return connection.accelerator


def say(word):
    print(f"<{word}>", flush=True)
    sys.stdin.readline()


def patch(op):
    values = {"/hostname": "host1", "/instance_uuid": INSTANCE}
    if op == "remove":
        return [{"path": path, "op": op} for path in values]
    return [{"path": path, "op": op, "value": value} for path, value in values.items()]


def bound(pool, name, function):
    groups = [{"resources:FPGA": "1", "thermocline:function": function}]
    profile = pool.create_device_profile(name=name, groups=groups)
    assert profile.name == name, profile
    request = pool.create_accelerator_request(device_profile_name=name)
    assert request.state == "Initial", request
    pool.update_accelerator_request(request.uuid, patch("add"))
    until = time.monotonic() + 60
    while pool.get_accelerator_request(request.uuid).state != "Bound":
        assert time.monotonic() < until, "it is not bound"
        time.sleep(0.02)
    return request.uuid


def main():
    a, b = proxy("token-of-tenant-a"), proxy("token-of-tenant-b")
    assert len(list(a.devices())) == 2 and len(list(a.deployables())) == 4
    one = bound(a, "mine", "nat")
    two = bound(b, "mine", "dpi")
    for pool, own, other in [(a, one, two), (b, two, one)]:
        assert [request.uuid for request in pool.accelerator_requests()] == [own]
        assert [profile.name for profile in pool.device_profiles()] == ["mine"]
        assert len(list(pool.deployables())) == 3, "the other's slot is not seen"
        try:
            pool.get_accelerator_request(other)
        except openstack.exceptions.NotFoundException:
            continue
        raise AssertionError("the other's request is seen")
    try:
        list(proxy("no token").devices())
    except openstack.exceptions.HttpException as refused:
        assert refused.status_code == 401, refused
    say("bound")
    a.update_accelerator_request(one, patch("remove"))
    assert a.get_accelerator_request(one).state == "Unbound"
    a.delete_accelerator_request(one)
    a.delete_device_profile("mine")
    assert not list(a.accelerator_requests()) and not list(a.device_profiles())
    assert len(list(a.deployables())) == 3, "b has its slot"
    say("unbound")


main()
