import pytest

from agon.verifiers.sandbox import Layer, is_isolated
from agon.verifiers.sandbox.private_root import outermost

NAMESPACES = ["user namespace", "process namespace", "file system namespace", "network namespace"]


def layers(*names):
    return [Layer(name, True, "") for name in names] + [Layer("another", False, "refused")]


@pytest.mark.parametrize("names", [NAMESPACES, ["seccomp", "landlock"], [*NAMESPACES, "seccomp", "landlock"]])
def test_namespaces_or_seccomp_with_landlock_isolate(names):
    assert is_isolated(layers(*names, "resource limits"))


@pytest.mark.parametrize(
    "names", [NAMESPACES[1:], NAMESPACES[:3], ["seccomp"], ["landlock"], ["landlock", *NAMESPACES[:2]], []]
)
def test_less_does_not(names):
    assert not is_isolated(layers(*names, "resource limits"))


def test_without_limits_nothing_is_isolated():
    assert not is_isolated(layers(*NAMESPACES, "seccomp", "landlock"))


def test_folders_within_others_are_left_out():
    assert outermost(["/usr/lib/python", "/usr", "/usrlocal", "/a/b", "/a/b/../b/c"]) == ["/a/b", "/usr", "/usrlocal"]
