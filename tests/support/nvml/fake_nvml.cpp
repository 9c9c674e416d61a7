// NVIDIA's management library as tests need it: libnvidia-ml.so.1 with the functions that gpt_mpi calls, for
// tests only. It knows every GPU whose UUID begins with "GPU-", and says of it what follows from the UUID's
// first eight digits, n: 1 GiB and n bytes in use, of which the calling process has 512 MiB; 300.5 + n W; 60
// + n °C; 1500 + n MHz.
//
//   FAKE_NVML_FAILS   functions that fail, with commas: nvmlInit_v2,nvmlDeviceGetPowerUsage
//   FAKE_NVML_SLEEPS  milliseconds that each reading of the memory takes
//
// Read at every call.
#include "device/cuda/nvml_calls.hpp"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

namespace nvml = gpt::nvml;

namespace {

constexpr nvml::Status not_supported = 3, not_found = 6;

unsigned number_of(nvml::Device device) { return static_cast<unsigned>(reinterpret_cast<uintptr_t>(device)); }

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

nvml::Status status_of(std::string_view function) {
  const std::string list = "," + std::string(variable("FAKE_NVML_FAILS")) + ",";
  return list.find("," + std::string(function) + ",") == std::string::npos ? nvml::success : not_supported;
}

}  // namespace

extern "C" {
nvml::Status nvmlInit_v2() { return status_of(__func__); }
nvml::Status nvmlShutdown() { return nvml::success; }
const char* nvmlErrorString(nvml::Status status) {
  return status == not_found ? "Not Found" : "Not Supported";
}

nvml::Status nvmlDeviceGetHandleByUUID(const char* uuid, nvml::Device* device) {
  constexpr std::string_view prefix = "GPU-";
  constexpr int hexadecimal = 16;
  if (!std::string_view(uuid).starts_with(prefix)) return not_found;
  *device = reinterpret_cast<nvml::Device>(std::strtoul(uuid + prefix.size(), nullptr, hexadecimal));
  return status_of(__func__);
}

nvml::Status nvmlDeviceGetMemoryInfo(nvml::Device device, nvml::Memory* memory) {
  const std::string sleep(variable("FAKE_NVML_SLEEPS"));
  if (!sleep.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(sleep.c_str())));
  constexpr auto total = 8ULL << 30, used = 1ULL << 30;
  *memory = {.total = total, .free = total - used - number_of(device), .used = used + number_of(device)};
  return status_of(__func__);
}

/// Twenty processes, this one the last of them.
nvml::Status nvmlDeviceGetComputeRunningProcesses_v3(nvml::Device, unsigned* count, nvml::Process* all) {
  constexpr unsigned processes = 20;
  constexpr auto own = 512ULL << 20;
  const bool fits = *count >= processes;
  *count = processes;
  if (!fits) return nvml::insufficient_size;
  for (unsigned i = 0; i < processes; ++i)
    all[i] = {.pid = i + 1 < processes ? 0 : static_cast<unsigned>(getpid()),
              .used_bytes = own,
              .gpu_instance = ~0U,
              .compute_instance = ~0U};
  return status_of(__func__);
}

nvml::Status nvmlDeviceGetPowerUsage(nvml::Device device, unsigned* milliwatts) {
  *milliwatts = 300500 + 1000 * number_of(device);
  return status_of(__func__);
}

nvml::Status nvmlDeviceGetTemperature(nvml::Device device, int sensor, unsigned* celsius) {
  *celsius = sensor == nvml::temperature_of_gpu ? 60 + number_of(device) : 0;
  return status_of(__func__);
}

#ifndef FAKE_NVML_WITHOUT_CLOCK
nvml::Status nvmlDeviceGetClockInfo(nvml::Device device, int clock, unsigned* megahertz) {
  *megahertz = clock == nvml::clock_of_sm ? 1500 + number_of(device) : 0;
  return status_of(__func__);
}
#endif
}
