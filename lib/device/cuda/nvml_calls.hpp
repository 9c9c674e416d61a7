#pragma once

// What is used of NVML's C interface (NVML API Reference Guide). Its header is a part of CUDA's toolkit that
// not every installation has; a function whose types change gets another suffix (_v2, _v3), and the old one
// stays.

namespace gpt::nvml {

using Status = int;
inline constexpr Status success = 0;
inline constexpr Status insufficient_size = 7;
inline constexpr int temperature_of_gpu = 0;  // NVML_TEMPERATURE_GPU
inline constexpr int clock_of_sm = 1;         // NVML_CLOCK_SM
inline constexpr auto not_available = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE

struct DeviceRecord;
using Device = DeviceRecord*;

/// nvmlMemory_t; bytes
struct Memory {
  unsigned long long total, free, used;
};

/// nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3
struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

using Init = Status (*)();  // and nvmlShutdown
using ErrorString = const char* (*)(Status);
using HandleByUuid = Status (*)(const char* uuid, Device*);
using MemoryInfo = Status (*)(Device, Memory*);
using RunningProcesses = Status (*)(Device, unsigned* count, Process*);
using PowerUsage = Status (*)(Device, unsigned* milliwatts);
using Temperature = Status (*)(Device, int sensor, unsigned* celsius);
using ClockInfo = Status (*)(Device, int clock, unsigned* megahertz);

}  // namespace gpt::nvml
