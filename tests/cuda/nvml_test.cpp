#include "base/error.hpp"
#include "device/gpu_monitor.hpp"

#include <chrono>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <string>
#include <thread>

using namespace gpt;

namespace {

const std::string uuid = "GPU-00000002-5374-616e-642d-696e20475055";
const GpuStatus whole{
    .memory_bytes = 0x1p30 + 2, .process_bytes = 0x1p29, .watts = 302.5, .celsius = 62, .sm_mhz = 1502};

/// A variable of the environment while it lives.
class Variable {
public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

private:
  const char* name_;
};

/// Whether `condition` comes true within ten seconds.
template <class Condition>
bool comes_true(const Condition& condition) {
  for (int i = 0; i < 10000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

GpuMonitor::MakeReader reader_of(const std::string& library) {
  return [library] { return make_gpu_reader(uuid, library); };
}

}  // namespace

TEST_CASE("a GPU's status is NVML's, of the GPU with that UUID") {
  const auto reader = make_gpu_reader(uuid, FAKE_NVML);
  CHECK(reader->read() == whole);
  CHECK(reader->missing().empty());
  CHECK(make_gpu_reader("GPU-0000000a-0000-0000-0000-000000000000", FAKE_NVML)->read().celsius == 70.0);
}

TEST_CASE("what fails, now or from the beginning, is left out, and the rest stays") {
  const auto reader = make_gpu_reader(uuid, FAKE_NVML);
  for (const auto& [function, field] :
       {std::pair("nvmlDeviceGetMemoryInfo", &GpuStatus::memory_bytes),
        std::pair("nvmlDeviceGetComputeRunningProcesses_v3", &GpuStatus::process_bytes),
        std::pair("nvmlDeviceGetPowerUsage", &GpuStatus::watts),
        std::pair("nvmlDeviceGetTemperature", &GpuStatus::celsius),
        std::pair("nvmlDeviceGetClockInfo", &GpuStatus::sm_mhz)}) {
    INFO(function);
    GpuStatus expected = whole;
    (expected.*field).reset();
    {
      const Variable fails("FAKE_NVML_FAILS", function);
      CHECK(reader->read() == expected);
    }
    CHECK(reader->read() == whole);
  }
  const Variable fails("FAKE_NVML_FAILS", "nvmlDeviceGetPowerUsage,nvmlDeviceGetTemperature");
  reader->read();
  CHECK(reader->missing() == "gpu_watts, gpu_celsius");
}

TEST_CASE("a library that lacks a function gives the other values") {
  const auto reader = make_gpu_reader(uuid, FAKE_NVML_WITHOUT_CLOCK);
  GpuStatus expected = whole;
  expected.sm_mhz.reset();
  CHECK(reader->read() == expected);
  CHECK(reader->missing() == "gpu_sm_mhz");
}

TEST_CASE("a library that is missing, broken or knows nothing is an error that says so") {
  CHECK_THROWS_WITH_AS(make_gpu_reader(uuid, "libno-such-nvml.so.1"),
                       doctest::Contains("libno-such-nvml.so.1"), Error);
  CHECK_THROWS_WITH_AS(make_gpu_reader(uuid, "libm.so.6"), doctest::Contains("has no nvmlInit_v2"), Error);
  CHECK_THROWS_WITH_AS(make_gpu_reader("MIG-1", FAKE_NVML),
                       doctest::Contains("nvmlDeviceGetHandleByUUID(MIG-1): Not Found (6)"), Error);
  const Variable fails("FAKE_NVML_FAILS", "nvmlInit_v2");
  CHECK_THROWS_WITH_AS(make_gpu_reader(uuid, FAKE_NVML), doctest::Contains("nvmlInit_v2: Not Supported (3)"),
                       Error);
}

TEST_CASE("a monitor has nothing before it was asked, and then the reading") {
  GpuMonitor monitor(reader_of(FAKE_NVML));
  CHECK(monitor.latest() == GpuStatus{});
  monitor.request();
  CHECK(comes_true([&] { return monitor.latest() == whole; }));
  CHECK_FALSE(monitor.take_notice().has_value());
}

TEST_CASE("a monitor without its library says so once, and readings stay empty") {
  GpuMonitor monitor(reader_of("libno-such-nvml.so.1"));
  std::optional<std::string> notice;
  CHECK(comes_true([&] { return (notice = monitor.take_notice()).has_value(); }));
  CHECK(notice->find("libno-such-nvml.so.1") != std::string::npos);
  for (int i = 0; i < 3; ++i) monitor.request();
  CHECK(monitor.latest() == GpuStatus{});
  CHECK_FALSE(monitor.take_notice().has_value());
}

TEST_CASE("what a driver does not tell is said once") {
  const Variable fails("FAKE_NVML_FAILS", "nvmlDeviceGetPowerUsage");
  GpuMonitor monitor(reader_of(FAKE_NVML));
  std::optional<std::string> notice;
  monitor.request();
  CHECK(comes_true([&] { return (notice = monitor.take_notice()).has_value(); }));
  CHECK(notice->find("gpu_watts") != std::string::npos);
  monitor.request();
  CHECK(comes_true([&] { return monitor.latest().celsius.has_value(); }));
  CHECK_FALSE(monitor.take_notice().has_value());
}

TEST_CASE("nobody waits for a slow driver, and what it has not answered by the next request is void") {
  const Variable sleeps("FAKE_NVML_SLEEPS", "400");
  GpuMonitor monitor(reader_of(FAKE_NVML));
  const auto begin = std::chrono::steady_clock::now();
  monitor.request();
  CHECK(monitor.latest() == GpuStatus{});
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(200));
  CHECK(comes_true([&] { return monitor.latest() == whole; }));
  monitor.request();
  CHECK(monitor.latest() == whole);
  monitor.request();
  CHECK(monitor.latest() == GpuStatus{});
  CHECK(comes_true([&] { return monitor.latest() == whole; }));
}
