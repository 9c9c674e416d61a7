#pragma once

#include "comm/messages.hpp"
#include "comm/task.hpp"
#include "device/queue.hpp"

#include <cstdint>
#include <functional>

namespace gpt {

/// Runs make(i, slot) for i = 0 … count−1, begun in that order and at most `window` of them at a time; those
/// under way have different slots below `window`. Returns when all have ended. Polls `pool`, and gives the
/// core away through `queue` while nothing moves.
void run_pipeline(int64_t count, int64_t window, const std::function<Task(int64_t index, int64_t slot)>& make,
                  RequestPool& pool, Queue& queue);

/// On `queue`, in a turn of its own: starts what `begin` adds to the requests, and polls until it is done.
void give_requests(std::function<void(Requests&)> begin, RequestPool& pool, Queue& queue);

/// Polls until `condition` holds, as above.
void poll(const std::function<bool()>& condition, RequestPool& pool, Queue& queue);

}  // namespace gpt
