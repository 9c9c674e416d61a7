#include "base/contracts.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/handles.hpp"
#include "device/cuda/native.hpp"
#include "device/queue_timer.hpp"

#include <utility>

namespace gpt {
namespace {

/// Two events a span; they are kept, since a step is timed again and again.
class CudaTimer final : public QueueTimer {
public:
  explicit CudaTimer(int device) : device_(device) {}

  void begin(Queue& queue) override {
    expects(marks_ % 2 == 0);
    mark(queue);
  }
  void end(Queue& queue) override {
    expects(marks_ % 2 == 1);
    mark(queue);
  }

  std::vector<double> seconds() override {
    constexpr double millisecond = 1e-3;
    use_cuda_device(device_);
    std::vector<double> spans;
    for (size_t i = 0; i + 1 < marks_; i += 2) {
      float milliseconds = 0.0F;
      check_cuda(cudaEventSynchronize(events_[i + 1].get()));
      check_cuda(cudaEventElapsedTime(&milliseconds, events_[i].get(), events_[i + 1].get()));
      spans.push_back(millisecond * milliseconds);
    }
    marks_ = 0;
    return spans;
  }

private:
  void mark(Queue& queue) {
    use_cuda_device(device_);
    if (marks_ == events_.size()) {
      cudaEvent_t event = nullptr;
      check_cuda(cudaEventCreate(&event));
      events_.emplace_back(event);
    }
    check_cuda(cudaEventRecord(events_[marks_++].get(), stream_of(queue)));
  }

  int device_;
  std::vector<CudaEventHandle> events_;
  size_t marks_ = 0;
};

}  // namespace

std::unique_ptr<QueueTimer> make_cuda_timer(int index) { return std::make_unique<CudaTimer>(index); }

}  // namespace gpt
