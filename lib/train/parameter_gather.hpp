#pragma once

#include "comm/comm.hpp"
#include "device/device.hpp"
#include "train/buckets.hpp"
#include "train/communication_queue.hpp"
#include "train/weights.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace gpt {

/// Spreads updated weights, as the model reads them, from the ranks that own them, bucket by bucket on the
/// queue of communication, while the next forward pass begins.
class ParameterGather {
public:
  /// Keeps references to all of these.
  ParameterGather(const Buckets& buckets, Comm& comm, Device& device, const Weights& weights,
                  CommunicationQueue& communication);

  /// This rank's parts of the bucket are updated, on `compute`, where nothing may use the bucket from now on
  /// until wait().
  void start(int64_t bucket, Queue& compute);

  /// Work given from now on to the queue that started it waits for the bucket.
  void wait(int64_t bucket);
  void wait_for_all();

private:
  struct Pending {
    std::unique_ptr<Event> gathered;
    Queue* compute = nullptr;  // null: nothing to wait for
  };

  const Buckets& buckets_;
  Comm& comm_;
  const Weights& weights_;
  CommunicationQueue& communication_;
  std::vector<Pending> pending_;  // of each bucket
};

}  // namespace gpt
