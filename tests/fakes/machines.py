"""Machines nobody of us has at hand: their facts, written down from the makers' and PyTorch's documentation."""

import msgspec

from core.engine.devices.capabilities import CudaDevice, MachineFacts

GB = 1 << 30
BACKENDS = ("inductor", "cudagraphs", "openxla", "tvm")
MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def variant(facts: MachineFacts, **changes: object) -> MachineFacts:
    return msgspec.structs.replace(facts, **changes)


PC = MachineFacts(
    system="Linux",
    machine="x86_64",
    cpu_name="AMD Ryzen 7",
    memory_bytes=32 * GB,
    cores=8,
    cpu_bf16=False,
    torch_cuda=False,
    nvidia_driver=False,
    optional={"bitsandbytes": "0.50.2", "peft": "0.21.2"},
    compile_backends=BACKENDS,
    compile_modes=MODES,
    cpp_compiler=True,
)
RTX_3060 = CudaDevice(name="NVIDIA GeForce RTX 3060 Laptop GPU", memory_bytes=6 * GB, capability=(8, 6))
GTX_1660 = CudaDevice(name="NVIDIA GeForce GTX 1660", memory_bytes=6 * GB, capability=(7, 5))
GTX_1080 = CudaDevice(name="NVIDIA GeForce GTX 1080", memory_bytes=8 * GB, capability=(6, 1))
H100 = CudaDevice(name="NVIDIA H100", memory_bytes=80 * GB, capability=(9, 0))
GB10 = CudaDevice(name="NVIDIA GB10", memory_bytes=120 * GB, capability=(12, 1), unified=True)
LAPTOP = variant(
    PC, torch_cuda=True, nvidia_driver=True, cuda=(RTX_3060,), optional={**PC.optional, "triton": "3.7.0"}
)
OLD_CARD = variant(LAPTOP, cuda=(GTX_1660,))
OLDER_CARD = variant(LAPTOP, cuda=(GTX_1080,))
TWO_GPUS = variant(LAPTOP, cuda=(RTX_3060, GTX_1660))
SPARK = variant(LAPTOP, machine="aarch64", cpu_name="NVIDIA Grace", memory_bytes=120 * GB, cuda=(GB10,))
SERVER = variant(
    LAPTOP,
    cuda=(H100,),
    cpu_bf16=True,
    optional={
        **LAPTOP.optional,
        "torchao": "0.18.0",
        "deepspeed": "0.19.8",
        "flash-attn": "2.8.3",
        "flash-attn-3": "3.0.0",
        "torch_xla": "2.9.0",
        "tvm": "0.21.0",
    },
)

M3_MAX = MachineFacts(
    system="Darwin",
    machine="arm64",
    cpu_name="Apple M3 Max",
    memory_bytes=36 * GB,
    cores=14,
    cpu_bf16=False,
    torch_cuda=False,
    nvidia_driver=False,
    mps_built=True,
    mps_available=True,
    mps_memory_bytes=27 * GB,
    macos="14.5",
    optional={"peft": "0.21.2"},
    compile_backends=BACKENDS,
    compile_modes=MODES,
    cpp_compiler=True,
)
M2_8GB = variant(M3_MAX, cpu_name="Apple M2", memory_bytes=8 * GB, mps_memory_bytes=5 * GB, cores=8)
M1_ON_13 = variant(M3_MAX, cpu_name="Apple M1", macos="13.6", mps_available=False, cores=8)
TRANSLATED = variant(M3_MAX, machine="x86_64", translated=True, mps_built=False, mps_available=False)
INTEL_MAC = variant(M3_MAX, machine="x86_64", cpu_name="Intel Core i7", mps_available=False)
NO_MPS_TORCH = variant(M3_MAX, mps_built=False, mps_available=False)
BUNDLED = variant(PC, frozen=True)
BARE = variant(PC, optional={}, cpp_compiler=False)

EVERY_MACHINE = {
    "PC": PC,
    "RTX 3060 laptop": LAPTOP,
    "old card": OLD_CARD,
    "older card": OLDER_CARD,
    "two GPUs": TWO_GPUS,
    "GB10": SPARK,
    "server": SERVER,
    "M3 Max": M3_MAX,
    "M2 8 GB": M2_8GB,
    "M1 on macOS 13.6": M1_ON_13,
    "translated": TRANSLATED,
    "Intel Mac": INTEL_MAC,
    "torch without MPS": NO_MPS_TORCH,
    "bundled": BUNDLED,
    "bare": BARE,
}
