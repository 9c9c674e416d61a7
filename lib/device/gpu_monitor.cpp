#include "device/gpu_monitor.hpp"

#include "base/thread.hpp"

#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <utility>

namespace gpt {

struct GpuMonitor::Shared {
  std::mutex mutex;
  std::condition_variable_any asked;
  bool wanted = false;  // and nobody reads yet
  bool open = false;    // asked for, not answered
  GpuStatus latest;
  std::optional<std::string> notice;

  /// Until the thread shall stop.
  void serve(GpuReader& reader, const std::stop_token& stop) {
    for (bool is_first = true;; is_first = false) {
      {
        std::unique_lock lock(mutex);
        if (!asked.wait(lock, stop, [this] { return wanted; })) return;
        wanted = false;
      }
      const GpuStatus status = reader.read();
      const std::lock_guard lock(mutex);
      latest = status;
      open = wanted;
      if (const std::string missing = reader.missing(); is_first && !missing.empty())
        notice = fmt::format("the GPU's driver does not tell {}: log.jsonl leaves that out", missing);
    }
  }
};

GpuMonitor::GpuMonitor(MakeReader make) : shared_(std::make_shared<Shared>()) {
  thread_ = start_thread("reading the GPU's status", [shared = shared_,
                                                      make = std::move(make)](const std::stop_token& stop) {
    try {
      const std::unique_ptr<GpuReader> reader = make();
      shared->serve(*reader, stop);
    } catch (const std::exception& error) {
      const std::lock_guard lock(shared->mutex);
      shared->latest = {};
      shared->notice = fmt::format("log.jsonl says nothing of the GPU's memory and power: {}", error.what());
    }
  });
}

GpuMonitor::~GpuMonitor() {
  if (std::uncaught_exceptions() == 0) return;
  thread_.request_stop();
  thread_.detach();
}

void GpuMonitor::request() {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->open) shared_->latest = {};
    shared_->wanted = shared_->open = true;
  }
  shared_->asked.notify_one();
}

GpuStatus GpuMonitor::latest() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->latest;
}

std::optional<std::string> GpuMonitor::take_notice() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->notice, std::nullopt);
}

}  // namespace gpt
