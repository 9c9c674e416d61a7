#include "comm/pipeline.hpp"

#include "base/fault.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace gpt {

void run_pipeline(int64_t count, int64_t window, const std::function<Task(int64_t index, int64_t slot)>& make,
                  RequestPool& pool, Queue& queue) {
  std::vector<std::optional<Task>> slots(static_cast<size_t>(std::min(count, window)));
  int64_t begun = 0, ended = 0, idle = 0;
  // As far as it can go without a message that has not come; then the next one takes its place.
  const auto go_on = [&](std::optional<Task>& task, int64_t slot) {
    bool moved = false;
    while (task || begun < count) {
      if (!task) {
        fault_point("comm.block");
        task.emplace(make(begun++, slot));
      }
      if (!task->advance()) break;
      moved = true;
      if (!task->is_done()) continue;
      task.reset();
      ++ended;
    }
    return moved;
  };
  auto looked = std::chrono::steady_clock::now();
  while (true) {
    const int64_t under_way = begun - ended;
    int64_t moved = 0;
    pool.progress();
    for (size_t slot = 0; slot < slots.size(); ++slot)
      if (go_on(slots[slot], static_cast<int64_t>(slot))) ++moved;
    if (ended == count) return;
    const auto now = std::chrono::steady_clock::now();
    if (under_way > 0) pool.pace().note(now - std::exchange(looked, now), moved, under_way);
    idle = moved > 0 ? 0 : idle + 1;
    queue.pause(idle, pool.pace().pause());
  }
}

void give_requests(std::function<void(Requests&)> begin, RequestPool& pool, Queue& queue) {
  queue.host([begin = std::move(begin), &pool, &queue] {
    const Turn turn(pool);
    Requests requests(pool);
    fault_point("comm.block");
    begin(requests);
    poll([&] { return requests.are_done(); }, pool, queue);
  });
}

void poll(const std::function<bool()>& condition, RequestPool& pool, Queue& queue) {
  // Twice as long each time, up to the time in which a slow link empties what is under way.
  constexpr int64_t doublings = 3;
  for (int64_t idle = 0;; ++idle) {
    pool.progress();
    if (condition()) return;
    queue.pause(idle, Pace::shortest * (1 << std::min(idle, doublings)));
  }
}

}  // namespace gpt
