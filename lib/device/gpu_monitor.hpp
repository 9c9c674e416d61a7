#pragma once

#include "device/gpu_reader.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace gpt {

/// Reads a GPU's status in a thread of its own, so that nobody waits for the driver.
class GpuMonitor {
public:
  using MakeReader = std::function<std::unique_ptr<GpuReader>()>;

  /// @param make  called in the thread. What it throws becomes the notice, and nothing is read then
  explicit GpuMonitor(MakeReader make);
  /// Waits for the call that is under way, unless an exception passes: the driver may be what hangs.
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  /// Asks for a reading and returns at once.
  void request();

  /// The last reading that has arrived. Empty before the first, and again from a request that finds the one
  /// before it without an answer until that comes: a driver that hangs shall not look like one that answers.
  GpuStatus latest() const;

  /// What is not to be had, for people: said once, when it is known.
  std::optional<std::string> take_notice();

private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::jthread thread_;
};

}  // namespace gpt
