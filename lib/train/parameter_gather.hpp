#pragma once

#include "comm/comm.hpp"
#include "device/device.hpp"
#include "model/matrix_weights.hpp"
#include "train/buckets.hpp"
#include "train/communication_queue.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace gpt {

/// Spreads updated parameters from the ranks that own them, bucket by bucket on the queue of communication,
/// while the next forward pass begins.
class ParameterGather {
public:
  /// Keeps references to all of these.
  ParameterGather(const Buckets& buckets, Comm& comm, Device& device, MatrixWeights& weights,
                  CommunicationQueue& communication);

  /// This rank's parts of the bucket are updated, on `compute`, where nothing may use the bucket from now on
  /// until wait().
  void start(int64_t bucket, Queue& compute);

  /// Work given from now on to the queue that started it waits for the bucket, and for its copy.
  void wait(int64_t bucket);
  void wait_for_all();

private:
  struct Pending {
    std::unique_ptr<Event> gathered;
    Queue* compute = nullptr;  // null: nothing to wait for
  };

  const Buckets& buckets_;
  Comm& comm_;
  MatrixWeights& weights_;
  CommunicationQueue& communication_;
  std::vector<Pending> pending_;  // of each bucket
};

}  // namespace gpt
