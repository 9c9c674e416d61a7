#include "base/error.hpp"
#include "base/handle.hpp"
#include "device/cuda/nvml_calls.hpp"
#include "device/gpu_reader.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <vector>

namespace gpt {
namespace {

struct LibraryTraits {
  using type = void*;
  static type null() { return nullptr; }
  static void release(type library) { dlclose(library); }
};
using LibraryHandle = Handle<LibraryTraits>;

LibraryHandle load(const std::string& library) {
  LibraryHandle handle(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!handle) {
    const char* const reason = dlerror();
    throw Error(
        fmt::format("NVIDIA's management library cannot be loaded: {}: it comes with the driver, and "
                    "containers must be given it (capability utility)",
                    reason != nullptr ? reason : library));
  }
  return handle;
}

/// Null where the library has no function of that name.
template <class Function>
Function find(const LibraryHandle& library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library.get(), name));
}

/// NVML between nvmlInit and nvmlShutdown.
class Session {
public:
  explicit Session(const std::string& library) : library_(load(library)) {
    const auto init = get<nvml::Init>("nvmlInit_v2");
    shut_down_ = get<nvml::Init>("nvmlShutdown");
    check(init(), "nvmlInit_v2");
    initialized_ = true;
  }
  ~Session() {
    if (initialized_) shut_down_();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  template <class Function>
  Function find(const char* name) const {
    return gpt::find<Function>(library_, name);
  }

  /// @throws Error if there is none
  template <class Function>
  Function get(const char* name) const {
    const auto function = find<Function>(name);
    validate(function != nullptr, ExitCode::failed, "NVIDIA's management library has no {}", name);
    return function;
  }

  /// @throws Error with NVML's own words
  void check(nvml::Status status, const char* call) const {
    if (status == nvml::success) return;
    const auto words = find<nvml::ErrorString>("nvmlErrorString");
    throw Error(fmt::format("{}: {} ({})", call, words != nullptr ? words(status) : "NVML", status));
  }

private:
  LibraryHandle library_;
  nvml::Init shut_down_ = nullptr;
  bool initialized_ = false;
};

class NvmlReader final : public GpuReader {
public:
  NvmlReader(const std::string& uuid, const std::string& library)
      : session_(library),
        memory_(session_.find<nvml::MemoryInfo>("nvmlDeviceGetMemoryInfo")),
        processes_(session_.find<nvml::RunningProcesses>("nvmlDeviceGetComputeRunningProcesses_v3")),
        power_(session_.find<nvml::PowerUsage>("nvmlDeviceGetPowerUsage")),
        temperature_(session_.find<nvml::Temperature>("nvmlDeviceGetTemperature")),
        clock_(session_.find<nvml::ClockInfo>("nvmlDeviceGetClockInfo")) {
    constexpr const char* by_uuid = "nvmlDeviceGetHandleByUUID";
    session_.check(session_.get<nvml::HandleByUuid>(by_uuid)(uuid.c_str(), &device_),
                   fmt::format("{}({})", by_uuid, uuid).c_str());
  }

  GpuStatus read() override {
    constexpr double milliwatts = 1000.0;  // a watt
    GpuStatus status;
    if (nvml::Memory memory{}; memory_ != nullptr && memory_(device_, &memory) == nvml::success)
      status.memory_bytes = static_cast<double>(memory.used);
    status.process_bytes = own_bytes();
    if (unsigned value = 0; power_ != nullptr && power_(device_, &value) == nvml::success)
      status.watts = value / milliwatts;
    if (unsigned value = 0;
        temperature_ != nullptr && temperature_(device_, nvml::temperature_of_gpu, &value) == nvml::success)
      status.celsius = value;
    if (unsigned value = 0; clock_ != nullptr && clock_(device_, nvml::clock_of_sm, &value) == nvml::success)
      status.sm_mhz = value;
    seen_ = status;
    return status;
  }

  std::string missing() const override {
    std::vector<std::string> names;
    for (const GpuField& field : gpu_fields) {
      // Drivers know processes by the numbers that the host gives them, which containers often do not see.
      if (field.value == &GpuStatus::process_bytes) continue;
      if (!(seen_.*field.value)) names.emplace_back(field.name);
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

private:
  /// Nothing where the driver does not show this process.
  std::optional<double> own_bytes() const {
    if (processes_ == nullptr) return {};
    constexpr unsigned usual = 16, some_more = 8;
    std::vector<nvml::Process> all(usual);
    auto count = usual;
    nvml::Status status = processes_(device_, &count, all.data());
    if (status == nvml::insufficient_size) {
      all.resize(count += some_more);  // others may have started meanwhile
      status = processes_(device_, &count, all.data());
    }
    if (status != nvml::success) return {};
    all.resize(count);
    for (const nvml::Process& process : all)
      if (process.pid == static_cast<unsigned>(getpid()) && process.used_bytes != nvml::not_available)
        return static_cast<double>(process.used_bytes);
    return {};
  }

  Session session_;
  nvml::MemoryInfo memory_;
  nvml::RunningProcesses processes_;
  nvml::PowerUsage power_;
  nvml::Temperature temperature_;
  nvml::ClockInfo clock_;
  nvml::Device device_ = nullptr;
  GpuStatus seen_;
};

}  // namespace

std::unique_ptr<GpuReader> make_gpu_reader(const std::string& uuid, const std::string& library) {
  return std::make_unique<NvmlReader>(uuid, library);
}

}  // namespace gpt
