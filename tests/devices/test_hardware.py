"""Cores and accelerators of a machine that is made up."""

import os
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from lrpt.devices import hardware, processes
from lrpt.errors import UsageError


def test_a_process_is_bound_to_one_of_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[set[int]] = []
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {2, 5}, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, to: bound.append(to), raising=False)
    assert hardware.cores() == 2
    hardware.bind_to_one_core()
    assert bound in ([{2}], [{5}])
    monkeypatch.delattr(os, "sched_getaffinity")
    assert hardware.cores() == 64


def test_the_kernel_needs_a_hopper_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for capability, fits in (("8.0", False), ("9.0", True), ("10.0", False)):
        device = SimpleNamespace(compute_capability=capability, device_kind="a GPU")
        monkeypatch.setattr(jax, "local_devices", lambda device=device: [device])
        assert hardware.on_hopper() == fits
        if fits:
            hardware.check_gpu()
    with pytest.raises(
        UsageError, match=r"^model\.loop\.kind is kernel, which needs an NVIDIA GPU of compute capability 9\.0, and this is a GPU"
    ):
        hardware.check_gpu()


@pytest.mark.parametrize(
    ("platforms", "visible", "found"),
    [
        ("", None, ["0", "1", "10"]),
        ("cuda", None, ["0", "1", "10"]),
        ("gpu,cpu", None, ["0", "1", "10"]),
        ("cpu", None, []),
        ("", "3,1", ["3", "1"]),
        ("", "0, 1", ["0", "1"]),
        ("", "2,-1,0", ["2"]),
        ("", "GPU-8932f937,MIG-GPU-8932f937/1/2", ["GPU-8932f937", "MIG-GPU-8932f937/1/2"]),
        ("", "-1", []),
        ("", "", []),
    ],
)
def test_accelerators_that_this_machine_may_use(
    platforms: str, visible: str | None, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "_has_cuda", lambda: True)
    monkeypatch.setattr(Path, "glob", lambda path, pattern: [path / name for name in ("nvidia10", "nvidia0", "nvidiactl", "nvidia1")])
    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hardware.visible_accelerators() == found
    monkeypatch.setattr(hardware, "_has_cuda", lambda: False)
    assert hardware.visible_accelerators() == []


@pytest.mark.parametrize("installed", ["jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm7_plugin"])
def test_one_plugin_for_cuda_is_enough(installed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware.importlib.util, "find_spec", lambda name: name if name == installed else None)
    monkeypatch.setenv("JAX_PLATFORMS", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert hardware.visible_accelerators() == (["0"] if "cuda" in installed else [])


def test_an_accelerator_is_faster_than_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = (hardware.operations_per_second(cpu) for cpu in (True, False))
    assert fast > 10 * slow
    for platform, speed in (("cpu", slow), ("gpu", fast)):
        monkeypatch.setattr(jax, "default_backend", lambda platform=platform: platform)
        assert hardware.operations_per_second() == speed


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes."), True),
        (RuntimeError("INTERNAL: no kernel image is available"), False),
    ],
)
def test_memory_of_the_host_or_of_a_device_was_too_small(error: Exception, expected: bool) -> None:
    assert hardware.is_out_of_memory(error) == expected


def test_devices_of_all_processes_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "local_devices", lambda: [SimpleNamespace(platform="gpu", device_kind="NVIDIA H100")] * 4)
    monkeypatch.setattr(jax, "device_count", lambda: 8)
    for count, more in ((1, {}), (2, {"processes": 2})):
        monkeypatch.setattr(processes, "count", lambda count=count: count)
        assert hardware.describe_devices() == {"device": "gpu NVIDIA H100", "devices": 8, **more}
